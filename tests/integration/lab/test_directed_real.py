"""Directed trials on real servers: an affected build shows its defect each time, a sound one never."""

import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference import ServerSpec, cached_model
from collector.lab.verify.directed import attempt as attempts
from collector.lab.verify.directed.debugged import debugged, find_gdb
from collector.lab.verify.directed.method import Plan, concluding, directed_trials
from collector.lab.verify.directed.places import explore
from collector.lab.verify.identity import identify_hosted, identify_native
from collector.lab.verify.session import Bench
from collector.lab.verify.subject import Chosen, explained

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed"),
]
ROOT = Path(__file__).parents[3]
SHOWS = {
    "D1": {"crashed", "wrong-answer", "server-error"},
    "D2": {"crashed", "wrong-answer", "server-error"},
    "D3": {"stranded"},
}


def hosted_subject(spec):
    return Chosen(identify_hosted(spec.python.parts[-3].split("-")[1], spec.python), spec)


def native_subject(number, fix=None, asan=False):
    """A reference build of this machine; the test is skipped, aloud, where it was not made."""
    try:
        find_build = importlib.import_module("collector.lab.native.build").find_build
        recipe = importlib.import_module("collector.lab.native.recipe").Recipe
    except (ImportError, AttributeError) as error:
        pytest.skip(f"native reference builds cannot be looked for: {error}")
    made = find_build(recipe(number, fix, asan))
    if made is None:
        pytest.skip(
            f"not built here: llama-blackbox reference build --build {number}"
            + (f" --fix {fix}" if fix else "")
            + (" --asan" if asan else "")
        )
    spec = ServerSpec(cached_model(), binary=made.binary, environment=made.environment)
    return Chosen(identify_native(made.binary), spec)


def conduct(lab, chosen, **plan):
    made = Plan(**plan)
    bench = Bench(lab, chosen, print, random.Random(0))
    trials = []
    for trial in directed_trials(made)(bench):
        print(trial.number, trial.defect, trial.point, trial.outcome, trial.reached, trial.notes)
        trials.append(trial)
        for core in lab.folder.glob("*/core*"):
            core.unlink()
    return trials, {finding.defect: finding for finding in concluding(made)(trials)}


def reached_of(lab, chosen, count, **plan):
    """The first trials that reached their window, and their findings. On a loaded machine a trial may miss
    it, and then says nothing; at most twice as many are made as are wanted."""
    made = Plan(**plan, trials=2 * count)
    trials = directed_trials(made)(Bench(lab, chosen, print, random.Random(0)))
    met = []
    while len(met) < count and (trial := next(trials, None)) is not None:
        print(trial.number, trial.defect, trial.point, trial.outcome, trial.reached, trial.notes)
        met += [trial] if trial.reached else []
        for core in lab.folder.glob("*/core*"):
            core.unlink()
    trials.close()
    assert len(met) == count, "too few trials reached their window"
    return met, {finding.defect: finding for finding in concluding(made)(met)}


def demand_two(lab, chosen, defect):
    trials, findings = reached_of(lab, chosen, 2, defects=(defect,))
    assert [trial.outcome in SHOWS[defect] for trial in trials] == [True] * 2
    assert (findings[defect].conclusion, findings[defect].shown) == ("affected", 2)
    return trials


def demand_shown(lab, chosen, defect, count):
    trials, findings = conduct(lab, chosen, defects=(defect,), trials=count)
    assert [trial.outcome in SHOWS[defect] for trial in trials] == [True] * count
    assert (findings[defect].conclusion, findings[defect].shown) == ("affected", count)
    return trials


def demand_sound(lab, chosen, defect, count):
    trials, findings = conduct(lab, chosen, defects=(defect,), trials=count)
    assert (findings[defect].shown, findings[defect].reached) == (0, count)
    assert findings[defect].conclusion == "sound"
    assert all(trial.outcome in ("answered", "refused") for trial in trials)


def test_d1_is_shown_two_times_of_two(lab, stale_build):
    trials = demand_two(lab, hosted_subject(stale_build), "D1")
    for trial in trials:
        if trial.outcome == "crashed":
            assert (trial.judgement.defect, trial.judgement.class_) == ("D1", "SEGV-UAF-SLEEP")
            assert trial.signature.bug_key


