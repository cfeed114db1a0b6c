"""A run as it is carried out: every finished trial is kept, whatever ends the run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trial_builder import judged, made

from analyzers.contracts.trials import (
    AFFECTED,
    ANSWERED,
    CRASHED,
    INCONCLUSIVE,
    LEAKED,
    SOUND,
    STRANDED,
    Subject,
    Trial,
    TrialRun,
)
from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify import judge, session
from collector.lab.verify.findings import conclude_all, unfilled
from collector.lab.verify.keep import Kept
from collector.lab.verify.options import Outputs
from collector.lab.verify.session import Bench, Method, run, trial_line
from collector.lab.verify.subject import Chosen, Wanted


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A subject that is never started, and a temporary folder of the test's own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    known = Chosen(Subject(kind="native", name="b12345"), ServerSpec(Path("m"), binary=Path("llama-server")))
    monkeypatch.setattr(session, "choose", lambda wanted, say: known)
    return scratch


def carried_out(method: Method, outputs: Outputs | None = None, enough: int = 2) -> TrialRun:
    return run(
        "pinned",
        method,
        lambda trials: conclude_all(trials, ("D2",), enough),
        Wanted(),
        outputs or Outputs(),
        seed=3,
        options={"trials": 2},
    )


def yielding(*steps: Trial | BaseException | Callable[[Bench], None]) -> Method:
    def method(bench: Bench) -> Iterator[Trial]:
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, Trial):
                yield step
            else:
                step(bench)

    return method


SHOWN = made(CRASHED, signal=11, judgement=judged("D2"))
CLEAN = (made(ANSWERED, number=1), made(ANSWERED, number=2))


def test_a_run_is_concluded_from_its_trials_and_remembers_what_it_was() -> None:
    done = carried_out(yielding(*CLEAN))
    assert [each.conclusion for each in done.findings] == [SOUND]
    assert (done.method, done.seed, done.options, done.subject.name) == ("pinned", 3, {"trials": 2}, "b12345")
    assert not done.interrupted
    assert done.problem is None
    assert done.host["cpus"] >= 1


def test_the_same_seed_gives_the_same_chance() -> None:
    drawn: list[float] = []
    for _ in range(2):
        carried_out(yielding(lambda bench: drawn.append(bench.chance.random()), *CLEAN))
    assert drawn[0] == drawn[1]


def test_each_trial_is_on_disk_before_the_next_one_starts(tmp_path: Path) -> None:
    seen: list[int] = []
    folder = tmp_path / "out"

    def look(_: Bench) -> None:
        seen.append(len((folder / "trials.jsonl").read_text().splitlines()))

    carried_out(yielding(look, CLEAN[0], look, CLEAN[1], look), Outputs(folder=folder))
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_trials_and_what_is_finished_is_kept(tmp_path: Path, number: int) -> None:
    # GIVEN enough clean trials, then a signal in the middle of the next
    folder = tmp_path / "out"
    stop = lambda _: os.kill(os.getpid(), number)  # noqa: E731
    # WHEN run
    done = carried_out(yielding(*CLEAN, stop, SHOWN), Outputs(folder=folder))
    # THEN both are kept, and nothing is called sound
    assert done.interrupted
    assert len(done.trials) == 2
    assert len((folder / "trials.jsonl").read_text().splitlines()) == 2
    assert [each.conclusion for each in done.findings] == [INCONCLUSIVE]
    assert "interrupted" in done.findings[0].because


def test_what_was_shown_before_the_interrupt_stays_shown() -> None:
    done = carried_out(yielding(SHOWN, KeyboardInterrupt()))
    assert done.interrupted
    assert [each.conclusion for each in done.findings] == [AFFECTED]


def test_more_signals_while_servers_are_taken_down_change_nothing() -> None:
    def thrice(_: Bench) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

    assert carried_out(yielding(CLEAN[0], thrice)).interrupted


def test_handlers_are_put_back_and_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = carried_out(yielding(*CLEAN, lambda _: os.kill(os.getpid(), signal.SIGHUP)))
        assert not done.interrupted
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_surroundings_that_fail_before_the_first_trial_are_the_users_to_mend() -> None:
    with pytest.raises(UserError, match="port"):
        carried_out(yielding(UserError("the port is taken", where="x", remedy="y")))


def test_surroundings_that_fail_later_leave_a_run_that_is_never_sound() -> None:
    failed = UserError("the port is taken", where="x", remedy="y")
    done = carried_out(yielding(*CLEAN, failed))
    assert done.problem == str(failed)
    assert [each.conclusion for each in done.findings] == [INCONCLUSIVE]
    assert len(done.trials) == 2


def test_a_full_disk_under_a_server_is_no_traceback() -> None:
    full = OSError(28, "No space left on device", "server-000")
    done = carried_out(yielding(*CLEAN, full))
    assert done.problem is not None
    assert "no space left on device" in done.problem
    assert "server-000" in done.problem


def test_a_trial_that_cannot_be_written_is_still_concluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Kept, line: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Kept, "add", full)
    done = carried_out(yielding(SHOWN, *CLEAN), Outputs(folder=tmp_path / "out"))
    assert [each.conclusion for each in done.findings] == [AFFECTED]
    assert done.problem is not None


def test_an_error_of_ours_is_not_made_a_finding(chosen: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        carried_out(yielding(*CLEAN, ZeroDivisionError()))
    assert list(chosen.iterdir()) == []


@pytest.mark.parametrize(
    "ending",
    [
        CLEAN[1],
        KeyboardInterrupt(),
        UserError("x", where="y", remedy="z"),
    ],
    ids=["finished", "interrupted", "failed"],
)
def test_without_output_nothing_stays(chosen: Path, ending: Trial | BaseException) -> None:
    carried_out(yielding(CLEAN[0], ending))
    assert list(chosen.iterdir()) == []


def test_a_subject_that_cannot_be_used_leaves_nothing_either(
    chosen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wanted: Wanted, say: object) -> Chosen:
        raise UserError("not a llama-server", where="x", remedy="y")

    monkeypatch.setattr(session, "choose", refuse)
    with pytest.raises(UserError):
        carried_out(yielding(*CLEAN))
    assert list(chosen.iterdir()) == []


def test_a_kill_from_outside_is_recorded_as_nothing(tmp_path: Path) -> None:
    # GIVEN a method that took the kernel's SIGKILL for a crash
    done = carried_out(yielding(made(CRASHED, signal=signal.SIGKILL)), Outputs(folder=tmp_path / "out"))
    # THEN the record says otherwise, on disk too
    kept = json.loads((tmp_path / "out" / "trials.jsonl").read_text())
    for outcome, reached, note in (
        (done.trials[0].outcome, done.trials[0].reached, done.trials[0].notes[0]),
        (kept["outcome"], kept["reached"], kept["notes"][0]),
    ):
        assert outcome == INCONCLUSIVE
        assert reached is False
        assert "SIGKILL" in note


@pytest.mark.parametrize(("before", "now", "by"), [(3, 4, "kernel"), (3, 3, "another"), (None, 4, "another")])
def test_the_kernels_own_counter_tells_who_killed(
    monkeypatch: pytest.MonkeyPatch, before: int | None, now: int, by: str
) -> None:
    monkeypatch.setattr(judge, "oom_kills", lambda: now)
    assert by in judge.settled(made(CRASHED, signal=9), before).notes[0]


@pytest.mark.parametrize("trial", [made(ANSWERED), SHOWN, made(CRASHED), made(STRANDED)])
def test_other_trials_are_left_as_they_are(trial: Trial) -> None:
    assert judge.settled(trial) is trial


def test_this_kernel_counts_its_out_of_memory_kills() -> None:
    counted = judge.oom_kills()
    assert counted is None or counted >= 0


def test_without_output_crashed_servers_leave_no_cores_but_are_said(
    capsys: pytest.CaptureFixture[str], chosen: Path
) -> None:
    cores: list[bool] = []

    def crash(bench: Bench) -> None:
        folder = bench.lab.folder / "server-000-x"
        folder.mkdir(parents=True)
        (folder / "core.123").write_bytes(b"x")

    def look(bench: Bench) -> None:
        cores.append(any(bench.lab.folder.glob("*/core*")))

    carried_out(yielding(crash, SHOWN, look))
    assert cores == [False]
    assert "--output FOLDER to keep them" in capsys.readouterr().out


def test_with_output_cores_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def crash(bench: Bench) -> None:
        folder = bench.lab.folder / "server-000-x"
        folder.mkdir(parents=True)
        (folder / "core.123").write_bytes(b"x")

    carried_out(yielding(crash, SHOWN), Outputs(folder=tmp_path / "out"))
    assert list((tmp_path / "out" / "servers").glob("*/core.123"))
    assert "are in" in capsys.readouterr().out


def test_progress_goes_to_stderr_when_json_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    carried_out(yielding(*CLEAN), Outputs(json="-"))
    said = capsys.readouterr()
    assert said.out == ""
    assert "trial 2" in said.err


def test_a_line_of_a_trial_names_what_a_person_follows() -> None:
    line = trial_line(made(CRASHED, "D2", point="post", number=4, judgement=judged("D2", "proven")))
    assert line == "trial 4: D2 post POST /tokenize: crashed: SEGV-UAF-SLEEP D2 (proven)"
    missed = made(INCONCLUSIVE, "D3", reached=False, notes=["the sleep came late"])
    assert trial_line(missed).endswith("inconclusive - the sleep came late")


def test_a_line_tells_the_figures_of_a_leak_and_why_a_trial_missed() -> None:
    for outcome, reached, told in (
        (LEAKED, True, True),
        (INCONCLUSIVE, False, True),
        (ANSWERED, True, False),
    ):
        line = trial_line(made(outcome, reached=reached, notes=["asleep it holds 34.8 MiB more"]))
        assert ("34.8 MiB" in line) == told


@pytest.mark.parametrize(
    ("allocators", "conclusion"),
    [
        ({"jemalloc"}, INCONCLUSIVE),
        ({"AddressSanitizer"}, SOUND),
        (set(), SOUND),
        ({"musl", "x"}, INCONCLUSIVE),
    ],
)
def test_freed_memory_that_nobody_filled_leaves_nothing_sound(allocators: set[str], conclusion: str) -> None:
    """LD_PRELOAD of another malloc: MALLOC_PERTURB_ is glibc's alone."""

    def method(bench: Bench) -> Iterator[Trial]:
        bench.lab.allocators |= allocators
        yield from CLEAN

    (found,) = carried_out(method).findings
    assert found.conclusion == conclusion
    assert all(each in found.because for each in allocators - {"AddressSanitizer"})
    # a defect that was shown stays shown, and a hang reads no memory
    assert [each.conclusion for each in unfilled(conclude_all([SHOWN], ("D2",), 1), allocators)] == [AFFECTED]
    hung = conclude_all([made(ANSWERED, "D3")], ("D3",), 1)
    assert unfilled(hung, allocators) == hung


def test_a_defect_whose_turn_had_not_come_says_why() -> None:
    def method(_: Bench) -> Iterator[Trial]:
        yield SHOWN
        raise KeyboardInterrupt

    done = run("pinned", method, lambda trials: conclude_all(trials, ("D2", "D3"), 1), Wanted(), Outputs())
    said = {each.defect: each for each in done.findings}
    assert said["D3"].because == "the run was interrupted before a trial of it"
    assert said["D2"].conclusion == AFFECTED


@pytest.mark.parametrize("defect", [None, "D2"])
def test_a_trials_line_has_no_hole_where_no_defect_is_named(defect: str | None) -> None:
    line = trial_line(made(CRASHED, judgement=judged(defect, "weak")))
    assert "  " not in line
    assert line.endswith("(weak)")
