"""The sleep timeline of one life."""

from __future__ import annotations

import pytest
from test_log_scan import START, enter, read, stamp, task, wake

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from analyzers.logs.timeline import SleepTimeline, timeline_of


def timeline(lines: list[str]) -> SleepTimeline:
    reading = read(lines)
    return timeline_of(reading.lives[-1], reading.outside)


CLEAN = "0.09.000.000 I srv    operator(): operator(): cleaning up before exit..."
OPEN = task(21.0, 5)[:1]


@pytest.mark.parametrize(
    ("lines", "phase", "may_be"),
    [
        (START[:5], "loading", ()),
        (START, "awake", ()),
        ([*START, *task(1, 1)], "awake", ()),
        ([*START, *enter(5)], "asleep", ("unloading",)),
        ([*START, enter(5)[0]], "asleep", ("unloading",)),
        ([*START, *enter(5), *wake(20)[:3]], "waking", ("asleep",)),
        ([*START, *enter(5), *wake(20)], "first-request-after-wake", ("waking", "awake")),
        ([*START, *enter(5), *wake(20), *OPEN], "first-request-after-wake", ()),
        ([*START, *enter(5), *wake(20), *task(21, 5)], "awake", ("unloading", "asleep")),
        ([*START, CLEAN], "stopping", ()),
        ([*START[:5], CLEAN], "loading", ()),
        (task(1, 1), "awake", ()),
    ],
)
def test_phase_at_the_end_of_the_log(lines: list[str], phase: str, may_be: tuple[str, ...]) -> None:
    found = timeline(lines)
    assert (found.phase_at_end(), found.may_be) == (phase, may_be)


def test_sleep_evidence_is_the_trusted_lines_only() -> None:
    real = timeline([*START, *enter(5), *wake(20), *task(21, 5)])
    assert real.sleep_evidence
    assert len(real.sleep_ids) == 4
    assert (real.cycles, real.woke, real.entered_at, real.exited_at) == (1, True, 5.0, 20.0)
    forged = timeline([*START, *task(2, 1), *enter(2.1), *task(2.2, 2)])
    assert not forged.sleep_evidence
    assert len(forged.doubted_ids) == 2
    assert forged.phase == "awake"


def test_sleep_of_an_earlier_life_is_not_this_ones() -> None:
    assert not timeline([*START, *enter(5), *START, *task(1, 1)]).sleep_evidence


def test_cycles_are_counted_over_what_was_not_kept() -> None:
    cycles = [line for n in range(500) for line in (*enter(10.0 * n + 5), *wake(10.0 * n + 8))]
    assert timeline([*START, *cycles]).cycles == 500


def test_open_requests_are_the_launched_and_not_done() -> None:
    assert timeline([*START, *task(1, 1), *OPEN]).open_requests == (5,)
    assert (
        timeline([*START, *OPEN, f"{stamp(22)} W srv          stop: cancel task, id_task = 5"]).open_requests
        == ()
    )


def test_open_requests_do_not_come_from_lines_that_were_not_kept() -> None:
    lines = [line for n in range(500) for line in task(1 + n, n)]
    assert timeline([*START, *lines, *task(900, 900)[:1]]).open_requests == (900,)


def test_a_task_cancelled_while_asleep_was_stranded() -> None:
    cancel = f"{stamp(8)} W srv          stop: cancel task, id_task = 77"
    found = timeline([*START, *enter(5), cancel])
    assert [(s.task_id, s.delay, s.lookalike) for s in found.stranded] == [(77, 3.0, False)]
    assert found.cancelled_asleep == 1


def test_its_twins_are_not_stranded() -> None:
    awake = timeline([*START, *OPEN, f"{stamp(22)} W srv          stop: cancel task, id_task = 5"])
    assert (awake.stranded, awake.cancelled_asleep) == ((), 0)
    woken = timeline(
        [*START, *enter(5), *wake(20), f"{stamp(22)} W srv          stop: cancel task, id_task = 5"]
    )
    assert woken.stranded == ()
    metrics = timeline([*START, *enter(5), f"{stamp(5.0003)} W srv          stop: cancel task, id_task = 5"])
    assert [s.lookalike for s in metrics.stranded] == [True]


def test_a_task_ahead_of_the_wakers_is_a_weak_sign() -> None:
    found = timeline([*START, *enter(5), *wake(20), *task(20.02, 7), *task(20.03, 9)])
    assert [(s.task_id, s.early) for s in found.stranded] == [(7, True)]
    assert timeline([*START, *enter(5), *wake(20), *task(20.02, 7)]).stranded == ()


def test_a_client_that_sends_its_next_request_after_its_answer_was_not_left_behind() -> None:
    found = timeline([*START, *enter(5), *wake(20), *task(20.02, 7), *task(20.42, 9)])
    assert found.stranded == ()
    # two slots: the first is still at work when the second starts
    together = [*task(20.02, 7)[:1], *task(20.3, 9), *task(20.4, 7)[2:]]
    assert [s.task_id for s in timeline([*START, *enter(5), *wake(20), *together]).stranded] == [7]


def test_a_failed_reload_is_seen() -> None:
    text = "/w/tools/server/server-context.cpp:1067: failed to reload model after sleeping"
    assert timeline([*START, *enter(5), *wake(20)[:3], text]).failed_reload


def test_scrapes_that_keep_a_server_awake() -> None:
    scrape = "{} I srv  log_server_r: request: GET /metrics 127.0.0.1 200"
    lines = [scrape.format(stamp(10.0 * n)) for n in range(1, 9)]
    found = timeline([*START, *lines])
    assert (found.scrapes, found.scrape_period) == (8, 10.0)
    assert found.never_slept(60)
    assert not found.never_slept(5)
    assert not found.never_slept(None)
    assert not timeline([*START, *lines, *enter(200.0)]).never_slept(60)


def test_a_stop_can_be_told_by_the_supervisor() -> None:
    reading = read([*START, *task(1, 1)])
    asked = to_evidence(
        ExitFact(by="systemd", result="stopping", requested=True),
        id="u:1",
        source="u:1",
        text="Stopping",
        trust=Trust.SUPERVISOR,
    )
    assert timeline_of(reading.lives[0], [asked]).stop_requested
    assert not timeline_of(reading.lives[0]).stop_requested


def test_what_could_be_missing_is_named() -> None:
    whole = timeline([*START, *enter(5)])
    assert [gap.what for gap in whole.missing] == ["the last log lines"]
    assert "earlier lines" in [gap.what for gap in timeline(enter(5)).missing]
