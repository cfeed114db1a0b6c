"""Hold and let go, on recorded stacks and stop records; and what a held server's sleep is taken for."""

import signal
from types import SimpleNamespace

import pytest
from directed_stub import FINISHED, HANDLER_STACK, HIT, LOOP_STACK, SIGNAL, FakeServer

from analyzers.stacks.mi import MiError
from collector.lab.verify.directed import steps, stillness, watch
from collector.lab.verify.directed.points import BY_NAME
from collector.lab.verify.directed.steps import Caught, Sleep
from collector.lab.verify.directed.stillness import Stillness
from collector.lab.verify.directed.watch import Became

POST = BY_NAME["before-post"]
WAITING = SimpleNamespace(waiting=True, answer=None)


def continued(server):
    return [command for command in server.gdb.sent if command.startswith("-exec-continue")]


def test_the_requests_thread_is_held_and_the_loops_runs_on():
    # GIVEN the loop's thread and then the request's at the same point
    server = FakeServer(**{"3": LOOP_STACK, "10": HANDLER_STACK})
    server.gdb.happen(HIT % (3, 3), HIT % (10, 10))
    # WHEN one is to be caught THEN it is the request's, and only the other one runs on
    caught = steps.catch(server, POST, WAITING)
    assert caught == Caught("10", 0)
    assert continued(server) == ["-exec-continue --thread 3"]


def test_a_request_that_is_answered_first_is_not_caught():
    server = FakeServer(**{"3": LOOP_STACK})
    server.gdb.happen(HIT % (3, 3))
    assert steps.catch(server, POST, SimpleNamespace(waiting=False)) is None
    assert continued(server) == ["-exec-continue --thread 3"]


def test_a_server_that_dies_first_is_not_held():
    server = FakeServer(**{"10": HANDLER_STACK})
    server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10), HIT % (10, 10))
    assert steps.catch(server, POST, WAITING) is None
    assert server.fatal == ("10", signal.SIGSEGV)
    assert server.ending.signal == signal.SIGSEGV
    assert continued(server) == []


def test_the_first_fatal_signal_is_the_one_that_counts():
    server = FakeServer()
    server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10), SIGNAL % ("SIGABRT", 11, 11))
    assert server.absorb()
    assert server.fatal == ("10", signal.SIGSEGV)


def test_our_own_interrupt_is_no_death_and_other_signals_run_on():
    server = FakeServer()
    server.gdb.happen(SIGNAL % ("0", 10, 10), SIGNAL % ("SIGUSR1", 11, 11))
    assert not server.absorb()
    assert continued(server) == ["-exec-continue --thread 11"]


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ('*stopped,reason="exited",exit-code="0177"', None, 127),
        ('*stopped,reason="exited-normally"', None, 0),
        ('*stopped,reason="exited-signalled",signal-name="SIGKILL",signal-meaning="Killed"', 9, None),
    ],
)
def test_an_end_is_read_with_its_code_or_signal(line, number, code):
    server = FakeServer()
    server.gdb.happen('=thread-group-started,id="i1",pid="4711"', line)
    assert server.absorb()
    assert server.pid == 4711
    assert (server.ending.signal, server.ending.code) == (number, code)
    assert server.finished


def test_breakpoints_go_in_while_everything_stands():
    server = FakeServer()
    running, stopped = {"id": "1", "state": "running"}, {"id": "1", "state": "stopped"}
    server.gdb.answers = {
        "-thread-info": [{"threads": [running]}, {"threads": [stopped]}],
        "-break-insert": [{"bkpt": {"number": "1"}}, {"bkpt": {"number": "2"}}],
    }
    assert steps.insert(server, [0x7F10, 0x7F20]) == ["1", "2"]
    kinds = [command.split()[0] for command in server.gdb.sent]
    assert kinds == [
        "-exec-interrupt",
        "-thread-info",
        "-thread-info",
        "-break-insert",
        "-break-insert",
        "-exec-continue",
    ]
    assert server.gdb.sent[-1] == "-exec-continue --all"
    assert "*0x7f10" in server.gdb.sent[3]


def test_threads_that_do_not_stand_are_an_error(monkeypatch):
    monkeypatch.setattr("collector.lab.verify.directed.debugged.STOP_DEADLINE", -1.0)
    server = FakeServer()
    server.gdb.answers = {"-thread-info": {"threads": [{"id": "1", "state": "running"}]}}
    with pytest.raises(MiError, match="time"):
        server.interrupt()


def test_a_thread_that_ran_into_a_removed_breakpoint_runs_on():
    server = FakeServer()
    server.gdb.happen(HIT % (5, 5))
    steps.remove(server, ["1", "2"])
    assert server.gdb.sent == ["-break-delete 1 2", "-exec-continue --thread 5"]
    assert server.passed == ["5"]


