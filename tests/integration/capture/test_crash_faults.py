"""The handler under attack: killed, without room, fed with lies. A capture, or a trace that says why not.

It is run by hand on a living process and a core on its standard input: the kernel's setting is left alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_lab import PYTHON, THREADS, Place, compiled, manifest, needs_gcc, needs_root, place, until

from collector.capture.crash import notes
from collector.capture.crash.corefile import Segment, write_core
from collector.capture.crash.settings import written

pytestmark = [pytest.mark.real, needs_root, needs_gcc]
MOMENTS = 20
SPAN = 0.06  # seconds a capture takes here, with the interpreter's start
ENDED = {"refused", "begun"}


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A living llama-server of 20 threads, none of which crashes."""
    source = THREADS.replace("pthread_create(&t, 0, run, (void *)1)", "pthread_create(&t, 0, run, 0)")
    program = compiled(tmp_path_factory.mktemp("programs"), "llama-server", source)
    process = subprocess.Popen([program])
    until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 21)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def made() -> Iterator[Place]:
    with place() as found:
        yield found


def core_of(pid: int, folder: Path, note_block: bytes | None = None) -> Path:
    """A core for the handler's standard input: one thread's registers and a megabyte."""
    block = note_block if note_block is not None else notes.prstatus(pid, bytes(216)) + notes.siginfo(11)
    path = folder / f"core-{random.random()}"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    write_core(descriptor, block, [Segment(0x10000, b"\x01" * (1 << 20))])
    os.close(descriptor)
    return path


def start(made: Place, pid: int, core: Path, *before: str) -> subprocess.Popen[bytes]:
    numbers = f"{pid},{pid},{pid},{pid},11,1796195973,1,,0,0,0,0"
    words = [
        *before,
        PYTHON,
        "-ISB",
        str(made.folder / "crash" / "__main__.py"),
        numbers,
        "h",
        "e",
        "!llama-server",
    ]
    with core.open("rb") as stream:
        return subprocess.Popen(words, stdin=stream, stderr=subprocess.PIPE)