def test_d2_is_shown_two_times_of_two(lab, unload_build):
    # the barrier and the tokeniser: a crash with its core, and an answer that is wrong
    chosen = hosted_subject(unload_build)
    (answer,), findings = reached_of(lab, chosen, 1, points=("tokeniser",))
    assert answer.outcome in SHOWS["D2"]
    assert (findings["D2"].conclusion, findings["D2"].shown) == ("affected", 1)
    (crash,), findings = reached_of(lab, chosen, 1, points=("after-barrier",))
    assert (findings["D2"].conclusion, findings["D2"].shown) == ("affected", 1)
    assert (crash.outcome, crash.signal) == ("crashed", signal.SIGSEGV)
    assert (crash.judgement.defect, crash.judgement.phase) == ("D2", "asleep")


def test_d3_is_shown_two_times_of_two(lab, unload_build):
    trials = demand_two(lab, hosted_subject(unload_build), "D3")
    assert all("released by a waking call: answered with 200" in trial.notes for trial in trials)


def test_d1_is_not_shown_where_it_is_fixed(lab, unload_build):
    trials, findings = reached_of(lab, hosted_subject(unload_build), 2, defects=("D1",))
    assert (findings["D1"].shown, findings["D1"].reached) == (0, 2)
    assert {trial.outcome for trial in trials} == {"answered"}
    # two are too few to call it sound
    assert findings["D1"].conclusion == "inconclusive"


def test_a_stripped_build_is_named(lab, unload_build, monkeypatch):
    monkeypatch.setattr("collector.lab.verify.directed.places.read_binary", lambda *_: None)
    with pytest.raises(UserError, match="no symbols"):
        conduct(lab, hosted_subject(unload_build))


def test_no_sleep_mode_is_named(lab, unload_build, monkeypatch):
    monkeypatch.setattr(
        "collector.lab.verify.directed.places.RunningServer.get",
        lambda *_: type("Answer", (), {"json": lambda self: {}})(),
    )
    with pytest.raises(UserError, match="no sleep mode"):
        explore(lab, unload_build)


def test_a_taken_port_and_a_wrong_model_are_named(lab, unload_build, tmp_path):
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"not a model")
    with pytest.raises(UserError, match="ended with status"):
        explore(lab, replace(unload_build, model=wrong))
    with lab.start(unload_build) as running, pytest.raises(UserError, match=str(running.port)):
        explore(lab, replace(unload_build, port=running.port))


def test_a_cut_model_is_the_models_fault(lab, unload_build, tmp_path):
    # GIVEN a whole header, and a file that ends in the middle of what it announces
    cut = tmp_path / "cut.gguf"
    whole = unload_build.model.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    # WHEN it is loaded
    with pytest.raises(UserError) as told:
        explore(lab, replace(unload_build, model=cut))
    # THEN the file is named, and not the program
    assert explained(told.value, cut).where == str(cut)
    assert "cannot load the model" in explained(told.value, cut).what


def test_a_kill_in_the_awake_measurement_is_named_and_not_counted(lab, unload_build, monkeypatch):
    # GIVEN what the out-of-memory killer does, before anything is held
    def killed(this):
        os.kill(this.server.pid, signal.SIGKILL)
        return replace(this.request, timeout=30.0)

    monkeypatch.setattr(attempts, "_first", killed)
    monkeypatch.setattr("collector.lab.verify.directed.trial.TRIES", 1)
    # WHEN a trial is made
    (trial,), findings = conduct(lab, hosted_subject(unload_build), defects=("D3",), trials=1)
    # THEN
    assert (trial.outcome, trial.reached) == ("inconclusive", False)
    assert "in the awake measurement the server was ended from outside by SIGKILL" in trial.notes[0]
    assert (findings["D3"].conclusion, findings["D3"].shown) == ("inconclusive", 0)


# The loop sleeps within two seconds of its wake: the others are for a busy machine.
REPORT_SECONDS = 6


def slow_to_die(chosen):
    """``chosen``, from its sanitizer's first word to its end for longer than the idle limit: looking names up
    in 300 MB of debug information takes about as long by itself."""
    options = f"{chosen.spec.environment['ASAN_OPTIONS']}:sleep_before_dying={REPORT_SECONDS}"
    return replace(chosen, spec=replace(chosen.spec, environment={"ASAN_OPTIONS": options}))


