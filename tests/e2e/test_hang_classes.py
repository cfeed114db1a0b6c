"""Living servers that do not answer: each class provoked on a real one, and its twin told apart."""

from __future__ import annotations

import resource
import shutil

import pytest
from e2e_ask import UNDETERMINED, VERDICT, Said, ask
from e2e_hangs import HANGS
from e2e_stage import Plays

from collector.lab.faults.hang_http import POOL_LIMIT
from collector.lab.reference import ReferenceServer

pytestmark = pytest.mark.real
eu_stack = pytest.mark.skipif(shutil.which("eu-stack") is None, reason="eu-stack is not installed")
debugger = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")


@pytest.fixture(scope="module")
def hangs(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """The scenes of this module; each is played when it is first asked for."""
    folder = tmp_path_factory.mktemp("hangs")
    with ReferenceServer(folder / "servers") as lab:
        yield Plays(lab, folder, HANGS)


@eu_stack
def test_a_loop_blocked_in_one_task_is_a_hang_after_the_second_look(hangs: Plays) -> None:
    # GIVEN a server whose loop opens a pipe that nobody reads, looked at twice
    answer = ask(*hangs("hang-loop").inputs)
    # THEN the two looks agree, and the task's own function is named
    assert answer.said == Said("HANG-LOOP", None, "unknown", "awake", "strong")
    assert answer.status == VERDICT
    assert "llama_file::llama_file" in answer.reasons


@eu_stack
def test_the_same_hang_is_not_decided_by_one_look(hangs: Plays) -> None:
    answer = ask(*hangs("hang-loop-one-look").inputs)
    assert answer.said == Said("UNDETERMINED", None, "unknown", "awake", "undetermined")
    assert answer.status == UNDETERMINED
    assert "a second look" in answer.gaps
    assert "how the process ended" not in answer.gaps


@eu_stack
def test_an_idle_server_looked_at_alike_is_no_fault(hangs: Plays) -> None:
    assert ask(*hangs("looked-idle").inputs).said == Said("NO-FAULT", None, "unknown", "awake", "strong")


@eu_stack
def test_clients_that_hold_every_thread_are_told_from_a_stuck_queue(hangs: Plays) -> None:
    answer = ask(*hangs("hang-http").inputs)
    assert answer.said == Said("HANG-HTTP", None, "configuration", "awake", "strong")
    assert "/health got no answer" in answer.reasons


@eu_stack
@pytest.mark.full
def test_the_pools_own_limit_does_the_same(hangs: Plays) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * POOL_LIMIT
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} open files, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        assert ask(*hangs("hang-http-pool").inputs).said.class_ == "HANG-HTTP"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_stopped_process_answers_nothing_and_is_not_called_hung(hangs: Plays) -> None:
    answer = ask(*hangs("stopped").inputs)
    assert answer.said == Said("UNDETERMINED", None, "unknown", "awake", "undetermined")
    assert "stopped by a signal" in answer.report.verdict.summary
    assert any("kill -CONT" in (gap.command or "") for gap in answer.report.gaps)


@debugger
def test_a_server_that_prints_its_own_backtrace_is_aborting(hangs: Plays) -> None:
    answer = ask(*hangs("hang-aborting").inputs)
    assert answer.said == Said("HANG-ABORTING", None, "server", "awake", "proven")
    assert "unknown trigger type" in answer.reasons


@debugger
def test_the_same_assertion_is_an_abort_once_the_server_is_gone(hangs: Plays) -> None:
    assert ask(*hangs("aborted").inputs).said.class_ == "ABRT-ASSERT"


def test_a_long_first_load_moves_and_is_no_hang(hangs: Plays) -> None:
    answer = ask(*hangs("load-slow").inputs)
    assert (answer.said.class_, answer.said.phase) == ("LOAD-SLOW", "loading")
    assert answer.said.confidence in ("strong", "weak")  # with the page cache warm, CPU time alone may move


@eu_stack
def test_a_long_prompt_works_off_batches_and_is_no_hang(hangs: Plays) -> None:
    answer = ask(*hangs("prefill").inputs)
    assert answer.said == Said("NOT-A-HANG", None, "request", "awake", "strong")
    assert "batches were worked off" in answer.reasons


def test_a_wake_that_takes_long_is_neither_down_nor_hung(hangs: Plays) -> None:
    answer = ask(*hangs("waking").inputs)
    assert answer.said[:4] == ("NOT-A-HANG", None, "wake", "waking")
    assert "/props waits" in answer.reasons


def test_a_draft_that_stays_mapped_asleep_is_d5(hangs: Plays) -> None:
    answer = ask(*hangs("draft-kept").inputs)
    assert answer.said[:4] == ("SLEEP-LEAK", "D5", "sleep", "asleep")
    assert answer.said.confidence == "strong"


@pytest.mark.parametrize("twin", ["draft-freed", "no-draft"])
def test_a_draft_that_is_freed_and_a_server_without_one_leak_nothing(hangs: Plays, twin: str) -> None:
    assert ask(*hangs(twin).inputs).said.class_ != "SLEEP-LEAK"


def test_the_first_answer_after_a_wake_pays_and_the_server_is_not_degraded(hangs: Plays) -> None:
    assert ask(*hangs("cold-cache").inputs).said.class_ == "NO-FAULT"
