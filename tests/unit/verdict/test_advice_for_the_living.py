"""What to do about a living server that is held, or that lacks only its key: that, and no more."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import Fact, ProbeFact, to_evidence
from analyzers.contracts.report import Advice
from analyzers.contracts.watched import LookFact
from analyzers.triage.build import Group, judge, report_of

PID = 4711


def made(fact: Fact, number: int) -> Evidence:
    return to_evidence(
        fact,
        id=f"E{number}",
        source="probe",
        text="seen",
        trust=Trust.KERNEL,
        mono=100.0 + number,
        wall=1e9 + number,
        incarnation=Incarnation(pid=PID, start_time=5.0, boot_id="b"),
    )


def advice(*facts: Fact) -> tuple[str, list[Advice]]:
    group = Group(tuple(made(fact, number) for number, fact in enumerate(facts)))
    report = report_of(judge(group), inputs=[])
    return report.verdict.class_, report.verdict.advice


def probes(props: int | None) -> list[Fact]:
    return [
        ProbeFact(route="/health", status=200, outcome="answered"),
        ProbeFact(route="/props", status=props, timeout=2.0, outcome="answered" if props else "timeout"),
    ]


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_lacks_only_the_key_is_asked_for_the_key(status: int) -> None:
    # GIVEN two looks at a server that answers /health and refuses /props for want of a key
    class_, steps = advice(LookFact(state="S"), *probes(status), LookFact(state="S"), *probes(status))
    # THEN the one thing to do is to give it, by a file
    assert class_ == "UNDETERMINED"
    (step,) = steps
    assert step.command == f"llama-blackbox collect --live --pid {PID} --api-key-file FILE"


def test_a_server_that_gives_no_answer_lacks_more_than_a_key() -> None:
    silent = ProbeFact(route="/health", status=None, timeout=2.0, outcome="timeout")
    _, steps = advice(LookFact(state="S"), silent, *probes(401)[1:])
    assert not any("--api-key-file" in (step.command or "") for step in steps)


def test_a_stopped_server_is_let_run_on_and_its_stopper_looked_for() -> None:
    # GIVEN a server in state T that answers nothing
    silent = ProbeFact(route="/health", status=None, timeout=2.0, outcome="timeout")
    class_, steps = advice(LookFact(state="T"), silent)
    # THEN the first step is to let it go on, by its own PID, and the next names who may have stopped it
    assert class_ == "UNDETERMINED"
    assert steps[0].command == f"kill -CONT {PID}"
    assert "Ctrl-Z" in steps[1].text
    assert all("PID" not in (step.command or "").replace("TracerPid", "") for step in steps)


def test_a_traced_and_a_dying_server_get_steps_of_their_own() -> None:
    _, traced = advice(LookFact(state="t", tracer="gdb"))
    _, dying = advice(LookFact(state="D", dumping=True))
    assert f"/proc/{PID}/status" in (traced[0].command or "")
    assert dying[0].command == "coredumpctl list"