@pytest.mark.parametrize(
    "line",
    [
        FINISHED % (10, 10),
        (FINISHED % (10, 10)).replace("stopped,", 'stopped,reason="function-finished",', 1),
    ],
)
def test_a_left_function_is_known_with_and_without_a_reason(line):
    server = FakeServer()
    server.gdb.on = {"-exec-finish --thread 10": [line]}
    assert steps.leave_function(server, "10")
    assert not steps.leave_function(server, "10")  # the old event is not taken for a new one


def test_sleep_is_seen_by_the_line_and_by_props(monkeypatch):
    monkeypatch.setattr(steps, "asleep", lambda server: len(server.log) == 1)
    server = FakeServer()
    server.before_look = lambda number: server.sleeps() if number == 2 else None
    assert steps.wait_for_sleep(server, Caught("10", 0)) is Sleep.SLEPT


def test_a_server_that_stays_awake_must_show_that_its_loop_turns(monkeypatch):
    monkeypatch.setattr(steps, "asleep", lambda _: False)
    for status, expected in ((200, Sleep.STAYED_AWAKE), (501, Sleep.UNCLEAR), (None, Sleep.UNCLEAR)):
        poke = SimpleNamespace(waiting=False, answer=SimpleNamespace(status=status))
        monkeypatch.setattr(steps, "Pending", lambda *_, poke=poke: poke)
        assert steps.wait_for_sleep(FakeServer(), Caught("10", 0)) is expected
    monkeypatch.setattr(steps, "Pending", lambda *_: WAITING)
    assert steps.wait_for_sleep(FakeServer(), Caught("10", 0)) is Sleep.UNCLEAR


def test_a_loop_that_was_slow_and_sleeps_when_it_is_asked_has_slept(monkeypatch):
    server = FakeServer()
    monkeypatch.setattr(steps, "asleep", lambda server: bool(server.log))

    def poke(*_):
        server.sleeps()
        return SimpleNamespace(waiting=False, answer=SimpleNamespace(status=200))

    monkeypatch.setattr(steps, "Pending", poke)
    assert steps.wait_for_sleep(server, Caught("10", 0)) is Sleep.SLEPT


@pytest.mark.parametrize(
    ("states", "slept", "counts"),
    [
        ("SSt", Sleep.ANNOUNCED, True),  # it waits for the thread that gdb holds: a fix can do that
        ("SRt", Sleep.UNFINISHED, False),  # it still unloads, or wants to: slow, and no fix
        ("SDt", Sleep.UNFINISHED, False),  # it waits for a disk
        ("ttt", Sleep.UNFINISHED, False),  # gdb holds everything: nothing was given its chance
        ("", Sleep.UNFINISHED, False),
    ],
)
def test_an_announced_sleep_counts_only_when_the_server_rests_without_finishing_it(
    monkeypatch, states, slept, counts
):
    # GIVEN a sleep that is announced and that /props does not confirm
    monkeypatch.setattr(steps, "asleep", lambda _: False)
    monkeypatch.setattr(stillness, "thread_states", lambda _: list(states))
    server = FakeServer()
    server.looks = stillness.STILL_LOOKS
    server.sleeps()
    # WHEN the held thread waits for it THEN only a server at rest has said what it does
    assert steps.wait_for_sleep(server, Caught("10", 0)) is slept
    assert slept.counts is counts


def test_a_server_that_wakes_again_after_its_announcement_is_not_at_rest(monkeypatch):
    monkeypatch.setattr(steps, "asleep", lambda _: False)
    monkeypatch.setattr(stillness, "thread_states", lambda _: ["S", "t"])
    server = FakeServer()
    server.looks = 2 * stillness.STILL_LOOKS
    server.sleeps()
    server.log.append("0.02.000.000 I que    start_loop: exiting sleeping state")
    assert steps.wait_for_sleep(server, Caught("10", 0)) is Sleep.UNFINISHED


def test_a_slow_sleep_that_is_finished_after_all_has_slept(monkeypatch):
    looked = []
    monkeypatch.setattr(stillness, "thread_states", lambda _: ["S", "t"])
    monkeypatch.setattr(steps, "asleep", lambda _: len(looked) > 6)
    server = FakeServer()
    server.looks = stillness.STILL_LOOKS
    server.before_look = looked.append
    server.sleeps()
    assert steps.wait_for_sleep(server, Caught("10", 0)) is Sleep.SLEPT


def test_a_sleep_before_the_hold_is_none_of_this_ones(monkeypatch):
    monkeypatch.setattr(steps, "asleep", lambda _: False)
    server = FakeServer()
    server.sleeps()
    monkeypatch.setattr(steps, "Pending", lambda *_: WAITING)
    assert steps.wait_for_sleep(server, Caught("10", 1)) is Sleep.UNCLEAR