def test_a_report_that_takes_longer_than_the_idle_limit_shows_d1(lab):
    # GIVEN a server that sleeps again between its sanitizer's first word and its end
    chosen = slow_to_die(native_subject(11138, asan=True))
    # WHEN a token count is sent to it asleep
    (trial,), findings = conduct(lab, chosen, defects=("D1",), trials=1)
    # THEN the report is the witness
    assert (trial.outcome, trial.reached, trial.judgement.defect) == ("crashed", True, "D1")
    assert (findings["D1"].conclusion, trial.judgement.confidence) == ("affected", "proven")
    log = "\n".join(path.read_text() for path in lab.folder.glob("directed-*/server.log"))
    assert "entering sleeping state" in log.partition("ERROR: AddressSanitizer")[2]


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "fix", "defect"),
    [(11138, None, "D1"), (11368, None, "D2"), (11138, None, "D2"), (11368, None, "D3")],
)
def test_sanitized_servers_show_it_five_times_of_five(lab, number, fix, defect):
    for trial in demand_shown(lab, native_subject(number, fix, asan=True), defect, 5):
        assert defect == "D3" or (trial.judgement.defect, trial.judgement.confidence) == (defect, "proven")


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "fix", "defect"), [(11138, "read-after-barrier", "D1"), (11368, "count-requests", "D2")]
)
def test_sanitized_fixes_are_clean(lab, number, fix, defect):
    demand_sound(lab, native_subject(number, fix, asan=True), defect, 10)


@pytest.mark.full
def test_a_model_that_draws_at_random_makes_no_wrong_answer(lab, monkeypatch):
    # GIVEN a sound server whose requests draw their tokens at random
    chosen = native_subject(11368, "count-requests")
    monkeypatch.setattr("collector.lab.verify.answers.REPEATABLE", {"temperature": 2.0})
    # WHEN its answers are compared
    trials, findings = conduct(lab, chosen, points=("after-barrier",), trials=5)
    # THEN none is called wrong, and those that match nothing make nothing sound
    assert {trial.outcome for trial in trials} <= {"answered", "inconclusive"}
    assert any("differ already" in note for trial in trials for note in trial.notes)
    assert findings["D2"].conclusion == "inconclusive"


def family(pid):
    try:
        return [
            int(each)
            for path in Path(f"/proc/{pid}/task").glob("*/children")
            for each in path.read_text().split()
        ]
    except OSError:
        return []


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_leaving_takes_gdb_and_server_down(lab, unload_build):
    with debugged(replace(unload_build, poisoned=True), lab.folder, find_gdb()) as server:
        pids = [server.pid, server._child.pid]
        assert server.get("/health").status == 200
        assert b"MALLOC_PERTURB_" in Path(f"/proc/{server.pid}/environ").read_bytes()
    assert not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_an_interrupted_run_leaves_no_gdb_and_no_server(unload_build, tmp_path, number):
    # GIVEN a run that has a server under gdb
    script = (
        "import sys, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from collector.lab.reference import *\n"
        "from collector.lab.verify.directed.debugged import debugged, find_gdb\n"
        "folder, model, python = map(Path, sys.argv[1:])\n"
        "with debugged(ServerSpec(model, python=python), folder, find_gdb()) as server:\n"
        "    print(server.pid, server._child.pid, flush=True); server.wait_until(lambda _: False, 60)"
    )
    argv = [sys.executable, "-c", script, str(tmp_path), str(unload_build.model), str(unload_build.python)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        pids = [int(each) for each in parent.stdout.readline().split()]
        assert all(map(alive, pids))
        # WHEN it is interrupted, or killed so that none of its own clean-up runs THEN both are gone
        parent.send_signal(number)
        parent.wait(30)
    end = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(alive, pids))


@pytest.mark.full
@pytest.mark.parametrize("defect", ["D2", "D3"])
def test_hosted_twenty_of_twenty(lab, unload_build, defect):
    demand_shown(lab, hosted_subject(unload_build), defect, 20)


@pytest.mark.full
def test_hosted_d1_twenty_of_twenty(lab, stale_build):
    demand_shown(lab, hosted_subject(stale_build), "D1", 20)


@pytest.mark.full
def test_hosted_d1_none_of_sixty_where_it_is_fixed(lab, unload_build):
    demand_sound(lab, hosted_subject(unload_build), "D1", 60)


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "defect"), [(11138, "D1"), (11138, "D2"), (11138, "D3"), (11368, "D2"), (11368, "D3")]
)
def test_native_twenty_of_twenty(lab, number, defect):
    demand_shown(lab, native_subject(number), defect, 20)


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "fix", "defect"),
    [(11138, "read-after-barrier", "D1"), (11368, "count-requests", "D2"), (11368, "count-requests", "D3")],
)
def test_patched_none_of_sixty(lab, number, fix, defect):
    demand_sound(lab, native_subject(number, fix), defect, 60)
