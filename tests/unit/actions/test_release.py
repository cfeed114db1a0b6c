"""The release: one call at most, none over a doubtful model file, and the client's answer watched for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ActionFact, ModelFileFact, ProbeFact, fact_of, to_evidence
from collector.actions.release import Hands, client_state, release_stranded
from collector.sources.http import Answer
from collector.sources.modelfile import look_at_file
from collector.sources.probes import Probe
from collector.sources.sockdiag import TcpSample
from collector.sources.stranded import Stranded
from collector.sources.target import Target

KEY = "sk-planted-secret"
WAITING = TcpSample(3, 700, 1, "127.0.0.1", 56032, 0, 0, 11807, 0, 5500, 5500)
ANSWERED = replace(WAITING, bytes_sent=900, last_data_sent_ms=1)
HUNG_UP = replace(WAITING, state=8)
OTHER = replace(WAITING, cookie=4)
WOKE = Answer("answered", 0.016, 200, b'{"tokens":[]}')


@dataclass
class World:
    """A pretended server: what /props says, what the call brings, what each look at the sockets shows."""

    sleeping: bool | None = True
    outcome: str = "answered"
    model: str | None = None
    answer: Answer = WOKE
    looks: list[list[TcpSample]] = field(default_factory=lambda: [[WAITING], [ANSWERED]])
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    now: float = 0.0

    def hands(self) -> Hands:
        return Hands(self.props, self.connections, self.call, self.sleep, lambda: self.now)

    def props(self, _: Target) -> Probe:
        fact = ProbeFact(route="/props", is_sleeping=self.sleeping)
        made = to_evidence(fact, id="p", source="s", text="t", trust=Trust.SERVER)
        return Probe(fact, self.outcome, made, model_path=self.model)

    def connections(self, _: int, **__: object) -> list[TcpSample]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def call(self, _: Target, method: str, path: str, **options: object) -> Answer:
        self.calls.append((method, path, options["json_body"]))
        self.now += self.answer.seconds
        return self.answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF1234")
    return path


def release(world: World, *files: ModelFileFact, **options: Any) -> ActionFact:
    stranded = Stranded(Target(8080, api_key=KEY), (WAITING,), 5.5, ())
    made = release_stranded(stranded, files=files, hands=world.hands(), **options)
    assert KEY not in made.model_dump_json()
    fact = fact_of(made, ActionFact)
    assert fact is not None
    assert fact.outcome is not None
    assert fact.outcome in made.text
    return fact


def test_one_gentle_call_and_the_client_is_answered(model: Path) -> None:
    # GIVEN
    world = World()

    # WHEN
    fact = release(world, look_at_file(str(model)))

    # THEN
    assert fact.outcome == "released"
    assert fact.seconds == pytest.approx(0.016)
    assert world.calls == [("POST", "/tokenize", {})]


@pytest.mark.parametrize(
    ("world", "outcome"),
    [
        (World(sleeping=False), "nothing-to-release"),
        (World(sleeping=None, outcome="timeout"), "nothing-to-release"),
        (World(looks=[[]]), "nothing-to-release"),
        (World(looks=[[ANSWERED]]), "nothing-to-release"),
        (World(looks=[[OTHER]]), "nothing-to-release"),
    ],
    ids=["awake", "in transition", "client gone", "answered meanwhile", "another client"],
)
def test_nothing_is_called_when_nothing_needs_it(world: World, outcome: str, model: Path) -> None:
    assert release(world, look_at_file(str(model))).outcome == outcome
    assert world.calls == []


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(b"GGUF"),
    "replaced": lambda path: path.write_bytes(b"GGUF12345"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_no_wake_over_a_damaged_model(damage: Callable[[Path], object], model: Path) -> None:
    # GIVEN a file that changed since the last look
    world = World()
    seen = look_at_file(str(model))
    damage(model)

    # WHEN / THEN
    assert release(world, seen).outcome == "refused"
    assert world.calls == []


@pytest.mark.parametrize("known", [True, False])
def test_without_an_earlier_look_the_file_that_props_names_is_looked_at(known: bool, model: Path) -> None:
    world = World(model=str(model) if known else None)
    assert release(world).outcome == ("released" if known else "refused")


@pytest.mark.parametrize(
    "answer",
    [
        Answer("timeout", 300.0),
        Answer("refused", 0.1),
        Answer("garbage", 0.1),
        Answer("answered", 0.1, 401),
        Answer("answered", 0.1, 404),
        Answer("answered", 0.1, 503),
    ],
    ids=lambda answer: str(answer.status or answer.outcome),
)
def test_one_failure_is_the_last(answer: Answer, model: Path) -> None:
    world = World(answer=answer)
    assert release(world, look_at_file(str(model))).outcome == "failed"
    assert len(world.calls) == 1


@pytest.mark.parametrize("status", [200, 400, 500, 501])
def test_whatever_comes_from_behind_the_barrier_has_woken_it(status: int, model: Path) -> None:
    world = World(answer=Answer("answered", 0.1, status))
    assert release(world, look_at_file(str(model)), waker="slots").outcome == "released"
    assert world.calls == [("GET", "/slots", None)]


def test_a_client_that_is_still_computed_for_is_not_called_released(model: Path) -> None:
    # GIVEN a long answer
    world = World(looks=[[WAITING]])

    # WHEN
    fact = release(world, look_at_file(str(model)), answer_timeout=5.0)

    # THEN
    assert fact.outcome == "woken"
    assert 5.0 <= (fact.seconds or 0) < 6.0
    assert len(world.calls) == 1


def test_a_client_that_hung_up_first_is_told_apart(model: Path) -> None:
    world = World(looks=[[WAITING], [HUNG_UP]])
    assert release(world, look_at_file(str(model))).outcome == "abandoned"


@pytest.mark.parametrize(
    ("now", "state"),
    [(None, "answered"), (ANSWERED, "answered"), (HUNG_UP, "abandoned"), (WAITING, "waiting")],
)
def test_client_states(now: TcpSample | None, state: str) -> None:
    assert client_state(WAITING, now) == state
