"""A kernel line in a text of its own beside a log that names no process."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import Fact, KernelFact, LogFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.triage.faults import one_fault
from analyzers.triage.lives import Life
from analyzers.triage.material import Material, numbering

next_id = numbering()
ASKED = "whether the kernel's line in kern.txt:1 is about the process of a.log"


def said(fact: Fact, source: str, wall: float | None = None, pid: int | None = None) -> Evidence:
    trust = Trust.SERVER if isinstance(fact, LogFact) else Trust.KERNEL
    who = Incarnation(pid=pid)
    return to_evidence(fact, id=next_id(), source=source, text="t", trust=trust, wall=wall, incarnation=who)


def log(*stamps: float | None, pid: int | None = None, more: tuple[Evidence, ...] = ()) -> Material:
    items = tuple(said(LogFact("loaded"), "a.log:1", at, pid) for at in stamps)
    return Material((*items, *more), lives=(Life(items, "a.log"),))


def line(
    name: str = "llama-server",
    object_: str | None = "libc.so.6",
    wall: float | None = None,
    shape: str = "segfault",
) -> Evidence:
    return said(KernelFact(shape=shape, name=name, tid=99, object=object_), "kern.txt:1", wall)


def joined(own: Material, kernel: Evidence) -> tuple[bool, list[Gap]]:
    kept, gaps = one_fault([own, Material((kernel,))])
    return any(kernel in one.evidence for one in kept), gaps


@pytest.mark.parametrize(
    ("kernel", "joins"),
    [
        (line(), True),
        (line("python3", "xllamacpp.abi3.so"), True),
        (line("worker", "libggml-base.so"), True),
        (line("worker"), False),  # anybody's thread in everybody's library
        (line(shape="oom-kill", object_=None), True),
        (line("postgres", shape="oom-kill", object_=None), False),
    ],
)
def test_a_stray_line_needs_the_servers_name_and_is_asked_about(kernel: Evidence, joins: bool) -> None:
    found, gaps = joined(log(None), kernel)
    assert found is joins
    assert any(gap.what == ASKED for gap in gaps) is joins
    assert bool(gaps)


@pytest.mark.parametrize(
    ("wall", "joins"), [(50.0, False), (170.0, True), (190.0, True), (90_000.0, True), (110.0, False)]
)
@pytest.mark.parametrize("shape", ["segfault", "oom-kill"])
def test_a_stray_line_before_the_log_or_long_before_its_end_is_not_its_own(
    wall: float, joins: bool, shape: str
) -> None:
    # GIVEN a log of 100 to 200
    found, gaps = joined(log(100.0, 200.0), line(wall=wall, shape=shape))
    assert found is joins
    assert any(gap.what == ASKED for gap in gaps) is joins


def test_a_line_of_a_process_that_the_log_names_needs_no_such_gap() -> None:
    assert joined(log(100.0, pid=99), line(wall=101.0)) == (True, [])


def test_a_line_in_the_log_itself_needs_no_such_gap() -> None:
    kernel = line(wall=150.0)
    (kept,), gaps = one_fault([log(100.0, 140.0, more=(kernel,))])
    assert kernel in kept.evidence
    assert gaps == []
