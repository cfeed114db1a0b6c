"""One clock, rising; lines stand where they were made, not where they arrived."""

from __future__ import annotations

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import Fact, KernelFact, LogFact, to_evidence
from analyzers.triage.timeline import ITEM_LIMIT, timeline_of
from analyzers.verdict.case import build_case


def made(number: int, fact: Fact, **times: float) -> Evidence:
    return to_evidence(fact, id=f"E{number}", source="t", text=f"line {number}", trust=Trust.SERVER, **times)  # type: ignore[arg-type]


def test_a_line_that_arrived_after_the_crash_stands_before_it() -> None:
    # GIVEN a line made at 1.001 s of the server's clock that arrived 30 ms late, after the fault
    log = [
        made(1, LogFact("listening"), elapsed=0.0, wall=500.0),
        made(2, LogFact("exit-sleep"), elapsed=1.0, wall=501.0),
        made(3, LogFact("loading"), elapsed=1.001, wall=501.031),
    ]
    fault = made(4, KernelFact("segfault"), wall=501.01, mono=77.0)
    # WHEN the timeline is made
    items = timeline_of(build_case([*log, fault]))
    # THEN the fault is last
    assert [item.text for item in items] == ["line 1", "line 2", "line 3", "line 4"]
    assert {item.clock for item in items} == {"wall"}


def test_a_fault_without_a_time_on_the_logs_clock_stands_at_the_end_and_says_so() -> None:
    log = [made(1, LogFact("listening"), elapsed=0.0), made(2, LogFact("enter-sleep"), elapsed=1.0)]
    items = timeline_of(build_case([made(3, KernelFact("segfault"), mono=77.0), *log]))
    assert items[-1].event == "fault"
    assert "not known" in items[-1].text
    assert items[-1].dated is False
    assert [item.at for item in items] == sorted(item.at for item in items)


def test_a_long_log_keeps_its_end() -> None:
    log = [made(n, LogFact("slots-idle"), elapsed=float(n)) for n in range(ITEM_LIMIT * 3)]
    items = timeline_of(build_case(log))
    assert len(items) == ITEM_LIMIT
    assert items[-1].text == log[-1].text


def test_nothing_dated_gives_no_timeline() -> None:
    assert timeline_of(build_case([made(1, LogFact("listening"))])) == []
