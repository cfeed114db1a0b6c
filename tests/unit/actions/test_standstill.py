"""One stop of all threads: what it copies, what it leaves as it was, and what its own death does."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analyzers.contracts.facts import ActionFact, StackFact, fact_of
from collector.actions import hosted, snapshot, standstill, stopper
from collector.actions.hosted import BothSides, PythonThread, parse_dump
from collector.actions.snapshot import Snapshot
from collector.actions.standstill import RefusedError, hold, unwind
from collector.sources.procfs import Process

THREADS = 20
# Answers each line it gets; counts its signals; its other threads wait in a call that a stop interrupts.
SCRIPT = f"""
import ctypes, signal, sys, threading
libc = ctypes.CDLL(None)
seen = 0
def count(*_):
    global seen
    seen += 1
signal.signal(signal.SIGUSR1, count)
broken = []
def wait():
    while libc.poll(None, 0, -1) == -1:
        broken.append(1)
for _ in range({THREADS - 1}):
    threading.Thread(target=wait, daemon=True).start()
print('ready', flush=True)
for line in sys.stdin:
    print(line.strip(), seen, len(broken), flush=True)
"""

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="registers of x86-64")


class Child:
    """A process of twenty threads that answers lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def ask(self, word: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()


def helper_of(process: Child) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-ISB", str(Path(stopper.__file__)), str(process.pid), "0.25"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


@contextmanager
def child() -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield Child(process)
    finally:
        process.kill()
        process.communicate()


def test_every_thread_is_copied_in_one_stop_and_goes_on() -> None:
    # GIVEN
    with child() as process:
        # WHEN
        held = hold(process.pid)

        # THEN
        assert len(held.registers) == THREADS
        assert all(len(data) == stopper.REGISTER_BYTES for data in held.registers.values())
        assert held.missed == ()
        assert 0 < held.stop_seconds < standstill.STOP_SECONDS
        for data in held.registers.values():
            sp = int.from_bytes(data[stopper.RSP * 8 :][:8], "little")
            assert any(at <= sp < at + len(stack) for at, stack in held.stacks)
        assert process.ask("hello") == ["hello", "0", "0"]
        with Process(process.pid) as seen:
            assert seen.tracer() == 0


def test_many_stops_break_no_system_call() -> None:
    with child() as process:
        for _ in range(30):
            hold(process.pid)
        assert process.ask("again") == ["again", "0", "0"]


def test_a_signal_that_arrives_in_a_stop_is_not_lost() -> None:
    # GIVEN
    with child() as process:
        for sent in range(1, 31):
            # WHEN
            helper = helper_of(process)
            os.kill(process.pid, signal.SIGUSR1)
            assert helper.communicate()[0]
            # THEN
            assert process.ask("again")[:2] == ["again", str(sent)]


def test_a_helper_that_is_killed_at_any_moment_leaves_the_process_running() -> None:
    # GIVEN
    moments = random.Random(5)
    with child() as process, Process(process.pid) as seen:
        for _ in range(20):
            helper = helper_of(process)
            # WHEN it dies somewhere between its start and its end
            time.sleep(moments.uniform(0.0, 0.03))
            helper.kill()
            helper.communicate()
            # THEN
            assert process.ask("still") == ["still", "0", "0"]
            assert seen.tracer() == 0


def test_a_process_that_is_killed_while_it_is_stopped_is_gone_and_nothing_hangs() -> None:
    with child() as process:
        helper = helper_of(process)
        process.process.kill()
        helper.communicate(timeout=30)
        assert process.process.wait(timeout=30) == -signal.SIGKILL


def test_a_second_tracer_is_refused_by_the_kernel_and_named() -> None:
    # GIVEN a debugger that holds the process
    holder = (
        "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); "
        "sys.exit(3) if libc.ptrace(0x4206, int(sys.argv[1]), None, None) else print('held', flush=True); "
        "sys.stdin.read()"
    )
    with child() as process:
        tracer = subprocess.Popen(
            [sys.executable, "-c", holder, str(process.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == b"held\n"
        try:
            # WHEN / THEN
            with pytest.raises(RefusedError) as refused:
                hold(process.pid)
            assert refused.value.errno == errno.EPERM
            if shutil.which("eu-stack"):
                assert f"process {tracer.pid} traces it" in snapshot.snapshot(process.pid).gaps[0].why
        finally:
            tracer.communicate(b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.skipif(shutil.which("eu-stack") is None, reason="needs elfutils")
def test_another_user_is_refused_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN an interpreter that everybody may run
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    with child() as process:
        # WHEN
        read, write = os.pipe()
        other = os.fork()
        if other == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(write, "\n".join(gap.why for gap in snapshot.snapshot(process.pid).gaps).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(other, 0)
        with os.fdopen(read) as said:
            lines = said.read().splitlines()
    # THEN
    assert len(lines) == 1
    assert "CAP_SYS_PTRACE" in lines[0] or "ptrace_scope" in lines[0]


@pytest.mark.skipif(shutil.which("eu-stack") is None, reason="needs elfutils")
def test_the_copy_is_unwound_to_the_beginning_of_every_thread() -> None:
    # GIVEN
    with child() as process:
        # WHEN
        taken = snapshot.snapshot(process.pid)

    # THEN
    stacks = [fact_of(one, StackFact) for one in taken.evidence[:-1]]
    action = fact_of(taken.evidence[-1], ActionFact)
    assert len(stacks) == THREADS
    assert all(stack is not None and stack.live and stack.rung == "live" for stack in stacks)
    assert sum(stack is not None and stack.complete for stack in stacks) == THREADS
    assert action is not None
    assert (action.outcome, action.seconds) == ("taken", taken.longest_stop)
    assert f"{THREADS} threads, all stopped together for" in taken.evidence[-1].text
    assert taken.gaps == ()


@pytest.mark.skipif(shutil.which("eu-stack") is None, reason="needs elfutils")
def test_a_program_that_was_deleted_is_still_unwound(tmp_path: Path) -> None:
    # GIVEN a copy of the interpreter, removed while it runs
    program = tmp_path / "python-copy"
    shutil.copy(Path(sys.executable).resolve(), program)
    process = subprocess.Popen(
        [program, "-ISc", "print('ready', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONHOME": sys.base_prefix},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    program.unlink()
    try:
        # WHEN
        with Process(process.pid) as held:
            found = unwind(held, hold(process.pid))
    finally:
        process.communicate(b"\n")
    # THEN
    assert found.stacks[0].complete
    assert "_start" in (found.stacks[0].frames[-1].function or "")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.skipif(shutil.which("eu-stack") is None, reason="needs elfutils")
def test_a_program_that_only_its_own_mount_namespace_has_is_unwound_by_name(tmp_path: Path) -> None:
    # GIVEN a program on a file system that nobody else sees
    program = Path(sys.executable).resolve()
    script = (
        f"mount -t tmpfs none {tmp_path} && cp {program} {tmp_path}/hidden && "
        f"PYTHONHOME={sys.base_prefix} exec {tmp_path}/hidden -ISc 'print(\"ready\", flush=True); input()'"
    )
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert not (tmp_path / "hidden").exists()
    try:
        # WHEN
        with Process(process.pid) as held:
            found = unwind(held, hold(process.pid))
    finally:
        process.communicate(b"\n")
    # THEN
    assert found.stacks[0].complete
    assert found.stacks[0].frames[-1].function == "_start"
    assert found.stacks[0].frames[-1].module == "hidden"


def test_pieces_of_memory_never_overlap() -> None:
    merged = standstill._merged([(100, b"abcdef"), (104, b"EFGH"), (200, b"x"), (98, b"..")])
    assert merged == [(98, b"..abcdefGH"), (200, b"x")]


@pytest.mark.parametrize("said", [b"", b"{}", b"[1, 2", b'[{"frames": 7, "os_thread_id": "x"}]', b"\xff"])
def test_a_dump_that_is_none_never_raises(said: bytes) -> None:
    found = parse_dump(said)
    assert found is None or all(thread.tid is None for thread in found)


def test_python_frames_stand_where_the_native_stack_enters_the_interpreter() -> None:
    # GIVEN
    from analyzers.contracts.evidence import Trust
    from analyzers.contracts.facts import Frame, to_evidence

    frames = tuple(Frame(function=name) for name in ("poll", "_PyEval_EvalFrameDefault", "_start"))
    stack = to_evidence(StackFact(tid=7, frames=frames), id="s", source="x", text="t", trust=Trust.KERNEL)
    python = PythonThread(7, "Main\x1b[2J", True, True, (("serve", "app.py", 12), ("<module>", "app.py", 40)))

    # WHEN
    text = BothSides(Snapshot((stack,)), (python,)).text()

    # THEN
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [
        ["native", "poll"],
        ["native", "_PyEval_EvalFrameDefault"],
        ["python", "serve"],
        ["python", "<module>"],
        ["native", "_start"],
    ]
    assert "holds the GIL" in text


def test_without_py_spy_the_line_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "find_tool", lambda: None)
    threads, gap = hosted.python_threads(1)
    assert threads == ()
    assert gap is not None
    assert "pip install" in (gap.command or "")
