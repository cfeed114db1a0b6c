"""The state of one server: by the hardest word, forgeries and lost lines included; strands and hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, LogFact, ProbeFact, to_evidence
from analyzers.contracts.registry import STATES
from analyzers.contracts.watched import LookFact
from collector.agent.states.machine import ASKED_SECONDS, ServerState
from collector.agent.states.model import Crowd, Knobs, Now, Pulse, Transition, Waiting

WALL = 1_700_000_000.0


@dataclass
class Scene:
    """A server under watch, and a clock that only the test moves."""

    mono: float = 100.0
    cpu: float = 0.0
    made: list[Transition] = field(default_factory=list)
    facts: int = 0

    def __post_init__(self) -> None:
        self.state = ServerState(self.now(), knobs=Knobs(stranded=10.0, hung=30.0))

    def now(self) -> Now:
        return Now(WALL + self.mono, self.mono)

    def tell(self, fact: Any, trust: Trust = Trust.SERVER) -> Evidence:
        self.facts += 1
        evidence = to_evidence(
            fact,
            id=f"e{self.facts}",
            source="t",
            text="t",
            trust=trust,
            mono=self.mono,
            incarnation=Incarnation(pid=7),
        )
        self.state.note(evidence, self.now())
        self.decide()
        return evidence

    def line(self, event: str, trust: Trust = Trust.SERVER, **more: Any) -> None:
        self.tell(LogFact(event=event, **more), trust)

    def props(self, sleeping: bool | None, outcome: str = "answered", status: int | None = 200) -> None:
        self.tell(ProbeFact(route="/props", status=status, is_sleeping=sleeping, outcome=outcome))

    def health(self, status: int | None, outcome: str = "answered") -> None:
        self.tell(ProbeFact(route="/health", status=status, outcome=outcome))

    def passes(
        self, seconds: float, *, cpu: float = 0.0, letter: str = "S", waiting: tuple[Waiting, ...] = ()
    ) -> None:
        """Looks once a second; ``cpu`` seconds are burnt in each."""
        for _ in range(int(seconds)):
            self.mono += 1.0
            self.cpu += cpu
            self.state.pulse(Pulse(self.mono, letter, self.cpu))
            stuck = tuple(one for one in waiting if one.quiet >= 10)
            grown = tuple(Waiting(one.socket, one.quiet + 1, one.peer, one.evidence) for one in waiting)
            self.state.crowd(Crowd(self.mono, len(waiting), False, waiting, stuck))
            waiting = grown
            self.decide()

    def decide(self) -> None:
        made = self.state.decide(self.now())
        if made is not None:
            self.made.append(made)

    @property
    def is_now(self) -> str | None:
        return self.state.state

    @property
    def path(self) -> list[str]:
        return [each.new for each in self.made]


CLIENT = Waiting(1, 0.0, "a client", "socket-1")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_life_by_its_lines(scene):
    for event in ("init", "loading", "loaded", "listening", "enter-sleep"):
        scene.mono += 0.2
        scene.line(event)
    scene.passes(3)
    scene.line("exit-sleep")
    scene.passes(1, cpu=0.5)
    scene.line("task-launched", task_id=1)
    scene.line("task-done", task_id=1)
    assert scene.path == ["loading", "awake", "unloading", "asleep", "waking", "busy", "awake"]
    assert set(scene.path) <= set(STATES)
    counters = scene.state.view(scene.now()).counters
    assert (counters.sleeps, counters.wakes) == (1, 1)


def test_a_wake_is_not_down_and_props_that_block_say_that_it_loads(scene):
    scene.line("listening")
    scene.line("enter-sleep")
    scene.passes(2)
    scene.mono += 1
    scene.health(200)
    scene.props(None, "timeout", None)
    assert scene.is_now == "waking"


def test_health_alone_says_only_that_the_first_load_is_over(scene):
    scene.health(503)
    assert scene.is_now == "loading"
    scene.mono += 1
    scene.health(200)
    assert scene.is_now == "awake"
    scene.props(True)
    assert scene.is_now == "asleep"
    scene.mono += 1
    scene.health(200)
    assert scene.is_now == "asleep"


def test_what_props_says_beats_a_lost_line(scene):
    scene.line("listening")
    scene.mono += 5
    scene.props(True)
    assert scene.is_now == "asleep"
    assert scene.made[-1].reason == "/props says that it sleeps"
    scene.mono += 5
    scene.props(False)
    assert scene.is_now == "awake"


def test_a_forged_line_is_corrected_by_props_and_the_conflict_named(scene):
    scene.line("listening")
    scene.mono += 5
    scene.line("enter-sleep")
    scene.mono += 5
    scene.props(False)
    assert scene.is_now == "awake"
    assert any("says that it goes to sleep" in note for note in scene.state.view(scene.now()).notes)


def test_a_line_that_a_client_can_write_counts_for_nothing(scene):
    scene.line("listening")
    scene.mono += 1
    scene.line("enter-sleep", Trust.CLIENT)
    assert scene.is_now == "awake"


def test_a_line_from_before_a_harder_word_is_history(scene):
    scene.props(True)
    late = to_evidence(
        LogFact(event="exit-sleep"), id="l", source="t", text="t", trust=Trust.SERVER, mono=scene.mono - 5
    )
    scene.state.note(late, scene.now())
    scene.decide()
    assert scene.is_now == "asleep"


def test_the_kernel_says_how_a_native_loop_waits_where_nobody_else_does(scene):
    scene.state.loop_waits(True, scene.mono)
    scene.decide()
    assert scene.is_now == "asleep"
    scene.mono += 5
    scene.state.loop_waits(False, scene.mono)
    scene.decide()
    assert scene.is_now == "awake"


def test_a_request_at_a_sleeping_server_is_stranded_when_its_patience_ends_and_not_before(scene):
    scene.props(True)
    scene.passes(9, waiting=(CLIENT,))
    assert scene.is_now == "asleep"
    scene.passes(2, waiting=(Waiting(1, 10.0, "a client", "socket-1"),))
    assert scene.is_now == "stranded"
    view = scene.state.view(scene.now())
    assert [one.socket for one in view.stranded] == [1]
    assert "socket-1" in scene.made[-1].evidence
    scene.passes(1)
    assert scene.is_now == "asleep"


def test_a_server_that_works_is_not_asleep_whatever_its_last_line_said(scene):
    # GIVEN a log that lost the line of the wake
    scene.line("enter-sleep")
    scene.passes(3)
    assert scene.is_now == "asleep"
    # WHEN it works on a request for long
    scene.passes(20, cpu=0.9, waiting=(CLIENT,))
    assert "stranded" not in scene.path


def test_work_without_any_progress_is_a_hang_after_its_time(scene):
    scene.line("listening")
    scene.props(False)
    scene.passes(6)
    scene.line("task-launched", task_id=1)
    scene.passes(28, waiting=(CLIENT,))
    assert scene.is_now == "busy"
    scene.passes(12, waiting=(Waiting(1, 29.0, "a client", "socket-1"),))
    assert scene.is_now == "hung"


@pytest.mark.parametrize("moving", ["cpu", "lines", "bytes"])
def test_anything_that_moves_is_no_hang(scene, moving):
    scene.line("listening")
    scene.line("task-launched", task_id=1)
    for number in range(60):
        scene.passes(1, cpu=0.5 if moving == "cpu" else 0.0, waiting=(Waiting(1, 50.0, "c", "s"),))
        if moving == "lines":
            scene.line("task-launched", task_id=2 + number)
        if moving == "bytes":
            scene.state.crowd(Crowd(scene.mono, 1, True, (), ()))
            scene.decide()
    assert "hung" not in scene.path


@pytest.mark.parametrize("letter", ["T", "t"])
def test_a_stopped_process_is_not_hung_and_the_note_says_why(scene, letter):
    scene.line("listening")
    scene.line("task-launched", task_id=1)
    scene.passes(60, letter=letter, waiting=(Waiting(1, 50.0, "c", "s"),))
    assert "hung" not in scene.path
    assert any("stopped by" in note for note in scene.state.view(scene.now()).notes)


def test_time_that_the_machine_slept_is_held_against_nobody(scene):
    scene.line("listening")
    scene.line("task-launched", task_id=1)
    scene.passes(20, waiting=(Waiting(1, 5.0, "c", "s"),))
    scene.state.reset_timers(scene.now(), "the machine was suspended")
    scene.passes(20, waiting=(Waiting(1, 5.0, "c", "s"),))
    assert "hung" not in scene.path


def test_a_dump_then_an_end_is_a_crash(scene):
    scene.line("listening")
    scene.tell(LookFact(dumping=True), Trust.KERNEL)
    assert scene.is_now == "dumping"
    scene.state.ended(True, scene.now(), "ended by signal 11")
    scene.decide()
    assert scene.path[-2:] == ["dumping", "crashed"]


@pytest.mark.parametrize(("fault", "state"), [(True, "crashed"), (False, "down"), (None, "down")])
def test_how_it_ended_is_told_by_the_book_of_deaths(scene, fault, state):
    scene.line("listening")
    scene.state.ended(fault, scene.now(), "the end")
    scene.decide()
    assert scene.is_now == state


def test_a_planned_stop_is_stopping_and_then_down(scene):
    scene.line("listening")
    stop = ExitFact(by="systemd", result="stopping", requested=True)
    evidence = to_evidence(stop, id="s", source="t", text="t", trust=Trust.SUPERVISOR, mono=scene.mono)
    scene.state.planned(evidence, scene.now())
    scene.decide()
    assert scene.is_now == "stopping"
    scene.state.ended(False, scene.now(), "the end")
    scene.decide()
    assert scene.is_now == "down"


def test_a_forged_line_of_a_stop_wears_off(scene):
    scene.line("listening")
    scene.line("stopping")
    assert scene.is_now == "stopping"
    scene.mono += ASKED_SECONDS + 1
    scene.props(False)
    assert scene.is_now == "awake"


def test_without_a_key_the_state_is_a_guess_that_says_so(scene):
    scene.health(200)
    scene.props(None, "answered", 401)
    assert any("key" in note for note in scene.state.view(scene.now()).notes)


def test_an_access_line_of_a_health_check_is_no_progress(scene):
    scene.line("listening")
    scene.line("task-launched", task_id=1)
    for _ in range(60):
        scene.passes(1, waiting=(Waiting(1, 50.0, "c", "s"),))
        scene.line("request", route="/health", status=200)
    assert scene.is_now == "hung"
