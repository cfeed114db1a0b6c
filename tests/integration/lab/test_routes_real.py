"""verify routes on real servers, compared with the committed measurement."""

import random
from pathlib import Path

import pytest

from analyzers.contracts.routes import AWAKE, RouteMatrix, RouteTrial, meaning
from analyzers.contracts.trials import AFFECTED, BAD
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION
from collector.lab.verify.options import Outputs
from collector.lab.verify.routes.collect import build_of
from collector.lab.verify.routes.conclude import conclude
from collector.lab.verify.routes.survey import Survey
from collector.lab.verify.routes.table import all_routes, chosen_routes
from collector.lab.verify.session import run
from collector.lab.verify.subject import Wanted

pytestmark = pytest.mark.real

DATA = Path(__file__).parents[3] / "docs" / "data"
STATES = ("awake", "asleep", "unloading", "waking", "two-wakers")
SAMPLE = 18
SEED = 20261202
# A state can be missed on a busy machine; the sample must not be empty for it.
REACHED_SHARE = 0.6
FULL_VERSIONS = (
    "0.2.8",
    "0.2.14",
    "2026.4.8672.1",
    "2026.5.9294",
    "2026.6.9713",
    "2026.7.10068",
    "2026.8.10229",
    "2026.8.10566",
    "2026.9.11063",
    "2026.10.11549",
)


@pytest.fixture(scope="module")
def committed():
    """The newest committed measurement."""
    newest = sorted(DATA.glob("routes-*.json"))[-1]
    return RouteMatrix.model_validate_json(newest.read_text("utf-8"))


def survey(wanted, routes=None, states=STATES, sample=None, seed=SEED):
    method = Survey(routes or all_routes(), states, sample=sample)
    finished = run("routes", method, conclude, wanted, Outputs(), seed=seed)
    return finished, build_of(finished, method)


def in_committed(committed, built, route):
    for build in committed.builds:
        if build.subject.kind == built.subject.kind and build.subject.build == built.subject.build:
            return build.row(route)
    return None


def differences(committed, built):
    """Cells that were met both times and do not agree on what the call does to the server."""
    found = []
    for row in built.rows:
        before = in_committed(committed, built, row.route)
        if before is None or before.absent != row.absent:
            found.append(f"{row.route}: absent {row.absent}")
            continue
        for cell in row.cells:
            other = before.cell(cell.state)
            if other is None or not (cell.reached and other.reached):
                continue
            if cell.outcome in BAD or other.outcome in BAD:
                # a use-after-free need not show: it may be missed, it may not be another one
                if None not in (cell.defect, other.defect) and cell.defect != other.defect:
                    found.append(f"{row.route} {cell.state}: {other.defect} became {cell.defect}")
                continue
            now = (cell.outcome, cell.status, cell.wakes, cell.resets, cell.promise)
            then = (other.outcome, other.status, other.wakes, other.resets, other.promise)
            if now != then:
                found.append(f"{row.route} {cell.state}: {then} became {now}")
    return found


def test_a_drawn_sample_behaves_as_measured(committed):
    # WHEN cells drawn by a fixed seed are asked of b11549
    finished, built = survey(Wanted(version=UNLOAD_VERSION), sample=SAMPLE)

    # THEN most states are met, and each cell is as it was committed
    asked = [trial for trial in finished.trials if isinstance(trial, RouteTrial) and not trial.absent]
    assert len(asked) == SAMPLE
    assert sum(trial.reached for trial in asked) >= REACHED_SHARE * SAMPLE
    assert differences(committed, built) == []


def test_a_token_count_crashes_a_sleeping_b11063_and_is_judged_d1():
    # GIVEN the build that reads the vocabulary it freed
    routes = chosen_routes(("POST /v1/responses/input_tokens", "GET /health"))

    # WHEN both calls are sent to sleeping servers
    finished, built = survey(Wanted(version=STALE_CAPTURE_VERSION), routes, ("asleep",))

    # THEN the one is D1, the other harmless, and D1 is what the run found
    count = built.row("POST /v1/responses/input_tokens").cell("asleep")
    health = built.row("GET /health").cell("asleep")
    assert (count.outcome, count.defect, count.reached) == ("crashed", "D1", True)
    assert (health.outcome, health.wakes, health.promise) == ("answered", False, "kept")
    assert {each.defect: each.conclusion for each in finished.findings}["D1"] == AFFECTED


def test_what_resets_the_timer_is_told_from_what_does_not():
    names = ("GET /slots", "GET /metrics", "POST /tokenize", "GET /props")

    _, built = survey(Wanted(version=UNLOAD_VERSION), chosen_routes(names), (AWAKE,))

    seen = {row.route: row.cell(AWAKE) for row in built.rows}
    met = {route: cell.resets for route, cell in seen.items() if cell.reached}
    expected = {"GET /slots": True, "GET /metrics": False, "POST /tokenize": False, "GET /props": False}
    assert len(met) >= len(expected) - 1
    assert met == {route: expected[route] for route in met}


def test_the_committed_measurement_covers_what_it_must(committed):
    sleeping = [build for build in committed.builds if build.sleeps]
    hosted = [build for build in sleeping if build.subject.kind == "hosted"]
    native = {build.subject.build for build in sleeping if build.subject.kind == "native"}

    assert len(hosted) >= 8
    assert native == {11138, 11368}
    assert min(build.released for build in hosted).startswith("2025-12")
    assert max(build.released for build in hosted).startswith("2026-10")
    assert all(len(build.rows) >= 50 for build in sleeping)
    for build in sleeping:
        cells = [cell for row in build.rows for cell in row.cells]
        assert sum(cell.reached for cell in cells) >= 0.97 * len(cells), build.subject.name


def test_the_committed_measurement_says_nothing_of_the_machine(committed):
    text = "".join(path.read_text("utf-8") for path in DATA.glob("routes-*.json"))

    assert not [word for word in ("/tmp", "/root", "/home", "127.0.0.1", ".cache") if word in text]


@pytest.mark.full
@pytest.mark.parametrize(
    "wanted",
    [*(Wanted(version=version) for version in FULL_VERSIONS), Wanted(build=11138), Wanted(build=11368)],
    ids=lambda wanted: wanted.version or f"native-{wanted.build}",
)
def test_the_whole_matrix_is_as_committed(committed, wanted):
    finished, built = survey(wanted, seed=random.randrange(1 << 30))

    assert not finished.interrupted
    assert differences(committed, built) == []
    for row in built.rows:
        before = in_committed(committed, built, row.route)
        assert {meaning(row), meaning(before)} <= {meaning(before), "dangerous", "unknown"}
