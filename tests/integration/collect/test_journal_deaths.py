"""Deaths found in a real journal, read by the real journalctl; no server is started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from real_journal import BOOT, UNIT, core_record, ended, kernel, make, manager, needs_journal, said

from analyzers.bundle.read import open_bundle
from analyzers.errors import UserError
from analyzers.logs.entries import Entry
from collector.gather.dead import gather_death
from collector.gather.deaths import Places, find_deaths
from collector.gather.journal import Journal
from collector.gather.wanted import Wanted, wanted

pytestmark = needs_journal
NOW = 1_000_600_000.0
EXE = "/usr/bin/llama-server"
KEY = "sk-live-0123456789abcdef"


def places(folder: Path) -> Places:
    nowhere = folder / "nowhere"
    return Places(Journal(folder), store=nowhere, apport=nowhere, pattern=nowhere, folders=(), kernel=False)


def life(pid: int, at: float, unit: str = UNIT) -> list[dict[str, str]]:
    lines = (
        f"llama-server --model /m.gguf --api-key {KEY}",
        "build: 11063 (abcdef123) with GNU",
        "0.00.001.000 I srv    load_model: loading model '/m.gguf'",
        "0.01.000.000 I que    start_loop: entering sleeping state",
    )
    return [dict(said(at + number, pid, text, unit)) for number, text in enumerate(lines)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two deaths of a server, one of another program, an orderly stop, and a forged record."""
    entries = [
        *life(100, NOW - 5000),
        kernel(NOW - 4901, "llama-server[102]: segfault at 10 ip 5 sp 7 error 4 in llama-server[5,1+9]"),
        core_record(NOW - 4900, 100, EXE, None),
        ended(NOW - 4899, "dumped", "11"),
        *life(200, NOW - 300),
        ended(NOW - 100, "killed", "9"),
        manager(NOW - 100, f"{UNIT}: Failed with result 'signal'."),
        core_record(NOW - 50, 300, "/usr/bin/nginx", None, "nginx.service"),
        ended(NOW - 49, "dumped", "11", "nginx.service"),
        said(NOW - 60, 300, "nginx: started", "nginx.service", "nginx"),
        said(NOW - 80, 350, "forwarding to llama-server at :8080", "proxy.service", "proxy"),
        said(NOW - 80, 351, "llama is our mascot", "shop.service", "python3"),
        ended(NOW - 79, "dumped", "11", "proxy.service"),
        ended(NOW - 78, "killed", "9", "shop.service"),
        *life(400, NOW - 40, "other.service"),
        ended(NOW - 30, "killed", "15", "other.service"),
        core_record(
            NOW - 20,
            500,
            EXE,
            None,
            _UID="1000",
            _COMM="mallory",
            _EXE="/home/mallory/x",
            _SYSTEMD_UNIT="session-1.scope",
        ),
    ]
    return make(tmp_path_factory.mktemp("host") / "journal", entries)


def test_the_newest_death_is_first_and_only_servers_that_died_count(host: Path) -> None:
    deaths, _ = find_deaths(places(host), Wanted())
    # THEN nginx's crash, programs that only speak of llamas, the orderly stop and mallory's forgery are none
    assert [(death.pid, death.unit, death.signal) for death in deaths] == [(200, UNIT, 9), (100, UNIT, 11)]
    # AND one death told twice is one
    assert "systemd-coredump" in deaths[1].by
    assert "systemd" in deaths[1].by.split(", ")


@pytest.mark.parametrize(
    ("asked", "pids"),
    [
        (wanted(pid=100), [100]),
        (wanted(unit="llama"), [200, 100]),
        (wanted(unit="other"), []),
        (wanted(since=f"@{int(NOW - 1000)}"), [200]),
        (wanted(since=f"@{int(NOW)}"), []),
        (wanted(boot=BOOT), [200, 100]),
        (wanted(boot="f" * 32), []),
        (wanted(pid=300), []),
    ],
)
def test_a_selection_narrows_it(host: Path, asked: Wanted, pids: list[int]) -> None:
    assert [death.pid for death in find_deaths(places(host), asked)[0]] == pids


def test_a_boot_by_its_offset(host: Path) -> None:
    assert [death.pid for death in find_deaths(places(host), wanted(boot="0"))[0]] == [200, 100]
    with pytest.raises(UserError, match="no such boot"):
        find_deaths(places(host), wanted(boot="-77"))


def test_the_slice_is_the_life_its_supervisor_and_the_kernel_and_no_secret(
    host: Path, tmp_path: Path
) -> None:
    # GIVEN the older death
    death = find_deaths(places(host), wanted(pid=100))[0][0]
    # WHEN it is gathered and written
    haul = gather_death(places(host), death, tmp_path)
    haul.write(tmp_path / "x.tar.zst")
    with open_bundle(tmp_path / "x.tar.zst") as bundle:
        text = b"".join(
            file.path.read_bytes() for file in bundle.files if not file.name.startswith("context")
        )
        everything = b"".join(file.path.read_bytes() for file in bundle.files)
        gaps = {gap.what: gap for gap in bundle.gaps}
    # THEN this life, the manager's and the kernel's word on it are in, the other unit's are not
    assert b"_PID=100" in text
    assert b"code=dumped" in text
    assert b"llama-server[102]: segfault" in text
    assert b"nginx" not in text
    # AND the later life of the same unit is not
    assert b"_PID=200" not in text
    # AND no key, neither from the command line nor from the record's environment
    assert KEY.encode() not in everything
    assert b"sk-environ-secret" not in everything
    # AND what is missing says how to get it
    assert "coredumpctl" in (gaps["the core"].command or "")


def test_a_journal_that_is_not_there_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    deaths, gaps = find_deaths(places(tmp_path / "empty"), Wanted())
    assert deaths == []
    assert any(gap.what == "journal" for gap in gaps)


def test_a_large_slice_keeps_its_beginning_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN more entries than a slice keeps
    folder = make(
        tmp_path / "big", [said(NOW + number, 9, f"line {number} {'x' * 2000}") for number in range(600)]
    )
    monkeypatch.setattr("collector.gather.journal.HEAD_BYTES", 1 << 16)
    monkeypatch.setattr("collector.gather.journal.TAIL_BYTES", 1 << 17)
    # WHEN
    cut = Journal(folder).slice(["_PID=9"])
    entries: list[Entry] = list(cut.entries())
    # THEN whole entries of both ends, and a gap that counts the middle
    messages = [entry.text("MESSAGE") or "" for entry in entries]
    assert not any(entry.damaged for entry in entries)
    assert messages[0].startswith("line 0 ")
    assert messages[-1].startswith("line 599 ")
    assert len(messages) < 300
    assert any("left out" in gap.why for gap in cut.gaps)


def test_the_journals_own_files_do_where_its_tool_is_missing(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("systemd")
    by_tool = [death.pid for death in find_deaths(places(host), Wanted())[0]]
    monkeypatch.setattr("collector.gather.journal.shutil.which", lambda name: None)
    began = time.monotonic()
    assert [death.pid for death in find_deaths(places(host), Wanted())[0]] == by_tool
    assert time.monotonic() - began < 300
