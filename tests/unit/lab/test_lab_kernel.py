"""Kernel lines: only those of our own threads, only newer ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.report import Gap
from collector.lab.faults.kernel import NO_LINE, kernel_lines, tid_in
from collector.sources.kernel import KernelLine, KernelRead

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


def reading(monkeypatch, read):
    monkeypatch.setattr("collector.lab.faults.kernel.read_kernel_lines", lambda since, **_: read)


def test_only_lines_of_our_threads(monkeypatch):
    # GIVEN a stranger's line and ours
    lines = (KernelLine(50.0, GPF), KernelLine(51.0, SEGV))
    reading(monkeypatch, KernelRead(lines))
    # WHEN they are looked through for our thread THEN one line is left
    found = kernel_lines(40.0, {3871})
    assert [line.mono for line in found.lines] == [51.0]
    assert found.note is None


def test_no_line_of_ours_says_so(monkeypatch):
    reading(monkeypatch, KernelRead((KernelLine(50.0, GPF),)))
    assert kernel_lines(40.0, {3871}).note == NO_LINE


def test_a_ring_that_may_not_be_read_is_a_note(monkeypatch):
    reading(monkeypatch, KernelRead(gaps=(Gap(what="kernel lines", why="kernel.dmesg_restrict = 1"),)))
    found = kernel_lines(0.0, {1})
    assert found.lines == ()
    assert found.note == "kernel.dmesg_restrict = 1"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_no_text_makes_it_fail(text):
    assert tid_in(text) is None or tid_in(text) >= 0
