"""Ends that the server brings about itself, ends that come from outside, and no end at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_ask import VERDICT, Said, ask
from e2e_stage import Plays

pytestmark = pytest.mark.real


def test_a_model_deleted_while_the_server_sleeps_aborts_the_wake(plays: Plays) -> None:
    play = plays("d7")
    answer = ask(*play.inputs)
    assert answer.said == Said("ABRT-WAKE-RELOAD", "D7", "model-file", "waking", "strong")
    assert answer.status == VERDICT
    assert answer.report.process.signal == "SIGABRT"
    assert "missing" in answer.reasons


def cause_by(log: Path | None) -> str:
    """What the log can tell: an abort loses the lines that the server's logger still held."""
    assert log is not None
    text = log.read_text(errors="replace")
    return "model-file" if "failed to open GGUF file" in text else "wake"


def test_the_same_abort_without_a_look_at_the_file_goes_by_the_servers_own_words(plays: Plays) -> None:
    # GIVEN no look at the file: the log says that it could not be opened, the core alone says nothing of it
    play = plays("d7")
    answer = ask(play.core, play.log)
    assert answer.said == Said("ABRT-WAKE-RELOAD", "D7", cause_by(play.log), "waking", "strong")
    assert ("could not be opened" in answer.reasons) is (cause_by(play.log) == "model-file")
    alone = ask(play.core)
    assert alone.said == Said("ABRT-WAKE-RELOAD", "D7", "wake", "waking", "weak")
    assert "the state of the model file" in alone.gaps


@pytest.mark.full
def test_the_same_abort_with_the_backtrace_that_the_server_prints_itself(plays: Plays) -> None:
    play = plays("d7-self-trace")
    answer = ask(*play.inputs)
    assert answer.said == Said("ABRT-WAKE-RELOAD", "D7", "model-file", "waking", "strong")
    assert ask(play.log).said[:2] == ("ABRT-WAKE-RELOAD", "D7")


def test_a_model_cut_while_awake_is_a_bus_error_and_while_asleep_an_aborted_wake(plays: Plays) -> None:
    awake, asleep = plays("bus"), plays("d7-cut")
    mapped = ask(*awake.inputs)
    assert mapped.said[:5] == ("BUS", None, "model-file", "awake", "strong")
    assert (mapped.report.process.signal, mapped.status) == ("SIGBUS", VERDICT)
    aborted = ask(*asleep.inputs).said
    # Where the abort lost the last lines of the log, "wake" is all that is left to say of the cause.
    causes = ("model-file", cause_by(asleep.log))
    assert aborted in [Said("ABRT-WAKE-RELOAD", "D7", cause, "waking", "strong") for cause in causes]


def test_a_bus_error_by_its_core_alone_names_the_mapped_model(plays: Plays) -> None:
    answer = ask(plays("bus").core)
    assert answer.said[:5] == ("BUS", None, "model-file", "awake", "strong")
    assert "mapping of the model file" in answer.reasons


def test_a_bus_error_that_somebody_sent_is_not_the_models(plays: Plays) -> None:
    # GIVEN the same signal from outside: the core knows that another process sent it
    play = plays("bus-signal")
    answer = ask(play.bundle, play.core)
    assert answer.said[:2] == ("KILLED", None)
    assert answer.said.cause != "model-file"


@pytest.mark.parametrize("name", ["assertion", "assertion-slept"])
def test_a_failed_assertion_is_the_servers_whether_it_slept_before_or_not(plays: Plays, name: str) -> None:
    play = plays(name)
    assert (b"exiting sleeping state" in play.log.read_bytes()) == (name == "assertion-slept")
    answer = ask(*play.inputs)
    assert answer.said[:5] == ("ABRT-ASSERT", None, "server", "awake", "strong")
    assert answer.status == VERDICT
    assert "unknown trigger type" in answer.reasons


def test_an_assertion_without_its_text_is_an_abort_that_asks_for_it(plays: Plays) -> None:
    answer = ask(plays("assertion").core)
    assert answer.said[:5] == ("ABRT-ABORT", None, "server", "awake", "weak")
    assert "the last lines the server printed" in answer.gaps


def test_an_exception_nobody_caught(plays: Plays) -> None:
    play = plays("exception")
    for answer in (ask(*play.inputs), ask(play.core)):
        assert answer.said[:5] == ("ABRT-EXCEPTION", None, "server", "awake", "strong")
        assert answer.status == VERDICT
    assert "std::system_error" in ask(*play.inputs).reasons


def test_an_exception_that_was_caught_and_answered_is_no_fault(plays: Plays) -> None:
    play = plays("refused")
    assert b"got exception" in play.log.read_bytes()
    assert ask(*play.inputs).said == Said("NO-FAULT", None, "unknown", "awake", "strong")


def test_an_abort_that_a_stop_went_before_is_benign_and_the_same_one_without_is_not(plays: Plays) -> None:
    # GIVEN the same signal to a server that cannot stop in time, and to one that nobody told to stop
    asked, unasked = ask(*plays("abort-stopping").inputs), ask(*plays("abort-signal").inputs)
    # THEN
    assert asked.said == Said("SHUTDOWN-ABORT", None, "supervisor", "stopping", "strong")
    assert unasked.said[:2] == ("ABRT-ABORT", None)
    assert unasked.said[3:5] == ("awake", "weak")


def test_a_stop_that_was_asked_for_is_no_fault(plays: Plays) -> None:
    play = plays("stop")
    assert ask(*play.inputs).said == Said("NO-FAULT", None, "supervisor", "stopping", "strong")
    assert ask(play.log).said.confidence == "weak"  # an abort on the way out leaves the same log


@pytest.mark.parametrize(("name", "phase"), [("kill", "awake"), ("kill-asleep", "asleep")])
def test_a_kill_from_elsewhere_is_not_blamed_on_sleep_even_while_asleep(
    plays: Plays, name: str, phase: str
) -> None:
    answer = ask(*plays(name).inputs)
    assert answer.said == Said("KILLED", None, "unknown", phase, "weak")
    assert answer.report.process.signal == "SIGKILL"
    assert "oom" in "\n".join(str(gap.command) for gap in answer.report.gaps)


def test_a_healthy_server_through_many_sleeps_is_no_fault(plays: Plays) -> None:
    play = plays("sleepers")
    assert play.log.read_bytes().count(b"start_loop: entering sleeping state") == 4
    answer = ask(*play.inputs)
    assert answer.said == Said("NO-FAULT", None, "unknown", "asleep", "strong")
    assert answer.status == VERDICT
    assert "slept and woke without harm" in answer.report.verdict.summary
