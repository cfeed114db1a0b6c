"""Real servers put to sleep at a chosen moment inside a request."""

import os
import random
import signal
import threading
import time

import pytest

from analyzers.contracts.trials import (
    AFFECTED,
    ANSWERED,
    CRASHED,
    INCONCLUSIVE,
    SERVER_ERROR,
    SOUND,
    STRANDED,
    WRONG_ANSWER,
)
from analyzers.errors import UserError
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION
from collector.lab.verify.findings import counts, shown_by_the_way, shows
from collector.lab.verify.pinned import calibration
from collector.lab.verify.pinned import trial as trial_module
from collector.lab.verify.pinned.conclude import conclude, errors, others
from collector.lab.verify.pinned.method import Choice, carry_out
from collector.lab.verify.pinned.placement import placement
from collector.lab.verify.session import Bench
from collector.lab.verify.subject import Chosen, Wanted, choose

pytestmark = pytest.mark.real

# 19 of 20 is the promise; one trial may end in the other defect, and none may be miscounted.
TRIALS, SHOWN, OTHERS = 20, 19, 1
SOUND_TRIALS = 40
OLD_VERSION = "2026.7.10068"  # b10068: GET /metrics still counts as work


def say(line):
    print(line)


def pin(lab, wanted, *defects, trials, **options):
    """The trials and findings of a run, as the command makes them."""
    bench = Bench(lab, choose(wanted, say), say, random.Random(0))
    made = list(carry_out(bench, Choice(defects, trials, **options)))
    return made, {finding.defect: finding for finding in conclude(made, defects, trials)}


def pin_shown(lab, wanted, defect, count):
    """The first trials that show ``defect``. On a loaded machine a sleep may miss its window or its defect:
    such a trial is counted as nothing, or as the other race; at most three times as many are made."""
    bench = Bench(lab, choose(wanted, say), say, random.Random(0))
    trials = carry_out(bench, Choice((defect,), 3 * count))
    shown = []
    while len(shown) < count and (trial := next(trials, None)) is not None:
        print(trial.outcome, trial.reached, trial.placement_error, trial.notes)
        if counts(trial) and shows(defect, trial):
            shown.append(trial)
        else:
            assert not trial.reached or trial.outcome == ANSWERED or shown_by_the_way(trial)
    trials.close()
    assert len(shown) == count, f"{defect} was shown {len(shown)} times"
    return shown


def native(build, fix=None, asan=False):
    """The reference build when it was made before; nothing is compiled for a test."""
    from collector.lab.native.build import find_build
    from collector.lab.native.recipe import Recipe

    if find_build(Recipe(build, fix, asan)) is None:
        pytest.skip(f"native b{build} {fix or 'stock'} is not built: llama-blackbox reference build")
    return Wanted(build=build, fix=fix, asan=asan)


def test_both_races_are_hit_and_each_stays_itself(lab):
    # GIVEN b11549, affected by both
    # WHEN each is shown twice
    readers = pin_shown(lab, Wanted(version=UNLOAD_VERSION), "D2", 2)
    posts = pin_shown(lab, Wanted(version=UNLOAD_VERSION), "D3", 2)
    # THEN
    for trial in readers:
        assert trial.outcome in (CRASHED, SERVER_ERROR, WRONG_ANSWER)
        assert trial.outcome != CRASHED or trial.signature.bug_key
        assert (trial.judgement.defect, trial.judgement.class_) == ("D2", "SEGV-UAF-SLEEP") or (
            trial.outcome != CRASHED
        )
    assert [trial.outcome for trial in posts] == [STRANDED] * 2
    assert [trial.judgement.defect for trial in posts] == ["D3"] * 2
    assert all(trial.notes[0] == "released by one waking call, answered as when awake" for trial in posts)
    findings = {each.defect: each for each in conclude(readers + posts, ("D2", "D3"), 2)}
    assert {name: finding.conclusion for name, finding in findings.items()} == {
        "D2": AFFECTED,
        "D3": AFFECTED,
    }
    assert findings["D3"].placement_error is not None
    if posts[1].number == posts[0].number + 1:  # released, and good for the next trial
        assert _server_of(lab, posts[0]) == _server_of(lab, posts[1])


def _server_of(lab, trial):
    """The folder of the server that a judged trial was made on; the latest, as each defect counts from 1."""
    return sorted(lab.folder.glob(f"server-*/trial-{trial.number:03d}"))[-1].parent


def test_a_token_count_to_a_sleeping_server(lab):
    trials, findings = pin(lab, Wanted(version=STALE_CAPTURE_VERSION), "D1", trials=2)
    assert [trial.outcome for trial in trials] == [CRASHED] * 2
    assert [trial.judgement.defect for trial in trials] == ["D1"] * 2
    assert findings["D1"].conclusion == AFFECTED


def test_a_kill_from_outside_in_mid_trial_is_not_counted(lab, monkeypatch):
    # GIVEN what the out-of-memory killer does, while the request is under way
    watch = trial_module.watch

    def killed(server, pinned, patience):
        threading.Timer(0.01, os.kill, (server.pid, signal.SIGKILL)).start()
        server.wait_until(lambda each: each.ending is not None, 5)
        return watch(server, pinned, patience)

    monkeypatch.setattr(trial_module, "watch", killed)
    # WHEN trials are made until one has been under way (a busy machine may have no window for some)
    bench = Bench(lab, choose(Wanted(version=UNLOAD_VERSION), say), say, random.Random(0))
    made = []
    for trial in carry_out(bench, Choice(("D2",), 6)):
        made.append(trial)
        if trial.signal is not None:
            break
    # THEN
    assert {trial.outcome for trial in made} == {INCONCLUSIVE}
    assert made[-1].signal == signal.SIGKILL
    assert made[-1].notes[0] == "killed by SIGKILL from outside, not counted"
    (finding,) = conclude(made, ("D2",), 1)
    assert (finding.conclusion, finding.reached) == (INCONCLUSIVE, 0)


