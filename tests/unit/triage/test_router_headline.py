"""What leads a report, what its advice says, and what its reader sees of long timelines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import (
    ActionFact,
    CoreFact,
    ExitFact,
    Fact,
    KernelFact,
    LogFact,
    ProbeFact,
    SocketFact,
    to_evidence,
)
from analyzers.contracts.report import Parent, Process, Report, TimelineItem
from analyzers.render.markdown import render_markdown
from analyzers.render.moments import clock_text, short_clock
from analyzers.render.terminal import render_terminal
from analyzers.render.words import headline, lineage
from analyzers.triage.build import Group, judge, report_of
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.run import judge_all
from analyzers.triage.table import table_of
from analyzers.triage.timeline import ITEM_LIMIT, _thinned

next_id = numbering()
SIGSEGV, SIGKILL = 11, 9
SI_USER, SI_TKILL, SEGV_MAPERR = 0, -6, 1


def made(fact: Fact, elapsed: float | None = None, pid: int | None = None) -> Evidence:
    return to_evidence(
        fact,
        id=next_id(),
        source="t",
        text=getattr(fact, "event", "t"),
        trust=Trust.KERNEL,
        elapsed=elapsed,
        incarnation=Incarnation(pid=pid),
    )


def anchor(pid: int, *facts: Fact) -> Material:
    items = tuple(made(fact, pid=pid) for fact in facts)
    return Material(evidence=items, process=Process(pid=pid), anchor=True, tids=frozenset({pid}))


def report(*facts: Fact, process: Process | None = None) -> Report:
    items = tuple(made(fact, elapsed=float(at)) for at, fact in enumerate(facts))
    return report_of(judge(Group(items, process=process or Process())), inputs=[])


def test_the_best_founded_incident_leads_whatever_came_first() -> None:
    # GIVEN a core that tells nothing, a planned stop, a weak fault and an out-of-memory kill, in that order
    weakest = anchor(1)
    planned = anchor(2, ExitFact(by="waitpid", code=0))
    weak = anchor(3, CoreFact(signal=SIGSEGV, si_code=SEGV_MAPERR, server=True))
    strong = anchor(4, ExitFact(by="systemd", signal=SIGKILL, oom=True))
    judged, _ = judge_all([weakest, planned, weak, strong])
    assert [each.finding.class_ for each in judged] == ["HOST-OOM", "SEGV", "NO-FAULT", "UNDETERMINED"]
    assert next(each.class_ for each in table_of(judged, ()).incidents) == "HOST-OOM"


def test_the_order_of_equals_does_not_depend_on_the_order_of_the_inputs() -> None:
    cores = [anchor(pid, CoreFact(signal=SIGSEGV, si_code=SEGV_MAPERR, server=True)) for pid in (5, 3, 4)]
    judged, _ = judge_all(cores)
    assert [each.group.process.pid for each in judged] == [3, 4, 5]


def test_the_core_that_gdb_is_asked_about_is_the_headlines(tmp_path: object) -> None:
    from pathlib import Path

    other, best = CoreWork(Path("other"), None), CoreWork(Path("best"), None)
    first = Material(process=Process(pid=1), anchor=True, core=other)
    second = anchor(2, ExitFact(by="systemd", signal=SIGKILL, oom=True))
    second = Material(second.evidence, process=second.process, anchor=True, core=best)
    judged, _ = judge_all([first, second])
    assert judged[0].group.core is best


STRANDED = (
    LogFact("loaded"),
    LogFact("enter-sleep"),
    SocketFact(unanswered=True, bytes_received=10),
    ProbeFact(route="/props", status=200, is_sleeping=True),
)


def commands(found: Report) -> str:
    return "\n".join(step.command or "" for step in found.verdict.advice)


def test_advice_names_the_servers_own_port_when_it_is_known() -> None:
    assert ":8080/slots" in commands(report(*STRANDED))
    own = commands(report(*STRANDED, process=Process(port=9123)))
    assert "127.0.0.1:9123/slots" in own
    assert "8080" not in own


@pytest.mark.parametrize(("outcome", "advised"), [("released", False), ("failed", True)])
def test_a_release_that_was_made_is_not_advised_again(outcome: str, advised: bool) -> None:
    found = report(*STRANDED, ActionFact(action="release-stranded", outcome=outcome))
    assert found.verdict.class_ == "HANG-STRANDED"
    assert ("/slots" in commands(found)) == advised


@pytest.mark.parametrize("code", [SI_USER, SI_TKILL])
def test_a_sent_fault_signal_is_not_called_sigkill(code: int) -> None:
    found = report(CoreFact(signal=SIGSEGV, si_code=code, server=True))
    assert found.verdict.class_ == "KILLED"
    for text in (headline(found.verdict), shown(found), render_markdown(found)):
        assert "SIGKILL" not in text
    assert "SIGSEGV" in shown(found)


def shown(found: Report, width: int = 100) -> str:
    out = io.StringIO()
    render_terminal(found, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_a_sent_sigkill_still_says_so() -> None:
    assert "SIGKILL" in shown(report(ExitFact(by="waitpid", signal=SIGKILL)))


def item(at: float, event: str, clock: str = "elapsed") -> TimelineItem:
    return TimelineItem(at=at, clock=clock, event=event, text=f"{event} at {at}")


def busy(count: int) -> list[TimelineItem]:
    """Two rounds of sleep, then so many slot lines that they fill any list."""
    rounds = [
        item(1.0, "loaded"),
        item(2.0, "enter-sleep"),
        item(3.0, "exit-sleep"),
        item(4.0, "enter-sleep"),
    ]
    return [*rounds, item(5.0, "exit-sleep"), *(item(6.0 + at / 100, "task-launched") for at in range(count))]


def test_slot_lines_do_not_push_sleeps_out_of_the_report() -> None:
    kept = _thinned(busy(5000))
    assert len(kept) == ITEM_LIMIT
    assert [each.event for each in kept[:5]] == ["loaded"] + ["enter-sleep", "exit-sleep"] * 2
    assert [each.at for each in kept] == sorted(each.at for each in kept)
    assert kept[-1].at == busy(5000)[-1].at


def test_when_sleeps_alone_fill_the_report_the_last_ones_stay() -> None:
    many = [item(float(at), "enter-sleep") for at in range(2 * ITEM_LIMIT)]
    assert _thinned(many) == many[-ITEM_LIMIT:]


def test_slot_lines_do_not_hide_sleeps_in_the_terminal() -> None:
    lines = [item(float(at) / 10, "task-launched") for at in range(100)]
    lines += [item(11.0, "enter-sleep"), item(14.5, "exit-sleep")]
    lines += [item(20.0 + at / 10, "task-done") for at in range(100)]
    found = report(LogFact("loaded")).model_copy(update={"timeline": lines})
    text = shown(found)
    assert "11.000 s" in text
    assert "14.500 s" in text
    assert "asleep 3.5 s" in text
    left = [line for line in text.splitlines() if line.endswith(" more")]
    assert len(left) == 2
    assert "All moments: --html or --json" in text
    left_out = sum(int(line.split("more")[0].split()[-1]) for line in left)
    rows = [line for line in text.splitlines() if " at " in line and " s  " in line]
    assert left_out + len(rows) == len(lines)


def test_one_line_is_not_replaced_by_a_line_that_says_so() -> None:
    lines = [item(float(at), "task-launched") for at in range(5)] + [
        item(9.0 + at, "loaded") for at in range(30)
    ]
    text = shown(report(LogFact("loaded")).model_copy(update={"timeline": lines}))
    assert "│ 1 more" not in text


@pytest.mark.parametrize("clock", ["wall", "mono", "elapsed"])
def test_milliseconds_are_shown_on_every_clock(clock: str) -> None:
    at = 1_780_000_000.1235 if clock == "wall" else 12.1235
    assert short_clock(at, clock).removesuffix(" s")[-4:] in (".123", ".124")
    assert ".12" in clock_text(at, clock)


def test_milliseconds_are_rounded_not_cut() -> None:
    assert clock_text(1.9996, "wall").endswith("00:00:02.000 UTC")


def test_the_lineage_is_one_line_with_whatever_is_known() -> None:
    model = Process().model.model_copy(update={"name": "tiny"})
    whole = Process(
        pid=3, port=9, role="child", model=model, parent=Parent(pid=2, tid=4, port=8080, start_time=1.5)
    )
    expected = (
        "child tiny (PID 3, port 9) of the router (PID 2, port 8080, its thread 4), started 1.50 s after boot"
    )
    assert lineage(report(process=whole)) == expected
    assert lineage(report(process=Process(role="child", parent=Parent()))) == "a child of the router"
    assert lineage(report(process=Process(role="router"))) == "a router"
    assert lineage(report()) == ""


def test_a_kernel_fault_keeps_the_routers_status_apart() -> None:
    found = report(
        LogFact("loaded"), KernelFact("segfault", tid=1), ExitFact(by="router", code=1, unit="tiny")
    )
    assert found.process.signal == "SIGSEGV"
    assert found.process.code is None
    assert any("reports this very death as status 1" in reason for reason in found.verdict.reasons)
