"""The model file against what is mapped of it, the time of a wake, and who can reach the server."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.check.doors import Doors, door_rules, scope_of
from collector.check.model import Level
from collector.check.waketime import WakeTime, durations, wake_rules, wake_time
from collector.check.weights import look_at_weights, mapped_files, model_rules

LOADED = b"""0.00.004.851 I srv    load_model: loading model '/m.gguf'
0.03.004.851 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'
0.03.058.724 I srv          init: model loaded
"""
WOKEN = b"""[ 8080] 5.00.368.530 I que    start_loop: exiting sleeping state
[ 8080] 5.00.368.552 I srv  handle_sleep: server is exiting sleeping state
[ 8080] 5.00.368.586 I srv    load_model: loading model '/m.gguf'
[ 8080] 5.02.868.552 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512
"""
SIZE = 8 * mmap.PAGESIZE


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    """A file that this process has mapped, last written before the process began."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(SIZE - 4))
    os.utime(path, (1, 1))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        yield path


def state(path: Path) -> str:
    look = look_at_weights(os.getpid(), [str(path)])
    return next(one.state for one in look.files if one.path == str(path))


def test_a_file_that_nobody_touched(model: Path) -> None:
    look = look_at_weights(os.getpid(), [str(model)])
    assert (state(model), look.mapped, look.size >= SIZE) == ("present", True, True)
    assert model_rules(look, True) == []


def test_replaced_by_rename(model: Path) -> None:
    other = model.with_name("other")
    other.write_bytes(b"GGUF" + bytes(SIZE))
    os.utime(other, (1, 1))
    other.rename(model)
    assert state(model) == "replaced"


def test_cut_under_the_mapping(model: Path) -> None:
    os.truncate(model, 4 * mmap.PAGESIZE)
    os.utime(model, (1, 1))
    look = look_at_weights(os.getpid(), [str(model)])
    (finding,) = model_rules(look, sleeps=False)
    assert (state(model), finding.level) == ("cut", Level.LOST)
    assert "SIGBUS" in finding.why


def test_missing_is_worst_where_a_wake_needs_it(model: Path) -> None:
    model.unlink()
    look = look_at_weights(os.getpid(), [str(model)])
    assert state(model) == "missing"
    assert [one.level for one in model_rules(look, sleeps=True)] == [Level.LOST]
    assert [one.level for one in model_rules(look, sleeps=False)] == [Level.RISK]


def test_written_in_place(model: Path) -> None:
    os.utime(model, (time.time() + 60, time.time() + 60))
    assert state(model) == "changed"


def test_maps_of_a_hostile_process() -> None:
    text = "7f00-7f10 r--p 00000000 00:00 7 /a b (deleted)\nnonsense\n" + "f" * 5000 + "\n"
    assert mapped_files(text) == {"/a b (deleted)": 0x10}


def test_a_process_that_is_gone_is_unread() -> None:
    look = look_at_weights(2**22 + 1, ["/m.gguf"])
    assert look.unread
    assert [one.level for one in model_rules(look, True)] == [Level.UNREAD]


def test_wakes_and_the_first_load_by_the_logs_own_stamps() -> None:
    wakes, load = durations(LOADED + WOKEN + WOKEN.replace(b"5.02.868", b"5.04.868"))
    assert wakes == [pytest.approx(2.5), pytest.approx(4.5)]
    assert load == pytest.approx(3.0)
    assert durations(LOADED)[0] == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 4096 + b"\n" + b"9" * 100_000,
        WOKEN.replace(b"5.02.868.552", b"4.00.000.000"),
        b"0.01.000.000 I srv  handle_sleep: server is exiting sleeping state\n",
    ],
)
def test_a_log_that_tells_no_wake(data: bytes) -> None:
    assert durations(data)[0] == []


def test_the_way_it_was_found_is_said() -> None:
    unknown = wake_time(2**22 + 1, None, [], 0)
    assert (unknown.seconds, unknown.how) == (None, "unknown")
    (finding,) = wake_rules(unknown, True)
    assert "not known" in finding.what
    (long,) = wake_rules(WakeTime(40.0, "log", "the longest"), None)
    assert (long.level, "40 s" in long.what) == (Level.RISK, True)
    assert wake_rules(WakeTime(40.0, "log", ""), False) == []


@pytest.mark.parametrize(
    ("hosts", "scope"),
    [
        *(([], "none"), (["127.0.0.1"], "local"), (["::1", "127.0.0.2"], "local")),
        *((["0.0.0.0"], "all"), (["127.0.0.1", "::"], "all"), (["192.0.2.1"], "some")),  # noqa: S104
    ],
)
def test_how_far_it_is_reached(hosts: list[str], scope: str) -> None:
    assert scope_of(hosts) == scope


def test_open_only_without_a_key() -> None:
    def ids(doors: Doors, on_line: bool = False) -> list[tuple[str, Level]]:
        return [(one.id, one.level) for one in door_rules(doors, False, on_line)]

    every = (("0.0.0.0", 80),)  # noqa: S104
    assert ids(Doors("all", every, False)) == [("scope", Level.RISK)]
    assert ids(Doors("all", every, True)) == []
    assert ids(Doors("all", every, None)) == [("scope", Level.UNREAD)]
    assert ids(Doors("local", (("127.0.0.1", 80),), False), on_line=True) == [("key-on-line", Level.NOTE)]
    assert ids(Doors()) == [("scope", Level.UNREAD)]
    assert not Doors("all", every, None).open
