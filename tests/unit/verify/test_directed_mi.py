"""gdb's lines: which are understood, whom an answer belongs to, what happens in between."""

import os
import threading

import pytest
from directed_stub import FINISHED, HIT, SIGNAL
from hypothesis import given
from hypothesis import strategies as st

from analyzers.stacks.mi import MiError
from collector.lab.verify.directed.mi import MiConversation, parse_record


def test_a_hit_names_its_thread_and_reason():
    record = parse_record((HIT % (10, 10)).encode())
    assert (record.kind, record.name, record.reason, record.thread) == (
        "*",
        "stopped",
        "breakpoint-hit",
        "10",
    )


def test_a_finished_function_has_no_reason_where_gdb_knows_no_types():
    assert parse_record((FINISHED % (7, 7)).encode()).reason == ""


def test_a_signal_is_named():
    record = parse_record((SIGNAL % ("SIGSEGV", 4, 4)).encode())
    assert record.payload["signal-name"] == "SIGSEGV"


def test_news_of_a_process_carries_its_pid():
    record = parse_record(b'=thread-group-started,id="i1",pid="4711"')
    assert (record.kind, record.payload["pid"], record.reason) == ("=", "4711", None)


def test_a_result_has_its_token():
    record = parse_record(b'12^done,bkpt={number="1",type="breakpoint"}')
    assert (record.token, record.name, record.payload["bkpt"]["number"]) == (12, "done", "1")


@pytest.mark.parametrize(
    "line",
    [
        b"(gdb) ",
        b'~"text"',
        b'&"warning"',
        b"*",
        b"*stopped,reason=",
        b'*stopped,frame={addr="1"',
        b'*stopped,a={b="1"},]',
        b"0.01.000.000 I que start_loop: entering sleeping state",
        b'*stopped,reason="x"' + b"{" * 300,
        b"",
    ],
)
def test_other_lines_and_malformed_ones_are_none(line):
    assert parse_record(line) is None


@given(st.binary(max_size=200))
def test_no_line_breaks_the_reader(line):
    parse_record(b"*stopped," + line)
    parse_record(line)


class Gdb:
    """A gdb of two pipes; ``answer`` maps a command, without its token, to the lines it is answered with."""

    def __init__(self, answer):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.changes = 0
        self.talk = MiConversation(os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0), self._changed)
        self._thread = threading.Thread(target=self._serve, args=(theirs_in, theirs_out, answer), daemon=True)
        self._thread.start()

    def _changed(self):
        self.changes += 1

    def _serve(self, theirs_in, theirs_out, answer):
        with os.fdopen(theirs_in, "rb", 0) as asked, os.fdopen(theirs_out, "wb", 0) as said:
            for line in asked:
                text = line.decode().rstrip()
                token = text[: len(text) - len(text.lstrip("0123456789"))]
                lines = answer(text[len(token) :])
                if lines is None:
                    return
                said.write("".join(f"{each.replace('TOKEN', token)}\n" for each in lines).encode())


def test_events_between_command_and_answer_are_kept_in_order():
    # GIVEN a gdb that tells of two stops, and prints, before it answers
    gdb = Gdb(lambda _: [HIT % (3, 3), '~"text\\n"', "(gdb) ", HIT % (4, 4), 'TOKEN^done,value="7"'])
    # WHEN it is asked THEN the answer is its own, and the stops are there once
    assert gdb.talk.ask("-data-evaluate-expression 7") == {"value": "7"}
    assert [event.thread for event in gdb.talk.events()] == ["3", "4"]
    assert gdb.talk.events() == []
    assert list(gdb.talk.said) == ['~"text\\n"']
    assert gdb.changes >= 1


def test_another_commands_answer_is_not_taken():
    gdb = Gdb(lambda _: ['999^done,value="other"', 'TOKEN^done,value="own"'])
    assert gdb.talk.ask("-x") == {"value": "own"}


def test_a_refusal_carries_gdbs_words():
    gdb = Gdb(lambda _: ['TOKEN^error,msg="ptrace: Operation not permitted."'])
    with pytest.raises(MiError, match="ptrace: Operation not permitted"):
        gdb.talk.ask("-exec-run")


def test_a_gdb_that_ends_is_told_from_one_that_is_slow():
    gone, slow = Gdb(lambda _: None), Gdb(lambda _: [])
    with pytest.raises(MiError, match="ended"):
        gone.talk.ask("-x")
    assert gone.talk.ended
    with pytest.raises(MiError, match="time"):
        slow.talk.ask("-x", 0.05)


def test_a_console_command_is_quoted():
    asked = []
    gdb = Gdb(lambda text: asked.append(text) or ["TOKEN^done"])
    gdb.talk.console('set args "a b" \\c')
    assert asked == ['-interpreter-exec console "set args \\"a b\\" \\\\c"']


def test_a_command_is_one_line():
    gdb = Gdb(lambda _: ["TOKEN^done"])
    with pytest.raises(MiError, match="one line"):
        gdb.talk.ask("-x\n-exec-run")
