"""Every case of tests/cases gets the verdict that its one sentence gives the reason for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from case_files import CASES, OWN, UNDETERMINED, PublicCase, catalogue_page, differences, every_case, run_case

from analyzers.contracts.registry import CAUSES, CLASSES, PHASES

EVERY = every_case()
MINIMUM = 60  # public shapes, as the issue that asked for them counts
SOURCE = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Iterator[Counter[tuple[str, bool]]]:
    """Counts (class, right) and prints them as a table at the end."""
    counted: Counter[tuple[str, bool]] = Counter()
    yield counted
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("\n" + _table(counted))


def _table(counted: Counter[tuple[str, bool]]) -> str:
    names = sorted({name for name, _ in counted})
    rows = [f"{n:22} {counted[n, True]:5} {counted[n, False]:5}" for n in names]
    right, wrong = (sum(counted[n, hit] for n in names) for hit in (True, False))
    return "\n".join([f"{'class':22} right wrong", *rows, f"{'all':22} {right:5} {wrong:5}"])


@pytest.mark.parametrize("case", EVERY, ids=[case.name for case in EVERY])
def test_the_verdict_is_the_right_one(case: PublicCase, tally: Counter[tuple[str, bool]]) -> None:
    # GIVEN the inputs of one case WHEN triage reads them
    report = run_case(case)
    wrong = differences(case, report)
    tally[case.wanted, not wrong] += 1
    # THEN class, cause, phase, defect, confidence and what is asked for are as the case says
    assert not wrong, f"{case.name}: {'; '.join(wrong)}\n{case.why}\n{report.verdict.reasons}"


@pytest.mark.parametrize("case", EVERY, ids=[case.name for case in EVERY])
def test_the_case_itself_is_sound(case: PublicCase) -> None:
    expect = case.expect
    assert expect["class"] in CLASSES
    assert set(expect.get("not", ())) <= set(CLASSES) - {expect["class"]}
    assert expect.get("not"), "every case names at least one class that would be wrong"
    assert expect.get("cause", "unknown") in CAUSES
    assert expect.get("phase", "unknown") in PHASES
    assert case.kind in ("recorded", "provoked")
    assert case.source == OWN or SOURCE.fullmatch(case.source)
    assert "\n" not in case.why
    assert expect.get("collect") or case.wanted != UNDETERMINED, "what to collect is the answer then"


def test_there_are_enough_and_every_folder_counts() -> None:
    assert sum(case.source != OWN for case in EVERY) >= MINIMUM
    assert len(EVERY) == len([f for f in CASES.iterdir() if f.is_dir() and f.name != "signatures"])
    assert len({case.name[:3] for case in EVERY}) == len(EVERY)


def test_the_page_of_cases_says_what_the_files_say() -> None:
    page = (CASES.parents[1] / "docs" / "cases.md").read_text("utf-8")
    assert page == catalogue_page(EVERY), "run: python tests/unit/cases/case_files.py"
