"""How often each fault is hit, and that every hit is diagnosed: the counts that the documents quote.

Only in the full run: 20 of each take minutes. The hit rates are printed at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from e2e_ask import Answer, ask
from e2e_scenes import DEEP, PLAIN_BINS, recursion_depth, stale_capture
from e2e_stage import SAID, STALE, UNLOAD, Play, Plays, hand_over

from collector.actions.release import release_stranded
from collector.actions.snapshot import snapshot
from collector.lab.faults import content, d3_stranded, wake_reload
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults.provoked import CRASH, ERROR, HANG, WRONG, Expected, Provoked, Stage
from collector.sources.stranded import find_stranded
from collector.sources.target import Target

pytestmark = [pytest.mark.real, pytest.mark.full]
COUNT = 20


def repeated(
    stage: Stage, folder: Path, provoke: Callable[[Stage], Provoked], judge: Callable[[Play], str]
) -> Counter[str]:
    """Provoke ``COUNT`` times and judge each hit; the cores go as soon as they are judged."""
    seen: Counter[str] = Counter()
    for number in range(COUNT):
        provoked = provoke(stage)
        if not provoked.happened:
            seen[f"missed ({provoked.outcome})"] += 1
            continue
        play = hand_over(provoked, folder / str(number))
        seen[judge(play)] += 1
        if play.left_core is not None:
            play.left_core.unlink()
    SAID.append(f"{folder.name}, {COUNT} times: {dict(seen)}")
    return seen


def agrees(answer: Answer, expected: Expected) -> bool:
    said = answer.said
    same = (said.class_, said.defect) == (expected.class_, expected.defect)
    handler = not expected.handlers or said.handler in expected.handlers
    return same and handler and said.cause in expected.causes and said.phase in expected.phases


def confidence(play: Play) -> str:
    """``proven`` or ``strong`` for a right verdict, else the wrong one in words."""
    answer = ask(*play.inputs)
    return answer.said.confidence if agrees(answer, play.provoked.expected) else f"WRONG: {answer.said}"


def test_d1_20_of_20(plays: Plays, tmp_path: Path) -> None:
    seen = repeated(plays.stage(STALE), tmp_path / "d1", stale_capture, confidence)
    assert seen["proven"] + seen["strong"] == COUNT
    assert seen["proven"] >= 1


@pytest.mark.parametrize("shape", [d2.COMPLETION, d2.TOKENIZE], ids=lambda shape: shape.name)
def test_d2_20_of_20(plays: Plays, tmp_path: Path, shape: d2.Shape) -> None:
    provoke = partial(d2.provoke, shape=shape)
    seen = repeated(plays.stage(UNLOAD), tmp_path / shape.name, provoke, confidence)
    assert seen["proven"] + seen["strong"] == COUNT
    assert seen["proven"] >= 1


@pytest.mark.parametrize("bins", [{}, PLAIN_BINS], ids=["as-it-is", "plain-bins"])
@pytest.mark.parametrize(
    "shape", [d2.COMPLETION_UNPOISONED, d2.TOKENIZE_UNPOISONED], ids=lambda shape: shape.name
)
def test_d2_unpoisoned_whatever_comes_of_it_is_said_right(
    plays: Plays, tmp_path: Path, shape: d2.Shape, bins: dict[str, str]
) -> None:
    # GIVEN one pinned try each: a crash, a recursion, an error, a wrong, a right or no answer
    stage = plays.stage(UNLOAD)
    stage = replace(stage, base=replace(stage.base, environment=bins))

    def once(stage: Stage) -> Provoked:
        provoked = d2.attempt(stage, shape)
        return replace(provoked, happened=provoked.outcome in (CRASH, ERROR, WRONG))

    def kind(play: Play) -> str:
        said = confidence(play)
        crashed = play.provoked.outcome == CRASH
        deep = crashed and recursion_depth(play) >= DEEP
        return said if said.startswith("WRONG") else "recursion" if deep else play.provoked.outcome

    seen = repeated(stage, tmp_path / f"{shape.name}{'-plain-bins' * bool(bins)}", once, kind)
    # THEN no verdict is wrong, and the endless recursion is among them where it can be relied on
    assert not [name for name in seen if name.startswith("WRONG")]
    assert seen["recursion"] >= 1 or not bins


def test_d3_20_of_20(plays: Plays, tmp_path: Path) -> None:
    # GIVEN twenty stranded requests, each found, looked at and released from outside
    stage, seen = plays.stage(UNLOAD), Counter[str]()
    for number in range(COUNT):
        provoked = d3_stranded.provoke(stage)
        if provoked.outcome != HANG:
            seen[provoked.outcome] += 1
            continue
        found = find_stranded(Target(provoked.server.port, pid=provoked.server.pid), 1.0)
        if found is None:
            seen["not found"] += 1
            continue
        threads = snapshot(provoked.server.pid)
        action = release_stranded(found)
        play = hand_over(provoked, tmp_path / str(number), (*found.evidence, *threads.evidence, action))
        seen[f"{action.data['outcome']}, {confidence(play)}"] += 1
        provoked.server.take_down()
    SAID.append(f"d3, {COUNT} times: {dict(seen)}")
    assert seen == {"released, proven": COUNT}


@pytest.mark.parametrize("damage", wake_reload.STATES, ids=lambda damage: damage.__name__)
def test_every_damage_to_a_sleeping_servers_model_is_d7(
    plays: Plays, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    stage = plays.stage(UNLOAD)
    quiet = replace(stage, base=replace(stage.base, environment={"GGML_NO_BACKTRACE": "1"}))
    play = hand_over(wake_reload.provoke(quiet, damage), tmp_path)
    answer = ask(*play.inputs)
    assert agrees(answer, play.provoked.expected)
    assert wake_reload.STATES[damage] in answer.reasons


@pytest.mark.parametrize("slept", [False, True], ids=["awake", "slept-before"])
@pytest.mark.parametrize(
    "what",
    [
        content.OVERFLOW_COMPLETION,
        content.OVERFLOW_TOKENIZE,
        content.OVERFLOW_COUNT,
        content.OVERFLOW_GRAMMAR,
        content.ASSERTION,
    ],
    ids=lambda what: what.name,
)
def test_no_death_by_content_is_blamed_on_sleep(
    plays: Plays, tmp_path: Path, what: content.Content, slept: bool
) -> None:
    stage = plays.stage(UNLOAD)
    quiet = replace(stage, base=replace(stage.base, environment={"GGML_NO_BACKTRACE": "1"}))
    play = hand_over(content.provoke(quiet, what, slept_before=slept), tmp_path)
    for inputs in (play.inputs, [play.core, play.log], [play.core], [play.bundle]):
        answer = ask(*inputs)
        assert not answer.blames_sleep, answer.said
    assert agrees(ask(*play.inputs), play.provoked.expected)
