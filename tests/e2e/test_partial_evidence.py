"""Less than everything: what is still said, how sure it is, and what must not be borrowed from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from e2e_ask import UNDETERMINED, VERDICT, Said, ask, tool
from e2e_stage import Play, Plays

pytestmark = pytest.mark.real
needs_eu_stack = pytest.mark.skipif(shutil.which("eu-stack") is None, reason="eu-stack is not installed")
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
# A hosted server's core names no port: nothing but the user's word ties its plain log to it.
D1_WEAK = Said("SEGV-UAF-SLEEP", "D1", "wake", "first-request-after-wake", "weak", "handle_count_tokens")


def eu_stack(play: Play, frames: int = 256) -> Path:
    """What ``eu-stack --core`` prints of it, 256 frames a thread by default."""
    return tool(["eu-stack", "-n", str(frames), "--core", play.core], play.folder / "eu-stack.txt")


def gdb(play: Play, what: str) -> Path:
    """What gdb prints of it; gdb finds the program by the core's own notes."""
    program = Path(play.provoked.server.spec.program).resolve()
    argv = ["gdb", "-nx", "-batch", "-ex", what, program, play.core]
    return tool(argv, play.folder / "gdb.txt")


def test_d1s_core_without_its_log_proves_nothing_about_sleep(plays: Plays) -> None:
    answer = ask(plays("d1").core)
    assert answer.said == Said("SEGV", None, "unknown", "awake", "weak", "handle_count_tokens")


def test_d1s_core_beside_a_log_that_names_nothing_of_it_is_weak_and_says_what_would_tie_them(
    plays: Plays,
) -> None:
    play = plays("d1")
    answer = ask(play.core, play.log)
    assert answer.said == D1_WEAK
    assert "kernel" in answer.gaps
    assert "the log of this very process" in answer.gaps


def test_d1s_kernel_line_without_any_log_blames_nothing(plays: Plays) -> None:
    play = plays("d1")
    if not play.kernel_spoke:
        pytest.skip(f"no kernel line: {play.provoked.kernel.note}")
    alone, logged = ask(play.kernel), ask(play.kernel, play.log)
    assert alone.said == Said("SEGV", None, "unknown", "unknown", "weak")
    assert "log" in alone.gaps
    assert logged.said == Said("SEGV-UAF-SLEEP", "D1", "wake", "first-request-after-wake", "weak")


@pytest.mark.parametrize("name", ["d1", "d2-completion", "overflow", "kill-asleep"])
def test_a_log_alone_decides_nothing_and_says_what_is_missing(plays: Plays, name: str) -> None:
    answer = ask(plays(name).log)
    assert answer.said[:2] == ("UNDETERMINED", None)
    assert answer.status == UNDETERMINED
    assert "how the process ended" in answer.gaps


@needs_eu_stack
def test_a_pasted_eu_stack_beside_a_log_of_its_own_is_d1_and_weak(plays: Plays) -> None:
    play = plays("d1")
    answer = ask(eu_stack(play), play.log)
    assert answer.said == D1_WEAK
    assert answer.status == VERDICT


@needs_eu_stack
def test_a_pasted_eu_stack_without_the_log_blames_no_sleep_for_d1(plays: Plays) -> None:
    answer = ask(eu_stack(plays("d1")))
    assert answer.said[:3] == ("SEGV", None, "unknown")
    assert answer.said.phase in ("awake", "unknown")  # frames of a loop between two waits do not decide
    assert answer.said[4:] == ("weak", "handle_count_tokens")


@needs_gdb
def test_one_thread_pasted_from_gdb_beside_a_log_of_its_own_is_d1_and_weak(plays: Plays) -> None:
    play = plays("d1")
    answer = ask(gdb(play, "bt"), play.log)
    assert answer.said == D1_WEAK
    assert "core" in answer.gaps  # only the loop thread rules D2 out


