"""A log whose lines came after the core's process was dead, and its look-alikes that are its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, Fact, KernelFact, LogFact, LoopFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import CoreWork, Material, numbering

next_id = numbering()
DIED = 1000.0
EVENTS = ("init", "loaded", "enter-sleep", "exit-sleep")


def said(
    fact: Fact,
    pid: int | None = None,
    boot: str | None = None,
    wall: float | None = None,
    mono: float | None = None,
) -> Evidence:
    trust = Trust.SERVER if isinstance(fact, LogFact) else Trust.KERNEL
    who = Incarnation(pid=pid, boot_id=boot)
    return to_evidence(
        fact, id=next_id(), source="t:1", text="t", trust=trust, incarnation=who, wall=wall, mono=mono
    )


def core(*more: Evidence, boot: str | None = None) -> Material:
    fact = CoreFact(signal=11, pid=7, crashed_tid=9, instruction_pointer=1, stack_pointer=7, server=True)
    process = Process(pid=7, boot_id=boot)
    work = CoreWork(Path("core"), None)
    return Material((said(fact, 7), *more), process=process, anchor=True, tids=frozenset({7, 9}), core=work)


def log(
    began: float,
    lasted: float = 3.0,
    pid: int | None = 7,
    boot: str | None = None,
    clock: str = "mono",
    events: tuple[str, ...] = EVENTS,
) -> Material:
    step = lasted / (len(events) - 1)
    items = tuple(
        said(
            LogFact(event),
            pid,
            boot,
            wall=stamp if clock == "wall" else None,
            mono=stamp if clock == "mono" else None,
        )
        for stamp, event in ((began + at * step, event) for at, event in enumerate(events))
    )
    return Material(items, lives=(Life(items, "a.log", form="journal"),))


def fault(ip: int = 1, wall: float | None = None, mono: float | None = None) -> Material:
    return Material((said(KernelFact(shape="segfault", name="python", tid=9, ip=ip), wall=wall, mono=mono),))


def stored(wall: float) -> Evidence:
    return said(ExitFact("coredump-store", signal=11, result="core-dump"), 7, wall=wall)


def task(at: float) -> Evidence:
    return said(LoopFact(phase="awake", time_last_task_ms=int(at * 1000)), 7)


def counted(*materials: Material) -> tuple[int, str]:
    """How many log lines count in the one incident, and its gaps."""
    (one,), loose = group(list(materials))
    return sum(item.kind == LogFact.KIND for item in one.evidence), "\n".join(
        f"{gap.what}: {gap.why}" for gap in (*one.gaps, *loose)
    )


@pytest.mark.parametrize(
    ("began", "lasted", "why"),
    [
        (DIED - 10, 3, None),
        (DIED - 1, 3, None),  # its last lines reached the journal late
        (DIED + 8000, 3, "it began 8,000 s after the process in the core had died"),
        (DIED - 10, 100, "it went on for 90 s after the process in the core had died"),
    ],
)
@pytest.mark.parametrize("pid", [7, None])
@pytest.mark.parametrize("clock", ["mono", "wall"])
def test_lines_after_the_death_are_another_process(
    began: float, lasted: float, why: str | None, pid: int | None, clock: str
) -> None:
    told = fault(wall=DIED) if clock == "wall" else fault(mono=DIED)
    inputs = [core(), log(began, lasted, pid, clock=clock), told]
    for order in (inputs, inputs[::-1]):
        lines, gaps = counted(*order)
        assert lines == (0 if why else 4)
        assert (why or "a log of the core's own process (not") in gaps or why is None
        assert ("a log of the core's own process" in gaps) is (why is not None)


def test_a_core_record_dates_the_death_too() -> None:
    assert counted(core(stored(DIED)), log(DIED + 604_800, clock="wall"))[0] == 0
    assert counted(core(stored(DIED)), log(DIED - 60, clock="wall"))[0] == 4


def test_a_kernel_line_of_another_instruction_dates_nothing() -> None:
    # GIVEN a thread number that was used before, and the kernel's line about that one
    assert counted(core(), log(DIED), fault(ip=2, mono=5.0))[0] == 4


def test_the_last_task_dates_a_log_that_shows_its_beginning() -> None:
    lines, gaps = counted(core(task(DIED)), log(DIED + 8000))
    assert lines == 0
    assert "8,000 s after the last task of the process in the core" in gaps
    assert counted(core(task(DIED)), log(DIED - 5))[0] == 4
    # THEN a log that was cut tells by its first line nothing about when its server began
    assert counted(core(task(DIED)), log(DIED + 8000, events=EVENTS[2:]))[0] == 2


def test_seconds_since_one_of_several_boots_exclude_nothing() -> None:
    elsewhere = Material((said(KernelFact(shape="boot"), boot="b", mono=1.0),))
    assert counted(core(task(DIED)), log(DIED + 8000, boot="a"), elsewhere)[0] == 4


def test_a_pid_alone_may_have_been_used_again_and_that_is_asked() -> None:
    ask = "whether a.log is of the same use of PID 7"
    lines, gaps = counted(core(), log(5.0))
    assert (lines, ask in gaps) == (4, True)
    # THEN not where a clock, a boot or nothing about sleep is there
    assert ask not in counted(core(), log(DIED - 9), fault(mono=DIED))[1]
    assert ask not in counted(core(boot="a"), log(5.0, boot="a"))[1]
    assert ask not in counted(core(), log(5.0, events=EVENTS[:2]))[1]
