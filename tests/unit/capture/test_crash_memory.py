"""What of a memory is kept: bounded, disjoint, whatever the maps and registers claim."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.capture.crash import limits, memory
from collector.capture.crash.maps import Maps
from collector.capture.crash.notes import RSP, Thread
from collector.capture.crash.stream import EndedError, Stream

PAGE = 4096
BASE = 0x7F0000000000


def thread(tid: int, sp: int) -> Thread:
    registers = [0] * 27
    registers[RSP] = sp
    return Thread(tid, 0, tuple(registers))


def row(start: int, size: int, permissions: str = "rw-p", path: str = "") -> str:
    return f"{start:x}-{start + size:x} {permissions} 00000000 00:00 0 {path}\n"


def full(address: int, size: int) -> bytes:
    return b"\x5a" * size


def kept_of(text: str, *threads: Thread) -> memory.Kept:
    return memory.keep(full, Maps(text.encode()), threads, {})


def test_a_stack_is_kept_from_below_its_pointer_to_its_end() -> None:
    kept = kept_of(row(BASE, 8 << 20), thread(1, BASE + (8 << 20) - 5 * PAGE))
    assert [(s.address, s.size) for s in kept.segments] == [(BASE + (8 << 20) - 6 * PAGE, 6 * PAGE)]
    assert kept.stacks[0].whole


def test_a_pointer_below_its_mapping_has_overflowed_it() -> None:
    kept = kept_of(row(BASE, 2 << 20), thread(1, BASE - 700))
    assert kept.segments[0].address == BASE
    assert kept.stacks[0].whole


def test_both_ends_of_a_stack_without_end() -> None:
    kept = kept_of(row(BASE, 1 << 30), thread(1, BASE + PAGE))
    assert kept.bytes == limits.STACK_BYTES
    assert not kept.stacks[0].whole
    assert kept.segments[-1].address + kept.segments[-1].size == BASE + (1 << 30)


def test_any_number_of_threads_stays_within_the_bounds() -> None:
    size = 1 << 16
    threads = [thread(number, BASE + number * 2 * size) for number in range(5000)]
    kept = kept_of("".join(row(thread.sp, size) for thread in threads), *threads)
    assert sum(stack.whole for stack in kept.stacks) * size <= limits.STACKS_BYTES
    assert len(kept.stacks) == len(threads)
    assert kept.bytes <= limits.KEPT_BYTES
    assert any("left out" in note for note in kept.notes)


def test_arguments_and_environment_are_blanked() -> None:
    kept = memory.keep(
        full, Maps(row(BASE, 16 * PAGE).encode()), [thread(1, BASE)], {}, (BASE + 10, BASE + 5000)
    )
    data = kept.segments[0].data
    assert (data[9], data[10], data[4999], data[5000]) == (0x5A, 0, 0, 0x5A)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1 << 48), st.integers(0, 1 << 22)), max_size=12),
    st.lists(st.integers(0, (1 << 64) - 1), max_size=8),
)
def test_segments_never_overlap(rows: list[tuple[int, int]], pointers: list[int]) -> None:
    text = "".join(row(start & -PAGE, size & -PAGE) for start, size in rows)
    kept = kept_of(text, *(thread(number, sp) for number, sp in enumerate(pointers)))
    last = 0
    for segment in kept.segments:
        assert segment.address >= last
        last = segment.address + segment.size
    assert kept.bytes <= limits.KEPT_BYTES


@given(st.binary(max_size=3000))
def test_any_text_is_maps_of_some_kind(text: bytes) -> None:
    Maps(text).at(BASE)


def streamed(data: bytes) -> Stream:
    out, into = os.pipe()
    os.write(into, data)
    os.close(into)
    stream = Stream(out)
    try:
        stream.read_head(1.0)
    except EndedError:
        pass
    finally:
        os.close(out)
    return stream


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_stream_ends_in_an_answer(tail: bytes) -> None:
    assert streamed(tail).notes == b""
    stream = streamed(b"\x7fELF\x02\x01" + tail)
    assert len(stream.notes) <= len(tail)


def test_a_stack_that_could_be_read_in_part_is_not_whole() -> None:
    stack = row(BASE, 16 * PAGE)

    def first_half(address: int, size: int) -> bytes:
        return b"\x5a" * max(0, min(size, BASE + 8 * PAGE - address))

    kept = memory.keep(first_half, Maps(stack.encode()), [thread(1, BASE + PAGE)], {})
    assert kept.bytes > 0
    assert not kept.stacks[0].whole
    # AND one that another thread's stack brought along in pieces is
    kept = kept_of(stack, thread(1, BASE + 8 * PAGE), thread(2, BASE + PAGE))
    assert len(kept.segments) == 2
    assert [each.whole for each in kept.stacks] == [True, True]
