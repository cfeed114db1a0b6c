"""Who reads hostile bytes has no rights: the core's reader, and the gdb that compares two cores."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crash_lab import PYTHON, THREADS, Place, compiled, needs_gcc, needs_root, place, until
from test_crash_faults import core_of

from collector.capture.crash.dropping import reader_of
from collector.capture.kept import comparing

pytestmark = [pytest.mark.real, needs_root]
NOBODY = "65534"
READING = 1 << 2  # CAP_DAC_READ_SEARCH: a core of root's stays readable to the stack tools
EXECUTABLE_CALLS = "2"  # SECCOMP_MODE_FILTER


@pytest.fixture
def living(tmp_path: Path) -> Iterator[int]:
    source = THREADS.replace("pthread_create(&t, 0, run, (void *)1)", "pthread_create(&t, 0, run, 0)")
    process = subprocess.Popen([compiled(tmp_path, "llama-server", source)])
    assert until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 21)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def made() -> Iterator[Place]:
    with place() as found:
        yield found


def status(pid: int) -> dict[str, list[str]]:
    rows = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.split() for name, _, value in rows}


def below(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
        found += [each for child in children for each in below(child)]
    return found


def readers(pid: int, user: int) -> list[int]:
    found = []
    for each in below(pid):
        try:
            if status(each)["Uid"] == [str(user)] * 4 and status(each)["Seccomp"] == [EXECUTABLE_CALLS]:
                found.append(each)
        except OSError:
            continue
    return found


@needs_gcc
def test_the_reader_of_the_core_has_no_rights_and_few_descriptors(
    living: int, made: Place, tmp_path: Path
) -> None:
    # GIVEN a core that comes slowly: its reader waits for the notes
    core = core_of(living, tmp_path).read_bytes()
    numbers = f"{living},{living},{living},{living},11,1796195973,1,,0,1000,1000,0"
    words = [PYTHON, "-ISB", str(made.folder / "crash" / "__main__.py"), numbers, "h", "e", "!llama-server"]
    handler = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert handler.stdin is not None
    handler.stdin.write(core[:64])
    handler.stdin.flush()
    user = reader_of(living)
    assert until(lambda: bool(readers(handler.pid, user)))
    [reader] = readers(handler.pid, user)
    # THEN it is nobody's user without a capability, may start nothing, and holds what it needs
    told = status(reader)
    assert (told["Gid"], told["Groups"]) == ([str(user)] * 4, [])
    assert {int(told[name][0], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd")} == {0}
    assert told["NoNewPrivs"] == ["1"]
    limits = Path(f"/proc/{reader}/limits").read_text()
    assert [line.split()[2:4] for line in limits.splitlines() if "Max processes" in line] == [["0", "0"]]
    held = {os.readlink(each) for each in Path(f"/proc/{reader}/fd").iterdir()}
    assert not [target for target in held if target in (str(made.store), f"/proc/{living}")]
    assert f"/proc/{living}/mem" in held
    # AND the capture is root's own when the rest has come
    with suppress(BrokenPipeError):  # it lets the process go as soon as the notes are there
        handler.stdin.write(core[64:])
        handler.stdin.close()
    assert handler.wait(40) == 0
    capture = made.one()
    assert capture.name.endswith("-u1000")
    for path in (capture, *capture.iterdir()):
        assert path.stat().st_uid == path.stat().st_gid == 0
    assert (capture.stat().st_mode & 0o777, (capture / "core").stat().st_mode & 0o777) == (0o700, 0o600)


@needs_gcc
def test_a_reader_dies_with_its_keeper(living: int, made: Place, tmp_path: Path) -> None:
    numbers = f"{living},{living},{living},{living},11,1796195973,1,,0,1000,1000,0"
    words = [PYTHON, "-ISB", str(made.folder / "crash" / "__main__.py"), numbers, "h", "e", "!llama-server"]
    handler = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert until(lambda: bool(readers(handler.pid, reader_of(living))))
    [reader] = readers(handler.pid, reader_of(living))
    keeper = int(status(reader)["PPid"][0])
    # WHEN the keeper is killed
    os.kill(keeper, 9)
    # THEN its reader ends too, and the trace says what happened
    assert handler.wait(40) == 1
    assert until(lambda: not Path(f"/proc/{reader}").exists() or "Z" in status(reader)["State"])
    assert "ended by signal 9" in (made.partial()[0] / "trace.json").read_text()


@pytest.mark.skipif(not shutil.which("gdb") or not shutil.which("eu-stack"), reason="the tools are missing")
@needs_gcc
def test_gdb_on_a_stranger_s_core_runs_without_roots_rights(living: int, tmp_path: Path) -> None:
    # GIVEN a core of root's that is compared
    core = core_of(living, tmp_path)
    core.chmod(0o600)
    seen: list[tuple[dict[str, list[str]], str]] = []
    done = threading.Event()

    def compare() -> None:
        tool = shutil.which("gdb")
        assert tool is not None
        comparing._run(comparing._gdb(tool, core, None, None), core)
        done.set()

    worker = threading.Thread(target=compare)
    worker.start()
    # WHEN gdb is at work
    while not done.is_set():
        for pid in below(os.getpid())[1:]:
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "gdb\n":
                    seen.append((status(pid), os.readlink(f"/proc/{pid}/ns/net")))
            except OSError:
                continue
    worker.join()
    # THEN it is nobody, can read and nothing else, gains nothing by an exec, and has no network
    assert seen
    for told, network in seen:
        assert told["Uid"] == [NOBODY] * 4
        assert {int(told[name][0], 16) for name in ("CapPrm", "CapEff")} <= {READING}
        assert told["NoNewPrivs"] == ["1"]
        assert network != os.readlink("/proc/self/ns/net")
