"""Looks at real processes without stopping them: what moves, who traces, what is mapped."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.contracts.facts import fact_of
from analyzers.contracts.watched import LookFact, MemoryFact
from collector.actions.twice import look_twice
from collector.sources.looks import look
from collector.sources.memory import memory
from collector.sources.target import Target

READY = "ready\n"
SPIN = "print('ready', flush=True)\nwhile True: pass"
WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def spinning() -> Iterator[subprocess.Popen[str]]:
    yield from started(SPIN)


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[str]]:
    yield from started(WAIT)


def started(program: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == READY
        yield child
        child.kill()


def seen(pid: int) -> LookFact:
    evidence = look(pid)
    assert evidence is not None
    fact = fact_of(evidence, LookFact)
    assert fact is not None
    return fact


def test_cpu_time_moves_in_a_busy_process_and_not_in_a_waiting_one(
    spinning: subprocess.Popen[str], waiting: subprocess.Popen[str]
) -> None:
    # GIVEN one process that computes and one that waits
    while seen(waiting.pid).state != "S":
        os.sched_yield()
    before, still = seen(spinning.pid), seen(waiting.pid)
    # WHEN the busy one has had time on a processor
    while (seen(spinning.pid).cpu_seconds or 0.0) < (before.cpu_seconds or 0.0) + 0.05:
        os.sched_yield()
    # THEN only its figures moved, and the thread's own with them
    assert seen(waiting.pid).cpu_seconds == still.cpu_seconds
    assert (seen(spinning.pid).threads[0].cpu_seconds or 0.0) > (before.threads[0].cpu_seconds or 0.0)
    assert still.threads[0].state == "S"


def test_a_stopped_process_is_seen_as_stopped(waiting: subprocess.Popen[str]) -> None:
    os.kill(waiting.pid, signal.SIGSTOP)
    os.waitpid(waiting.pid, os.WUNTRACED)
    evidence = look(waiting.pid)
    assert evidence is not None
    assert seen(waiting.pid).state == "T"
    assert "stopped" in evidence.text
    assert "traced" not in evidence.text


def test_children_are_named_and_nobody_traces(waiting: subprocess.Popen[str]) -> None:
    own = seen(os.getpid())
    assert any("python" in name for name in own.children)
    assert (own.tracer, own.tracer_is_child) == (None, None)


def test_a_process_that_is_gone_gives_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert look(child.pid) is None
    assert memory(child.pid, phase="asleep") is None


def test_a_model_that_is_mapped_is_named_without_its_folder(tmp_path: Path) -> None:
    model = tmp_path / "my models" / "small one.gguf"
    model.parent.mkdir()
    model.write_bytes(b"GGUF" * 4096)
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        taken = memory(os.getpid(), phase="asleep", cycle=2)
    after = memory(os.getpid(), phase="asleep", cycle=3)
    assert taken is not None
    assert after is not None
    fact, later = fact_of(taken, MemoryFact), fact_of(after, MemoryFact)
    assert fact is not None
    assert later is not None
    assert fact.held_model_files == ("small one.gguf",)
    assert str(tmp_path) not in taken.model_dump_json()
    assert later.held_model_files == ()
    assert (fact.bytes or 0) > 0


def test_two_looks_are_taken_in_order_and_a_silent_port_is_no_error(waiting: subprocess.Popen[str]) -> None:
    pauses: list[float] = []
    target = Target(1, pid=waiting.pid)
    looked = look_twice(target, seconds=7.0, stacks=False, timeout=0.2, pause=pauses.append)
    assert pauses == [7.0]
    kinds = [item.kind for item in looked.evidence]
    assert kinds.count("look") == 2
    stamps = [item.mono for item in looked.evidence if item.kind == "look" and item.mono is not None]
    assert stamps == sorted(stamps)
    assert all(item.data["outcome"] == "refused" for item in looked.evidence if item.kind == "probe")