def test_a_kill_in_the_awake_measurement_is_named(lab, monkeypatch):
    # GIVEN a server that is killed while its awake answers are measured
    started = []
    start, send = ReferenceServer.start, calibration.send_awake

    def killed(server, request):
        os.kill(server.pid, signal.SIGKILL)
        return send(server, request)

    monkeypatch.setattr(ReferenceServer, "start", lambda *given: started.append(start(*given)) or started[-1])
    monkeypatch.setattr(calibration, "send_awake", killed)
    # WHEN / THEN it is the surroundings that failed
    with pytest.raises(UserError, match=r"in the awake measurement .* ended from outside by SIGKILL"):
        pin(lab, Wanted(version=UNLOAD_VERSION), "D1", trials=1)
    assert len(started) == 1
    assert started[0].ending.signal == signal.SIGKILL


def test_a_binary_without_a_sleep_mode_is_named(lab, tmp_path):
    # GIVEN a server that answers --sleep-idle-seconds as an old one does
    binary = tmp_path / "llama-server"
    binary.write_text("#!/bin/sh\necho 'error: invalid argument: --sleep-idle-seconds' >&2\nexit 1\n")
    binary.chmod(0o755)
    bench = Bench(lab, Chosen(None, ServerSpec(cached_model(), binary=binary)), say, random.Random(0))
    # WHEN / THEN
    with pytest.raises(UserError, match="has no sleep mode"):
        list(carry_out(bench, Choice(("D2",), 1)))


def test_no_server_is_left_behind_when_a_run_is_cut_short(tmp_path):
    # GIVEN a run that is interrupted between two trials
    with ReferenceServer(tmp_path / "lab") as lab:
        bench = Bench(lab, choose(Wanted(version=UNLOAD_VERSION), say), say, random.Random(0))
        trials = carry_out(bench, Choice(("D1",), 3))
        first = next(trials)
        pids = [server.pid for server in lab._servers]
        trials.close()
    # THEN
    assert first.outcome == ANSWERED
    assert pids
    assert not any(_alive(pid) for pid in pids)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize("version", [UNLOAD_VERSION, STALE_CAPTURE_VERSION, OLD_VERSION])
def test_nineteen_of_twenty_and_each_isolated(lab, version):
    began = time.monotonic()
    trials, findings = pin(lab, Wanted(version=version), "D2", "D3", trials=TRIALS)
    print(f"{version}: {time.monotonic() - began:.0f} s; {[each.because for each in findings.values()]}")
    for defect in ("D2", "D3"):
        own = [trial for trial in trials if trial.defect == defect]
        assert findings[defect].shown >= SHOWN
        assert len(others(defect, own)) <= OTHERS
        assert placement(errors(own)) is not None


@pytest.mark.full
@pytest.mark.parametrize("version", [STALE_CAPTURE_VERSION, OLD_VERSION])
def test_twenty_token_counts(lab, version):
    _, findings = pin(lab, Wanted(version=version), "D1", trials=TRIALS)
    assert findings["D1"].shown >= SHOWN


@pytest.mark.full
def test_token_counts_of_a_fixed_build_are_sound(lab):
    _, findings = pin(lab, Wanted(version=UNLOAD_VERSION), "D1", trials=TRIALS)
    assert (findings["D1"].conclusion, findings["D1"].shown) == (SOUND, 0)


@pytest.mark.full
@pytest.mark.parametrize("build", [11138, 11368])
def test_native_builds_show_both(lab, build):
    _, findings = pin(lab, native(build), "D2", "D3", trials=TRIALS)
    assert findings["D2"].shown >= SHOWN
    assert findings["D3"].shown >= SHOWN


@pytest.mark.full
def test_the_counting_fix_is_sound(lab):
    """0 of 40, and most of the 40 reached their window: the loop looked while the request was inside."""
    trials, findings = pin(lab, native(11368, "count-requests"), "D2", "D3", trials=SOUND_TRIALS)
    print([each.because for each in findings.values()])
    assert {each.conclusion for each in findings.values()} == {SOUND}
    assert not any(trial.outcome in (CRASHED, STRANDED) for trial in trials)


@pytest.mark.full
def test_unpoisoned_readers_go_wrong_in_more_ways_than_one(lab):
    trials, findings = pin(lab, Wanted(version=UNLOAD_VERSION), "D2", trials=TRIALS, unpoisoned=True)
    assert findings["D2"].conclusion == AFFECTED
    assert len({trial.outcome for trial in trials if trial.reached}) > 1


@pytest.mark.full
@pytest.mark.parametrize(("build", "defect"), [(11138, "D1"), (11138, "D2"), (11368, "D2")])
def test_a_sanitized_server_is_judged_by_its_report(lab, build, defect):
    trials, findings = pin(lab, native(build, asan=True), defect, trials=3)
    crashes = [trial for trial in trials if trial.outcome == CRASHED]
    assert crashes
    assert all((each.judgement.defect, each.judgement.confidence) == (defect, "proven") for each in crashes)
    assert all(each.oracle and "freed by" in each.notes[0] for each in crashes)
    assert (findings[defect].conclusion, findings[defect].other) == (AFFECTED, 0)
