"""What a build's documentation promises, and when a cell keeps or breaks it."""

import pytest

from analyzers.contracts.routes import BROKEN, KEPT, NO_PROMISE, SILENT, WORKS
from analyzers.contracts.trials import ANSWERED, CRASHED, INCONCLUSIVE, STRANDED
from collector.lab.verify.routes.promises import judged, promise_of, promised
from collector.lab.verify.routes.table import chosen_routes


def route(name):
    (found,) = chosen_routes((name,))
    return found


@pytest.mark.parametrize(
    ("build", "metrics", "models"),
    [
        (7551, False, False),
        (8672, False, True),
        (10518, False, True),
        (10519, True, True),
        (11549, True, True),
    ],
)
def test_the_rule_goes_by_build_number(build, metrics, models):
    promise = promise_of(build)

    assert ("GET /metrics" in promise.silent) is metrics
    assert ("GET /models" in promise.silent) is models
    assert {"GET /health", "GET /props"} <= set(promise.silent)
    assert promise.source


@pytest.mark.parametrize("build", [None, 0, 7000])
def test_an_unknown_build_and_one_without_sleep_mode_promise_nothing(build):
    assert promise_of(build) is None
    assert promised(route("GET /health"), None, 200) is None


def test_a_task_is_promised_only_where_the_awake_server_carries_it_out():
    promise = promise_of(11549)

    assert promised(route("POST /completion"), promise, 200) == WORKS
    assert promised(route("POST /rerank"), promise, 501) is None
    assert promised(route("POST /completion"), promise, None) is None


def test_a_route_that_is_not_named_and_is_no_work_is_promised_nothing():
    promise = promise_of(11549)

    assert promised(route("GET /slots"), promise, 200) is None
    assert promised(route("POST /tokenize"), promise, 200) is None
    assert promised(route("GET /v1/models"), promise, 200) is None


@pytest.mark.parametrize(
    ("state", "wakes", "resets", "expected"),
    [
        ("awake", None, False, KEPT),
        ("awake", None, True, BROKEN),
        ("awake", None, None, NO_PROMISE),
        ("asleep", False, None, KEPT),
        ("asleep", True, None, BROKEN),
        ("unloading", True, None, BROKEN),
        ("unloading", None, None, NO_PROMISE),
        ("waking", None, None, NO_PROMISE),
        ("two-wakers", None, None, NO_PROMISE),
    ],
)
def test_silence_is_kept_or_broken_by_what_was_seen(state, wakes, resets, expected):
    assert judged(SILENT, state, ANSWERED, wakes, resets) == expected


@pytest.mark.parametrize(
    ("state", "outcome", "wakes", "resets", "expected"),
    [
        ("asleep", ANSWERED, True, None, KEPT),
        ("asleep", ANSWERED, False, None, BROKEN),
        ("asleep", STRANDED, False, None, BROKEN),
        ("unloading", STRANDED, None, None, BROKEN),
        ("asleep", CRASHED, True, None, NO_PROMISE),
        ("asleep", INCONCLUSIVE, None, None, NO_PROMISE),
        ("awake", ANSWERED, None, True, KEPT),
        ("awake", ANSWERED, None, False, BROKEN),
        ("awake", ANSWERED, None, None, NO_PROMISE),
        ("waking", ANSWERED, None, None, KEPT),
        ("two-wakers", ANSWERED, None, None, KEPT),
    ],
)
def test_work_wakes_is_answered_and_counts(state, outcome, wakes, resets, expected):
    assert judged(WORKS, state, outcome, wakes, resets) == expected


def test_without_a_promise_nothing_is_judged():
    assert judged(None, "asleep", STRANDED, True, True) == NO_PROMISE
