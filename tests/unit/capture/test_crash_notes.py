"""Notes: split and put together without a byte lost; hostile sizes end the reading."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.capture.crash import notes


@given(st.lists(st.tuples(st.sampled_from([b"CORE", b"LINUX", b""]), st.integers(0, 2**32 - 1), st.binary())))
def test_parsing_undoes_building(rows: list[tuple[bytes, int, bytes]]) -> None:
    block = b"".join(notes.build(kind, body, owner) for owner, kind, body in rows)
    found = notes.parse(block)
    assert [(note.owner, note.type, note.body) for note in found] == rows
    assert b"".join(note.packed() for note in found) == block


@given(st.binary(max_size=2000))
def test_any_bytes_end_in_a_list(block: bytes) -> None:
    found = notes.parse(block)
    notes.threads(found)
    notes.auxv(notes.body_of(found, notes.AUXV))
    notes.fault(notes.body_of(found, notes.SIGINFO))


def test_a_note_that_promises_more_than_there_is_ends_the_reading() -> None:
    block = (
        notes.prstatus(1, bytes(216)) + struct.pack("<III", 5, 0xFFFFFFF0, 1) + b"CORE\0\0\0\0" + bytes(64)
    )
    assert len(notes.parse(block)) == 1


def test_a_bomb_of_empty_notes_is_cut() -> None:
    block = struct.pack("<III", 0, 0, 1) * 5000
    assert len(notes.parse(block, limit=1000)) == 1000


def test_threads_keep_their_order_and_registers() -> None:
    registers = tuple(range(27))
    found = notes.threads(notes.parse(notes.prstatus(9, registers, signal=6) + notes.prstatus(4, registers)))
    assert [(thread.tid, thread.signal) for thread in found] == [(9, 6), (4, 0)]
    assert (found[0].sp, found[0].ip) == (19, 16)


def test_registers_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="216"):
        notes.prstatus(1, b"short")