def test_a_server_that_dies_while_held_is_told():
    server = FakeServer()
    server.gdb.happen(SIGNAL % ("SIGABRT", 3, 3))
    assert steps.wait_for_sleep(server, Caught("10", 0)) is Sleep.DIED


def at_rest(monkeypatch, states="S"):
    monkeypatch.setattr(watch, "asleep_by_log", lambda _: True)
    monkeypatch.setattr(watch, "asleep_by_props", lambda _: True)
    monkeypatch.setattr(stillness, "thread_states", lambda _: list(states))


def test_asleep_still_and_waiting_is_stranded(monkeypatch):
    at_rest(monkeypatch, "SSS")
    server = FakeServer()
    server.looks = stillness.STILL_LOOKS
    assert watch.watch(server, WAITING) is Became.STRANDED
    server.looks = stillness.STILL_LOOKS - 1
    assert watch.watch(server, WAITING) is Became.SILENT


@pytest.mark.parametrize("states", ["SRS", "StS", "SDS", ""])
def test_a_thread_that_runs_or_wants_to_is_not_at_rest(monkeypatch, states):
    at_rest(monkeypatch, states)
    server = FakeServer()
    server.looks = 5 * stillness.STILL_LOOKS
    assert watch.watch(server, WAITING) is Became.SILENT


def test_one_running_look_starts_the_count_again(monkeypatch):
    still = Stillness(1)
    monkeypatch.setattr(stillness, "thread_states", lambda _: ["S"])
    assert not any(still.look() for _ in range(stillness.STILL_LOOKS - 1))
    monkeypatch.setattr(stillness, "thread_states", lambda _: ["S", "R"])
    assert not still.look()
    monkeypatch.setattr(stillness, "thread_states", lambda _: ["S"])
    assert not any(still.look() for _ in range(stillness.STILL_LOOKS - 1))
    assert still.look()


def test_a_server_whose_sanitizer_prints_its_report_is_dying_and_not_stranded(monkeypatch):
    """The thread that reports waits for the program that looks names up: nothing runs, for seconds."""
    at_rest(monkeypatch, "SSS")
    server = FakeServer()
    server.looks = 3 * stillness.STILL_LOOKS
    server.log.append("==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1")
    assert watch.watch(server, WAITING) is Became.SILENT
    server.before_look = lambda at: server.gdb.happen(SIGNAL % ("SIGABRT", 3, 3)) if at == 90 else None
    assert watch.watch(server, WAITING) is Became.DIED


def test_an_awake_server_is_never_stranded(monkeypatch):
    at_rest(monkeypatch)
    monkeypatch.setattr(watch, "asleep_by_props", lambda _: False)
    server = FakeServer()
    server.looks = 3 * stillness.STILL_LOOKS
    assert watch.watch(server, WAITING) is Became.SILENT


def test_death_outranks_the_answer_and_a_broken_connection_announces_it(monkeypatch):
    at_rest(monkeypatch)
    broken = SimpleNamespace(waiting=False, answer=SimpleNamespace(status=None))
    server = FakeServer()
    server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10))
    assert watch.watch(server, broken) is Became.DIED
    # GIVEN a connection that broke before gdb told of the death
    server = FakeServer()
    looks = []
    server.before_look = lambda number: (
        looks.append(number) or (server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10)) if len(looks) == 3 else None)
    )
    assert watch.watch(server, broken) is Became.DIED
    # WHEN none comes THEN nothing is claimed
    assert watch.watch(FakeServer(), broken) is Became.SILENT


def test_an_answer_is_an_answer(monkeypatch):
    at_rest(monkeypatch)
    answered = SimpleNamespace(waiting=False, answer=SimpleNamespace(status=200))
    assert watch.watch(FakeServer(), answered) is Became.ANSWERED


def test_only_an_answer_makes_a_release(monkeypatch):
    monkeypatch.setattr(watch, "Pending", lambda *_: SimpleNamespace(waiting=False))
    assert watch.release(FakeServer(), SimpleNamespace(waiting=False, answer=SimpleNamespace(status=200)))
    assert not watch.release(FakeServer(), WAITING)
    assert not watch.release(
        FakeServer(), SimpleNamespace(waiting=False, answer=SimpleNamespace(status=None))
    )


def test_the_state_of_this_process_can_be_read(tmp_path):
    task = tmp_path / "7"
    task.mkdir()
    (task / "stat").write_text("7 (a b) S) R 1 2 3")
    assert stillness.thread_states(tmp_path) == ["R"]
    assert stillness.thread_states(tmp_path / "gone") == []
