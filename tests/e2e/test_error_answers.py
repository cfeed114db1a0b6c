"""D2 that did not crash: the server answered with an error from its emptied vocabulary and lives on.

The bundles were recorded from real servers (tests/fixtures/recorded/record_d2_errors.py), because an error
answer takes several tries; the tries themselves are in the full run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from e2e_ask import VERDICT, Said, ask
from e2e_stage import SAID, UNLOAD, Plays, hand_over

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Process
from collector.lab.faults import d2_error_answer
from collector.lab.faults.d2_unload_under_reader import COMPLETION_ERROR, TOKENIZE_ERROR, Shape

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"
TOKENIZE, COMPLETION = (RECORDED / f"d2-error-{name}.bundle" for name in ("tokenize", "completion"))
LIVE_D2 = Said("ERROR-UAF-SLEEP", "D2", "sleep", "asleep", "strong")
SLEEP_LINE = "entering sleeping state"


def changed(
    bundle: Path,
    target: Path,
    *,
    keep: Callable[[Evidence], bool] = lambda _: True,
    log: Callable[[str], str] = lambda text: text,
) -> Path:
    """A copy of a recorded bundle with less evidence, or another log."""
    lines = (bundle / "evidence.jsonl").read_text().splitlines()
    evidence = [item for item in (Evidence.model_validate(json.loads(line)) for line in lines) if keep(item)]
    pid = evidence[0].incarnation.pid
    text = log((bundle / "server.log").read_text())
    parts = ManifestParts(created=1.0, process=Process(pid=pid))
    write_bundle(target, parts, {"server.log": text.encode()}, evidence)
    return target


@pytest.mark.parametrize(("bundle", "route"), [(TOKENIZE, "/tokenize"), (COMPLETION, "/completion")])
def test_an_error_from_the_emptied_vocabulary_is_d2(bundle: Path, route: str) -> None:
    # GIVEN the log, the awake answer, the error and a look at the server afterwards
    answer = ask(bundle)
    # THEN it is D2, though the completion's status is 400, as if the client had been wrong
    assert answer.said == LIVE_D2
    assert answer.status == VERDICT
    assert "_Map_base::at" in answer.reasons
    assert answer.report.signature.bug_key == f"ERROR-UAF-SLEEP|D2|{route}"


def test_the_log_alone_is_weak_and_asks_for_the_answer() -> None:
    answer = ask(TOKENIZE / "server.log")
    assert answer.said == LIVE_D2._replace(confidence="weak")
    assert "the answer that the client got" in answer.gaps


def test_twin_the_error_of_a_server_that_never_slept(tmp_path: Path) -> None:
    # GIVEN the same answers, and a log in which the server never went to sleep
    def awake(text: str) -> str:
        return "".join(line for line in text.splitlines(keepends=True) if SLEEP_LINE not in line)

    for bundle in (TOKENIZE, COMPLETION):
        answer = ask(changed(bundle, tmp_path / bundle.name, log=awake))
        # THEN sleep is not blamed
        assert not answer.blames_sleep


def test_twin_the_same_sleep_without_the_odd_answer(tmp_path: Path) -> None:
    # GIVEN the same log, and only the refusal that the awake server gave
    only = changed(COMPLETION, tmp_path / "refused.bundle", keep=lambda item: item.id != "answer-1")
    # THEN a refusal is no fault; the look at its health alone does not make that sure
    assert ask(only).said == Said("NO-FAULT", None, "unknown", "asleep", "weak")


def test_an_odd_answer_of_a_server_that_nobody_looked_at_again_is_weak(tmp_path: Path) -> None:
    unseen = changed(COMPLETION, tmp_path / "unseen.bundle", keep=lambda item: item.kind != "probe")
    assert ask(unseen).said == LIVE_D2._replace(confidence="weak")


@pytest.mark.real
@pytest.mark.full
@pytest.mark.parametrize("shape", [TOKENIZE_ERROR, COMPLETION_ERROR], ids=lambda shape: shape.name)
def test_the_same_error_provoked_again(plays: Plays, tmp_path: Path, shape: Shape) -> None:
    tries: list[str] = []
    stage = replace(plays.stage(UNLOAD), say=tries.append)
    provoked = d2_error_answer.provoke(stage, shape, tries=20)
    assert provoked.happened, tries
    SAID.append(f"{shape.name}: in {len(tries)} tries")
    assert ask(hand_over(provoked, tmp_path).bundle).said == LIVE_D2