def family(pid: int) -> list[int]:
    """A process and its child."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *map(int, children)]


@pytest.mark.parametrize("whom", ["worker", "watcher", "both"])
def test_kill_9_at_random_moments_leaves_a_capture_or_a_trace(
    living: int, made: Place, tmp_path: Path, whom: str
) -> None:
    core = core_of(living, tmp_path)
    chance = random.Random(whom)
    for _ in range(MOMENTS):
        shutil.rmtree(made.store, ignore_errors=True)
        handler = start(made, living, core)
        # GIVEN a handler that has decided to keep the crash
        assert until(lambda: bool(made.partial() or made.captures()))
        time.sleep(chance.random() * SPAN / 2)
        # WHEN it, its worker or both are killed
        members = family(handler.pid)
        for pid in {"watcher": members[:1], "worker": members[1:], "both": members}[whom]:
            os.kill(pid, signal.SIGKILL)
        handler.wait()
        assert until(lambda members=members: not any(map(_alive, members)))  # type: ignore[misc]
        # THEN there is a complete capture, or a folder whose trace names the process
        assert len(made.captures()) + len(made.partial()) == 1
        for capture in made.captures():
            assert whole(capture)
        for partial in made.partial():
            text = (partial / "trace.json").read_bytes() if (partial / "trace.json").exists() else b""
            if text or whom != "both":
                told = json.loads(text)
                assert told["pid"] == living
                assert told["state"] == "refused" or whom == "both"
        if whom == "watcher":
            assert made.captures(), "the worker finishes without its watcher"


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def whole(capture: Path) -> bool:
    told = manifest(capture)
    return all((capture / name).stat().st_size == row["size"] for name, row in told["files"].items())


def test_a_disk_full_at_any_moment_leaves_a_capture_or_a_trace(
    living: int, made: Place, tmp_path: Path
) -> None:
    core = core_of(living, tmp_path)
    small = tmp_path / "small"
    small.mkdir()
    made.settings(written("minimal", str(small / "store")) + "reserve = 0\n")
    outcomes = set()
    for pages in [*range(2, 12), 14, 18, 24, 32, 48, 64, 90, 128, 200, 400]:
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={pages * 4096},mode=700", "none", str(small)]
        subprocess.run(mounted, check=True)
        try:
            handler = start(made, living, core)
            handler.wait(20)
            found = sorted((small / "store").glob("*")) + sorted((small / "store").glob(".partial-*"))
            for folder in found:
                if folder.name.startswith(".partial-"):
                    assert json.loads((folder / "trace.json").read_text())["state"] == "refused"
                    outcomes.add("refused")
                else:
                    assert whole(folder)
                    lost = [gap for gap in manifest(folder)["gaps"] if gap["part"].startswith("file ")]
                    outcomes.add("kept in part" if lost else "kept")
            if not found:
                outcomes.add("nothing begun")
        finally:
            subprocess.run(["umount", str(small)], check=True)
    assert {"refused", "kept", "kept in part"} <= outcomes


def test_written_then_synced_then_named(living: int, made: Place, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    # WHEN a capture is made under strace
    log = tmp_path / "trace"
    calls = "trace=openat,mkdirat,write,pwrite64,fsync,rename,renameat,renameat2,ftruncate,close"
    handler = start(
        made, living, core_of(living, tmp_path), "strace", "-f", "-y", "-o", str(log), "-e", calls
    )
    handler.wait(60)
    capture = made.one()
    lines = log.read_text().splitlines()
    partial = f".partial-{capture.name}"
    named = next(at for at, line in enumerate(lines) if re.search(r"rename\w*\(", line) and partial in line)
    # THEN the breadcrumb was synced before any other file was opened for writing
    synced = [at for at, line in enumerate(lines) if "fsync(" in line]
    trace = next(at for at in synced if "trace.json" in lines[at])
    created = [at for at, line in enumerate(lines) if "O_CREAT" in line and partial in line]
    assert all(at > trace for at in created[1:])
    # AND every file was synced after its last write, and the folder after all, before it got its name
    for name in [*manifest(capture)["files"], "capture.json"]:
        writes = [
            at
            for at, line in enumerate(lines)
            if f"{partial}/{name}>" in line and re.search(r"write\w*\(", line)
        ]
        assert writes, name
        assert any(max(writes) < at < named and f"{partial}/{name}>" in lines[at] for at in synced), name
    folder = [at for at in synced if f"{partial}>" in lines[at] and at < named]
    assert folder[-1] > max(at for at in synced if f"{partial}/" in lines[at])
    # AND the store last
    assert any(at > named and str(made.store) in lines[at] for at in synced)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xff" * 4096,
        struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 1),
        struct.pack("<III", 0, 0, 7) * 200_000,
        notes.prstatus(1, b"\xff" * 216) * 20_000,
        notes.prstatus(1, bytes(216)) + notes.build(notes.AUXV, b"\xff" * 64000),
    ],
    ids=["none", "noise", "sizes", "bomb", "threads", "auxv"],
)
def test_lies_in_the_stream_cost_parts_of_the_capture(
    living: int, made: Place, tmp_path: Path, block: bytes
) -> None:
    before = sorted(path.name for path in made.folder.iterdir())
    handler = start(made, living, core_of(living, tmp_path, block))
    assert handler.wait(40) == 0
    told = manifest(made.one())
    assert told["process"]["pid"] == living
    assert table_names(made) >= {"maps", "threads.json", "sockets.json"}
    assert sorted(path.name for path in made.folder.iterdir() if path.name != "store") == before


def table_names(made: Place) -> set[str]:
    return {path.name for path in made.one().iterdir()}


@pytest.mark.parametrize("head", [b"", b"\x7fELF", b"#!/bin/sh\n" * 100, b"\x7fELF\x02\x01" + b"\xff" * 4000])
def test_a_stream_that_is_no_core_leaves_what_proc_shows(
    living: int, made: Place, tmp_path: Path, head: bytes
) -> None:
    core = tmp_path / "stream"
    core.write_bytes(head)
    assert start(made, living, core).wait(40) == 0
    told = manifest(made.one())
    assert told["core"] is None
    assert told["stream"] != "whole"
    assert any(gap["part"] == "notes" for gap in told["gaps"])


def test_a_worker_that_hangs_is_ended_and_the_trace_says_so(living: int, made: Place, tmp_path: Path) -> None:
    # GIVEN a handler with half a second, in which its stream says nothing
    limits = made.folder / "crash" / "limits.py"
    limits.write_text(limits.read_text().replace("MINIMAL_SECONDS = 30.0", "MINIMAL_SECONDS = 0.5"))
    gathering = made.folder / "crash" / "gather.py"
    hang = "def gather(*_: object) -> None:\n    import time\n\n    time.sleep(1000)\n"
    gathering.write_text(gathering.read_text() + "\n\n" + hang)
    assert start(made, living, core_of(living, tmp_path)).wait(20) == 1
    told = json.loads((made.partial()[0] / "trace.json").read_text())
    assert (told["state"], told["stage"]) == ("refused", "gathering")
    assert "not finished" in told["why"]
