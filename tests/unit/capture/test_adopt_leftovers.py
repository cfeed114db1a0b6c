"""What a killed handler leaves becomes a capture or the record of a refusal; nothing is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture_cores import BOOT, breadcrumb, core_bytes_written, partial_made, settle

from analyzers.errors import UserError
from collector.capture.kept import missed
from collector.capture.kept.adopt import KILLED, adopt
from collector.capture.kept.captures import captures, manifest
from collector.capture.kept.missed import LIMIT, in_lines, keep_missed, known
from collector.capture.listing import rows, table
from collector.capture.tidying import tidy
from collector.sources.kernel import KernelLine, KernelRead

NAME = "20261202T072000Z-4711-100"


def test_nothing_but_a_breadcrumb_is_a_refusal_with_its_reason(tmp_path: Path) -> None:
    partial_made(tmp_path, NAME, breadcrumb(state="refused", why="no room", stage="writing"))
    done = list(adopt(tmp_path))
    found = captures(tmp_path)[0]
    assert [one.name for one in done] == [NAME]
    assert (found.refused, found.pid, found.signal, found.boot_id) == ("no room", 4711, 11, BOOT)
    assert rows(tmp_path)[0]["state"] == "refused: no room"


def test_a_whole_core_without_a_manifest_is_kept(tmp_path: Path) -> None:
    folder = partial_made(tmp_path, NAME, breadcrumb())
    core_bytes_written(folder / "core")
    (folder / "threads.json").write_text("[]")
    (folder / "maps").write_text("0-1 r\n")
    settle(folder)
    list(adopt(tmp_path))
    found = captures(tmp_path)[0]
    assert found.core is not None
    assert found.told["adopted"]["why"] == KILLED
    assert set(found.told["files"]) == {"core", "maps", "threads.json"}
    assert all(row["sha256"] for row in found.told["files"].values())


@pytest.mark.parametrize("cut", [0, 10, 63, 64, 500])
def test_half_a_core_is_told_apart_from_none(tmp_path: Path, cut: int) -> None:
    folder = partial_made(tmp_path, NAME, breadcrumb())
    core_bytes_written(folder / "core", size=1 << 16)
    os.truncate(folder / "core", cut)
    (folder / "sockets.json").write_text('{"way": ')
    (folder / "capture.json").write_text('{"schema": "llama-bl')
    settle(folder)
    list(adopt(tmp_path))
    told = manifest(tmp_path / NAME)
    why = {gap["part"]: gap["why"] for gap in told["gaps"]}
    assert "half written" in why["file core"]
    assert why["file sockets.json"] == why["file capture.json"] == "half written, removed"
    assert not (tmp_path / NAME / "sockets.json").exists()


def test_a_whole_capture_that_only_lacks_its_name_gets_it(tmp_path: Path) -> None:
    folder = partial_made(tmp_path, NAME, breadcrumb())
    text = json.dumps({"schema": "llama-blackbox/capture/1", "mode": "minimal", "files": {}})
    (folder / "capture.json").write_text(text)
    settle(folder)
    list(adopt(tmp_path))
    assert (tmp_path / NAME / "capture.json").read_text() == text


@pytest.mark.parametrize("trace", [b"", b"{", b"\xff" * 4096, b"[]", b'{"pid": "x"}'])
def test_a_breadcrumb_that_cannot_be_read_leaves_what_the_name_says(tmp_path: Path, trace: bytes) -> None:
    folder = partial_made(tmp_path, NAME, None)
    (folder / "trace.json").write_bytes(trace)
    settle(folder)
    list(adopt(tmp_path))
    found = captures(tmp_path)[0]
    assert found.start_ticks == 100
    assert found.refused == KILLED
    assert time.gmtime(found.wall).tm_year == 2026


def test_a_folder_that_a_handler_holds_or_just_made_is_left_alone(tmp_path: Path) -> None:
    held = partial_made(tmp_path, NAME, breadcrumb())
    partial_made(tmp_path, "20261202T072001Z-5-5", breadcrumb(), age=0.0)
    program = "import os, sys; d = os.open(sys.argv[1], os.O_RDONLY); print(flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", program, held], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert list(adopt(tmp_path)) == []
    holder.communicate(b"")
    assert [one.name for one in adopt(tmp_path)] == [NAME]


def test_adopting_twice_does_nothing_the_second_time(tmp_path: Path) -> None:
    partial_made(tmp_path, NAME, breadcrumb())
    assert len(list(adopt(tmp_path))) == 1
    before = (tmp_path / NAME / "capture.json").read_bytes()
    assert list(adopt(tmp_path)) == []
    assert (tmp_path / NAME / "capture.json").read_bytes() == before


def test_a_name_that_is_taken_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    partial_made(tmp_path, NAME, breadcrumb())
    list(adopt(tmp_path))
    assert list((tmp_path / NAME).iterdir()) == []
    assert (tmp_path / f"{NAME}-1" / "capture.json").is_file()


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    first = tidy(tmp_path, tmp_path / "none")
    partial_made(tmp_path, NAME, breadcrumb())
    next(first)
    with pytest.raises(UserError, match="another run"):
        list(tidy(tmp_path, tmp_path / "none"))
    first.close()


LINES = (
    KernelLine(10.5, "coredump: 4711(llama-server): over core_pipe_limit, skipping core dump"),
    KernelLine(11.5, "Pid 4712(py\x1bthon) over core_pipe_limit"),
    KernelLine(12.5, "llama-server[4713]: segfault at 8 ip 0 sp 0 error 6"),
    KernelLine(13.5, "Skipping core dump"),
)


def test_crashes_over_the_limit_are_evidence_from_the_kernel_s_own_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = in_lines(LINES, BOOT, 1000.0)
    assert [(one.pid, one.comm, one.why, one.wall) for one in found] == [
        (4711, "llama-server", LIMIT, 1010.5),
        (4712, "py?thon", LIMIT, 1011.5),
    ]
    # WHEN the ring is read twice, they are kept once
    monkeypatch.setattr(missed, "read_kernel_lines", lambda since: KernelRead(LINES))
    monkeypatch.setattr(missed, "boot_id", lambda: BOOT)
    clock = SimpleNamespace(time=lambda: 1000.0, monotonic=lambda: 0.0)
    monkeypatch.setattr("collector.capture.kept.missed.time", clock)
    assert len(keep_missed(tmp_path)) == 1
    assert keep_missed(tmp_path) == []
    assert [one.pid for one in keep_missed(tmp_path, names=("py?thon",))] == [4712]
    assert [one.pid for one in known(tmp_path)] == [4711, 4712]
    assert "no capture: over core_pipe_limit" in table(tmp_path)
    # AND a damaged line costs itself only
    with (tmp_path / missed.FILE).open("a") as file:
        file.write('{"pid": \n[]\n')
    assert len(known(tmp_path)) == 2


def test_crashes_before_the_installation_and_of_other_programs_were_never_to_be_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = KernelLine(12.0, "coredump: 4714(sh): over core_pipe_limit, skipping core dump")
    hosted = KernelLine(12.0, "coredump: 4715(python3.11): over core_pipe_limit, skipping core dump")
    monkeypatch.setattr(missed, "read_kernel_lines", lambda since: KernelRead((*LINES, shell, hosted)))
    monkeypatch.setattr(missed, "boot_id", lambda: BOOT)
    clock = SimpleNamespace(time=lambda: 1000.0, monotonic=lambda: 0.0)
    monkeypatch.setattr("collector.capture.kept.missed.time", clock)
    assert [one.pid for one in keep_missed(tmp_path, since=1011.0)] == [4715]


def test_a_young_folder_is_left_alone_and_named(tmp_path: Path) -> None:
    partial_made(tmp_path, NAME, breadcrumb(), age=0.0)
    [line] = [line for line in tidy(tmp_path, tmp_path / "none") if NAME in line]
    assert line.startswith(f"left alone .partial-{NAME}: changed in the last 5 s")
    assert list(tmp_path.glob(".partial-*"))


def test_the_table_shows_no_control_characters(tmp_path: Path) -> None:
    trace = breadcrumb(state="refused", why="a\x1b[31mb\u202e", program="/x/\x1b]0;t\x07")
    partial_made(tmp_path, NAME, trace)
    list(adopt(tmp_path))
    text = table(tmp_path)
    assert "\\x1b[31m" in text
    assert all(char == "\n" or char.isprintable() for char in text)


def test_what_an_ended_reader_leaves_is_owned_again_and_its_links_are_gone(tmp_path: Path) -> None:
    # GIVEN a partial folder with a link in a core's place, which its reader may have made
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    store = tmp_path / "store"
    folder = partial_made(store, "20261202T072000Z-4711-100-u1000", breadcrumb(uid=1000))
    (folder / "core").symlink_to(victim)
    (folder / "maps").write_text("x")
    if os.geteuid() == 0:
        os.chown(folder / "maps", 0x7F000001, 0x7F000001)
        os.chown(folder, 0x7F000001, 0x7F000001)
    settle(folder)
    # WHEN it is adopted
    list(adopt(store))
    # THEN what is plain is ours, what is not is gone, and nothing outside was touched
    [one] = captures(store)
    assert (one.core, one.uid) == (None, 1000)
    assert {path.stat().st_uid for path in (one.path, *one.path.iterdir())} == {os.geteuid()}
    assert victim.read_text() == "untouched"