@needs_eu_stack
@pytest.mark.parametrize(
    ("name", "handler"), [("d2-completion", "handle_completions_impl"), ("d2-tokenize", "tokenize")]
)
def test_a_pasted_eu_stack_makes_d2_strong_with_the_log_and_by_its_loop_thread(
    plays: Plays, name: str, handler: str
) -> None:
    play = plays(name)
    trace = eu_stack(play)
    for answer in (ask(trace, play.log), ask(trace)):
        assert answer.said[:3] == ("SEGV-UAF-SLEEP", "D2", "sleep")
        # frames inside the sleep callback do not say which way it goes, and a crash may lose the log's end
        assert answer.said.phase in ("unloading", "asleep", "unknown")
        assert answer.said[4:] == ("strong", handler)


@needs_gdb
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "defect", "handler"),
    [("d1", "D1", "handle_count_tokens"), ("d2-completion", "D2", "handle_completions_impl")],
)
def test_all_threads_pasted_from_gdb_and_the_log_are_strong(
    plays: Plays, name: str, defect: str, handler: str
) -> None:
    play = plays(name)
    said = ask(gdb(play, "thread apply all bt"), play.log).said
    assert (said.class_, said.defect, said.confidence, said.handler) == (
        "SEGV-UAF-SLEEP",
        defect,
        "strong",
        handler,
    )


@needs_eu_stack
def test_a_pasted_overflow_of_an_awake_server_is_the_stacks_own(plays: Plays) -> None:
    # GIVEN eu-stack's first 256 frames of a recursion, the handler far beyond them, and a sleep in the log
    play = plays("overflow-slept")
    # WHEN / THEN
    answer = ask(eu_stack(play), play.log)
    assert answer.said[:2] == ("SEGV-STACK", None)
    assert not answer.blames_sleep


def test_a_bundle_of_another_server_lends_no_sleep(plays: Plays) -> None:
    # GIVEN D1's core, and the bundle of another server that slept
    mine, other = plays("d1"), plays("sleepers")
    # WHEN / THEN its log is an incident of its own, or nobody's, and the report says so
    answer = ask(mine.core, other.bundle)
    assert answer.said == Said("SEGV", None, "unknown", "awake", "weak", "handle_count_tokens")
    apart = [pid for incident in answer.report.incidents for pid in incident.pids]
    assert "other processes" in answer.gaps or (len(apart) == 2 and mine.pid in apart)
    assert ask(mine.core, mine.bundle).said.defect == "D1"


def journal(play: Play, pid: int) -> Path:
    """The server's own lines as syslog or journalctl shows those of process ``pid``."""
    target = play.folder / f"journal-{pid}.txt"
    lines = play.log.read_text(errors="replace").splitlines()
    target.write_text("".join(f"Dec 02 01:12:50 host llama-server[{pid}]: {line}\n" for line in lines))
    return target


def test_a_log_of_another_process_lends_no_sleep(plays: Plays) -> None:
    # GIVEN the very lines that make D1, once under the dead process's PID and once under another
    play = plays("d1")
    own, other = ask(play.core, journal(play, play.pid)), ask(play.core, journal(play, 4_000_000))
    # THEN an equal PID that nothing dates may have been used again
    assert own.said == D1_WEAK
    assert "same use of PID" in own.gaps
    assert other.said == Said("SEGV", None, "unknown", "awake", "weak", "handle_count_tokens")


def test_two_cores_at_once_are_two_incidents_and_each_keeps_its_own_log(plays: Plays) -> None:
    first, second = plays("d2-completion"), plays("d1")
    answer = ask(first.core, second.core, second.bundle, first.bundle)
    keys = {incident.key: incident.pids for incident in answer.report.incidents}
    assert keys == {
        "SEGV-UAF-SLEEP|D2|handle_completions_impl": [first.pid],
        "SEGV-UAF-SLEEP|D1|handle_count_tokens": [second.pid],
    }
    assert answer.said.defect == answer.report.incidents[0].defect  # the verdict is number 1 of the table
