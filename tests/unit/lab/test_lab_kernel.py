"""Kernel lines: only those of our own threads, only newer ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.lab.faults.kernel import kernel_lines, parse_record, tid_in

SEGV = "python[3871]: segfault at 7f ip 7f sp 7f error 4 in x.so[1,2+3] likely on CPU 1 (core 1, socket 0)"
GPF = "traps: python[21201] general protection fault ip:7f sp:7f error:0 in x.so[1,2+3]"


@pytest.mark.parametrize(
    ("text", "tid"),
    [
        (SEGV, 3871),
        (GPF, 21201),
        ("traps: llama-server[9] trap invalid opcode ip:1 sp:2 error:0 in a.so[1,2+3]", 9),
        ("Out of memory: Killed process 12 (x)", None),
        ("eth0: link up", None),
    ],
)
def test_the_thread_id_of_a_fault_line(text, tid):
    assert tid_in(text) == tid


def test_a_record_of_the_ring():
    line = parse_record(b"4,771,1760053618,-;" + GPF.encode() + b"\n SUBSYSTEM=x\n")
    assert line is not None
    assert line.mono == pytest.approx(1760.053618)
    assert line.as_dmesg() == f"[ 1760.053618] {GPF}"


class Ring:
    """Stands in for the device: one record for each read, then nothing."""

    def __init__(self, monkeypatch, records):
        waiting = list(records)
        monkeypatch.setattr("collector.lab.faults.kernel.os.read", lambda *_: self.next(waiting))

    @staticmethod
    def next(waiting):
        if not waiting:
            raise BlockingIOError
        record = waiting.pop(0)
        if isinstance(record, Exception):
            raise record
        return record


def test_only_lines_of_our_threads_since_the_start(tmp_path, monkeypatch):
    # GIVEN a ring with an old line, a stranger's, a gap, and ours
    ring = tmp_path / "kmsg"
    ring.touch()
    old = b"4,1,1000000,-;" + SEGV.encode()
    stranger = b"4,2,50000000,-;" + GPF.encode()
    ours = b"4,3,51000000,-;" + SEGV.encode()
    Ring(monkeypatch, [old, stranger, BrokenPipeError(), b"garbage", ours])
    # WHEN it is read for our thread THEN one line is left
    found = kernel_lines(40.0, {3871}, ring)
    assert [line.mono for line in found.lines] == [51.0]
    assert found.note is None


def test_a_ring_that_may_not_be_read_is_a_note(tmp_path):
    found = kernel_lines(0.0, {1}, tmp_path / "missing")
    assert found.lines == ()
    assert "dmesg" in (found.note or "")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_no_record_makes_it_fail(raw):
    line = parse_record(raw)
    assert line is None or line.mono >= 0
    tid_in(raw.decode("utf-8", "replace"))
