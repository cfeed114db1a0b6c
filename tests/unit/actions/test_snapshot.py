"""Live stacks: what a tool's text becomes, whom it is never pointed at, and what a refusal names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ActionFact, StackFact, fact_of
from collector.actions import snapshot as room
from collector.actions.snapshot import snapshot
from collector.actions.tracing import Traced, trace
from collector.sources.procfs import Process

TEXT = """PID 7 - process
TID {tid}:
#0  0x00007f52288a3f16     __futex_abstimed_wait_common - /usr/lib/libc.so.6
#1  0x00007f52288a65d8     pthread_cond_wait@@GLIBC_2.3.2 - /usr/lib/libc.so.6
#2  0x00007f5227080ab5     server_queue::start_loop(long) - /opt/libserver.so
#3  0x00007f52289278ec     __clone3 - /usr/lib/libc.so.6
"""


@contextmanager
def child(script: str = "print('ready', flush=True); input()") -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    try:
        yield started
    finally:
        started.send_signal(signal.SIGCONT)
        started.communicate()


@pytest.fixture(autouse=True)
def _tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_tool", lambda _: "/usr/bin/eu-stack")


def never(*_: object) -> Traced:
    raise AssertionError("the tool must not run")


def test_every_thread_becomes_a_live_stack_of_this_incarnation() -> None:
    # GIVEN
    with child() as process:
        asked: list[list[str]] = []

        def run(argv: list[str], held: Process, seconds: float) -> Traced:
            asked.append(argv)
            return Traced(TEXT.format(tid=held.pid), "", 0, seconds=0.06, longest_stop=0.004)

        # WHEN
        taken = snapshot(process.pid, run=run)

    # THEN
    stack, action = fact_of(taken.evidence[0], StackFact), fact_of(taken.evidence[1], ActionFact)
    assert stack is not None
    assert (stack.rung, stack.live, stack.complete) == ("live", True, True)
    assert stack.frames[2].function == "server_queue::start_loop(long)"
    assert stack.name is not None
    assert stack.name.startswith("python")
    assert action is not None
    assert (action.outcome, action.seconds) == ("taken", 0.004)
    assert all(e.incarnation.pid == process.pid and e.incarnation.start_time for e in taken.evidence)
    assert taken.evidence[0].trust is Trust.KERNEL
    assert asked[0][-2:] == ["-p", str(process.pid)]
    assert taken.gaps == ()


def test_it_never_looks_at_itself_nor_at_the_dead() -> None:
    with child() as process:
        pass
    assert "itself" in snapshot(os.getpid(), run=never).gaps[0].why
    assert "gone" in snapshot(process.pid, run=never).gaps[0].why


def test_a_traced_or_stopped_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with child() as process:
        # GIVEN another tracer
        with monkeypatch.context() as patch:
            patch.setattr(Process, "tracer", lambda _: 4711)
            # WHEN / THEN
            assert "4711" in snapshot(process.pid, run=never).gaps[0].why
        # GIVEN a stopped process
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        # WHEN / THEN
        assert "stopped" in snapshot(process.pid, run=never).gaps[0].why


@pytest.mark.parametrize(
    ("scope", "named"), [("1", "ptrace_scope = 1"), ("3", "ptrace_scope = 3"), (None, "CAP_SYS_PTRACE")]
)
def test_a_refusal_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str | None, named: str
) -> None:
    # GIVEN
    setting = tmp_path / "ptrace_scope"
    if scope is not None:
        setting.write_text(f"{scope}\n")
    monkeypatch.setattr(room, "_YAMA", setting)
    monkeypatch.setattr(room, "_has_right", lambda: False)
    monkeypatch.setattr(room.os, "geteuid", lambda: 1000)
    refused = Traced("", "eu-stack: dwfl_linux_proc_attach pid 7: Operation not permitted\n", 2)

    # WHEN
    with child() as process:
        taken = snapshot(process.pid, run=lambda *_: refused)

    # THEN
    assert taken.evidence == ()
    assert named in taken.gaps[0].why
    assert taken.gaps[0].command == f"sudo eu-stack -p {process.pid}"


@pytest.mark.parametrize("output", ["", TEXT.format(tid=7)[:120], "\x1b[2Jnonsense\n" * 50])
def test_a_tool_that_was_cut_off_is_a_gap_and_what_it_gave_is_kept(output: str) -> None:
    # GIVEN / WHEN
    with child() as process:
        taken = snapshot(process.pid, run=lambda *_: Traced(output, "", -9, "time", 5.0, 0.2))

    # THEN
    assert "time bound" in taken.gaps[0].why
    assert bool(taken.evidence) == ("#0" in output)
    assert all("\x1b" not in e.text for e in taken.evidence)


def test_without_the_tool_the_line_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_tool", lambda _: None)
    assert "elfutils" in (snapshot(1, run=never).gaps[0].command or "")


def test_a_tool_that_is_ended_leaves_nobody_stopped() -> None:
    # GIVEN a tool that stops the process and then hangs, as an attach caught half-way does
    with child() as process, Process(process.pid) as held:
        script = "import os, signal, sys, time; os.kill(int(sys.argv[1]), signal.SIGSTOP); time.sleep(600)"

        # WHEN
        done = trace([sys.executable, "-c", script, str(process.pid)], held, 1.0)

        # THEN
        assert done.cut_off == "time"
        assert not stays_stopped(held)


def stays_stopped(process: Process) -> bool:
    tick = threading.Event()
    return all(process.state() == "T" and not tick.wait(0.005) for _ in range(400))


def test_output_is_bounded_and_the_environment_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN
    monkeypatch.setattr("collector.actions.tracing._OUTPUT_BYTES", 1000)
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://192.0.2.1/")
    with child() as process, Process(process.pid) as held:
        # WHEN
        flood = trace([sys.executable, "-c", "while True: print('x' * 999)"], held, 60.0)
        environment = trace([sys.executable, "-c", "import os; print(dict(os.environ))"], held, 60.0)

    # THEN
    assert flood.cut_off == "output"
    assert len(flood.output) <= 1000
    assert environment.cut_off is None
    assert "DEBUGINFOD" not in environment.output
