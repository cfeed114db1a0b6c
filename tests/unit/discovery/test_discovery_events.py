"""The kernel's messages on processes: those that count, and everything else that may come."""

from __future__ import annotations

import random
import struct

import pytest

from collector.discovery.events import COREDUMP, EXEC, EXIT, parse


def message(what: int, thread: int, pid: int, status: int = 0, index: int = 1) -> bytes:
    body = struct.pack("=IIQ", what, 0, 5_500_000_000) + struct.pack("=6I", thread, pid, status, 17, 1, 1)
    head = struct.pack("=IIIIHH", index, 1, 0, 0, len(body), 0)
    return struct.pack("=IHHII", 16 + len(head) + len(body), 3, 0, 0, 0) + head + body


def test_an_end_says_how() -> None:
    by_code, by_signal, with_core = (parse(message(EXIT, 9, 9, status)) for status in (0x300, 9, 0x8B))
    assert by_code is not None
    assert by_signal is not None
    assert with_core is not None
    assert (by_code.code, by_code.signal, by_code.dumped, by_code.mono) == (3, None, False, 5.5)
    assert (by_signal.code, by_signal.signal, by_signal.dumped) == (None, 9, False)
    assert (with_core.code, with_core.signal, with_core.dumped) == (None, 11, True)


def test_a_threads_end_is_not_its_processs() -> None:
    one = parse(message(EXIT, 10, 9, 0x8B))
    assert one is not None
    assert (one.pid, one.whole, one.dumped) == (9, False, True)


def test_executions_and_dumps_have_no_status() -> None:
    for kind in (EXEC, COREDUMP):
        one = parse(message(kind, 9, 9, 77))
        assert one is not None
        assert (one.kind, one.status) == (kind, 0)


@pytest.mark.parametrize("what", [0, 1, 4, 0x40, 0x80, 0x100, 0x200, 0xFFFFFFFF])
def test_other_kinds_are_none(what: int) -> None:
    assert parse(message(what, 9, 9)) is None


def test_cut_and_foreign_messages() -> None:
    whole = message(EXIT, 9, 9, 11)
    assert [parse(whole[:size]) for size in range(60)] == [None] * 60
    assert parse(message(EXIT, 9, 9, 11, index=2)) is None
    dice = random.Random(1)
    for _ in range(2000):
        parse(dice.randbytes(dice.randrange(120)))
