"""A bundle of a capture: no memory, no keys, everything that was known; and the same life for all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from capture_cores import BOOT, capture_made

from analyzers.bundle.read import open_bundle
from analyzers.errors import UserError
from analyzers.triage.inputs import Source, copies_beside
from collector.capture.handing import write
from collector.capture.kept.bundling import bundle_of, death_of
from collector.capture.kept.captures import captures
from collector.gather.deaths import Places
from collector.gather.journal import Journal

NAME = "20261202T072000Z-4711-100"
KEY = "sk-very-secret-key-123456"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    folder = capture_made(made, NAME)
    arguments = ["llama-server", "--sleep-idle-seconds", "60", "--api-key", KEY]
    (folder / "settings.json").write_text(
        json.dumps({"arguments": arguments, "environment": {"PATH": "/bin", "HF_TOKEN": None}})
    )
    (folder / "maps").write_text("00400000-00401000 r-xp 00000000 00:00 0 /home/somebody/llama-server\n")
    (folder / "threads.json").write_text('[{"tid": 4711, "name": "llama-server"}]')
    return made


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    made.mkdir()
    return made


def test_stacks_as_text_and_no_memory(store: Path, nothing: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    lines = list(write(store, NAME, target, nothing, private=False, force=False))
    with open_bundle(target) as found:
        names = {file.name for file in found.files}
        evidence = {item.kind for item in found.evidence}
        assert not found.manifest.memory
    assert "core" not in names
    assert {"core", "stack", "settings"} <= evidence
    assert any("context/threads.json" in name for name in names)
    texts = b"".join(path.read_bytes() for path in target.rglob("*") if path.is_file())
    assert KEY.encode() not in texts
    assert b"somebody" not in texts
    assert lines[-1] == f"next: llama-blackbox triage {target}"


def test_memory_leaves_only_with_private_content_and_it_is_said(
    store: Path, nothing: Path, tmp_path: Path
) -> None:
    target = tmp_path / "b"
    lines = list(write(store, "newest", target, nothing, private=True, force=False))
    assert any("memory" in line and "do not share" in line for line in lines)
    with open_bundle(target) as found:
        assert found.manifest.memory
        assert "core" in {file.name for file in found.files}


def test_an_existing_target_is_left_alone(store: Path, nothing: Path, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UserError, match="it exists"):
        list(write(store, NAME, tmp_path / "b", nothing, private=False, force=False))
    assert (tmp_path / "b").read_text() == "mine"


def test_all_of_it_is_one_life(store: Path, nothing: Path, tmp_path: Path) -> None:
    haul = bundle_of(captures(store)[0], Places(journal=Journal(nothing), kernel=False), tmp_path)
    lives = {item.incarnation for item in haul.evidence if item.incarnation.pid == 4711}
    assert {(life.start_time, life.boot_id) for life in lives} == {(1.0, BOOT)}


def test_a_refusal_tells_the_signal_and_what_is_missing(store: Path, nothing: Path, tmp_path: Path) -> None:
    more = {"core": None, "adopted": {"why": "the handler was killed"}}
    capture_made(store, "20261202T073000Z-4712-7", pid=4712, core=False, more=more)
    haul = bundle_of(captures(store)[-1], Places(journal=Journal(nothing), kernel=False), tmp_path)
    assert any("the handler was killed" in gap.why for gap in haul.gaps)
    assert [item.data["signal"] for item in haul.evidence if item.kind == "exit"] == [11]


def test_gaps_of_the_capture_are_the_bundle_s(store: Path, nothing: Path, tmp_path: Path) -> None:
    gaps = [{"part": "sockets", "why": "no time was left"}, "nonsense"]
    capture_made(store, "20261202T073000Z-4712-7", pid=4712, more={"gaps": gaps})
    haul = bundle_of(captures(store)[-1], Places(journal=Journal(nothing), kernel=False), tmp_path)
    assert ("in the capture: sockets", "no time was left") in [(gap.what, gap.why) for gap in haul.gaps]


def test_a_user_s_open_files_lose_their_names(store: Path, nothing: Path, tmp_path: Path) -> None:
    targets = [
        "socket:[1]",
        "/dev/null",
        "/srv/m/tiny.gguf",
        "/var/log/llama/server.log",
        "/srv/payroll/may.csv",
    ]
    targets += ["/srv/payroll/secret plan (deleted)", "/srv/lib/libggml.so.0"]
    rows = [{"fd": number, "target": target} for number, target in enumerate(targets)]
    (store / NAME / "descriptors.json").write_text(json.dumps([*rows, "x", {"fd": 9}]))
    told = []
    for private in (False, True):
        target = tmp_path / f"b{private}"
        list(write(store, NAME, target, nothing, private=private, force=False))
        told.append(json.loads((target / "context" / "descriptors.json").read_text()))
    assert [row["target"] for row in told[0]] == [*targets[:4], "a file.csv", "a file (deleted)", targets[6]]
    assert told[1][4]["target"] == "/srv/payroll/may.csv"


def test_copies_of_files_that_were_gone_are_handed_on(store: Path) -> None:
    (store / NAME / "exe").write_bytes(b"\x7fELF")
    death = death_of(captures(store)[0])
    assert (death.exe, death.symbols) == (store / NAME / "exe", (store / NAME,))


def test_a_captures_folder_lends_its_copies_and_another_folder_none(store: Path, tmp_path: Path) -> None:
    (store / NAME / "exe").write_bytes(b"\x7fELF")
    core = Source(store / NAME / "core", "core", 1, 1, found=True)
    assert copies_beside(core) == (store / NAME / "exe", (store / NAME,))
    assert copies_beside(replace(core, found=False)) == (None, ())
    assert copies_beside(replace(core, path=tmp_path / "core")) == (None, ())
