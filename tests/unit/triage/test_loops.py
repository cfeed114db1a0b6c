"""The loop's state from frames where no core gave it: decided, open between two ways, or unknown."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import Frame, LoopFact, StackFact, fact_of, to_evidence
from analyzers.triage.loops import with_loop

LOOP = "server_queue::start_loop(long)"
CACHED = "server_routes::update_cached_responses(bool)"


def stack(*names: str, tid: int = 7) -> Evidence:
    fact = StackFact(tid=tid, frames=tuple(Frame(name) for name in names), complete=True)
    return to_evidence(fact, id=f"E{tid}", source="t", text="t", trust=Trust.SERVER)


def state(*evidence: Evidence) -> LoopFact | None:
    found = [fact for fact in (fact_of(item, LoopFact) for item in with_loop(evidence)) if fact]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("beneath", "phase", "sleeping"),
    [
        (("pthread_cond_wait",), "asleep", None),
        (("pthread_cond_timedwait",), "awake", None),
        (("llama_model::~llama_model()",), "unloading", None),
        (("malloc", CACHED), "unknown", True),
    ],
)
def test_frames_decide_the_phase_or_only_that_it_sleeps(
    beneath: tuple[str, ...], phase: str, sleeping: bool | None
) -> None:
    fact = state(stack(*beneath, LOOP, "start_thread"))
    assert fact is not None
    assert (fact.phase, fact.sleeping, fact.how) == (phase, sleeping, ("frames",))


def test_nothing_is_derived_from_frames_that_do_not_tell_or_from_two_loops() -> None:
    assert state(stack("something_else", LOOP)) is None
    assert state(stack("pthread_mutex_unlock", LOOP)) is None  # awake, or just woken
    assert state(stack("pthread_cond_wait", LOOP), stack("pthread_cond_wait", LOOP, tid=8)) is None


def test_a_state_that_a_core_gave_stands() -> None:
    given = to_evidence(LoopFact(phase="awake"), id="E9", source="t", text="t", trust=Trust.KERNEL)
    assert state(given, stack("pthread_cond_wait", LOOP)) == LoopFact(phase="awake")
