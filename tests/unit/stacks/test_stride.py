from __future__ import annotations

import hashlib
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stackcores import CODE, STACK, TID, tool, write_core

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.model import Core, Segment
from analyzers.core.notes import read_core
from analyzers.stacks import stride, view

PC, OTHER, CALLER = CODE + 0xEBE, CODE + 0xF00, CODE + 0x88F


def recursion(repeats: int, *, gap: int = 16, head: int = 10, tail: int = 20) -> list[int]:
    """Stack words: a head, then the return address every ``gap`` words, then the caller and a tail."""
    words = [1] * head
    for _ in range(repeats):
        words += [7] * (gap - 1) + [PC]
    return words + [3] * 4 + [CALLER] + [5] * tail


def test_a_constant_stride_is_found_with_its_end(tmp_path: Path) -> None:
    words = recursion(5000)
    found = stride.find_recursion(write_core(tmp_path, words))
    assert found is not None
    assert (found.address, found.repeats, found.stride) == (PC, 5000, 16 * 8)
    assert found.last == STACK + 8 * (len(words) - 1 - words[::-1].index(PC))


def test_stale_copies_beyond_the_end_do_not_move_it(tmp_path: Path) -> None:
    # GIVEN an old return address left in a buffer of a frame near the thread's beginning
    words = recursion(500)
    end = len(words) - 26
    words += [5] * 5000 + [PC] + [5] * 10
    found = stride.find_recursion(write_core(tmp_path, words))
    assert found is not None
    assert (found.repeats, found.last) == (500, STACK + 8 * end)


def test_two_call_sites_of_one_function_are_one_recursion(tmp_path: Path) -> None:
    # GIVEN a function that calls itself from two places, in no order
    words = recursion(3000)
    for at in random.Random(1).sample([i for i, w in enumerate(words) if w == PC], 600):
        words[at] = OTHER
    found = stride.find_recursion(write_core(tmp_path, words))
    assert found is not None
    assert found.address == PC
    assert found.last >= STACK + 8 * (len(words) - 26 - 16 * stride.SKIPPED_STRIDES)


def test_frames_of_varying_size_are_followed(tmp_path: Path) -> None:
    chooser = random.Random(2)
    words = [1] * 5
    for _ in range(400):
        words += [7] * chooser.randrange(3, 40) + [PC]
    last = len(words) - 1
    found = stride.find_recursion(write_core(tmp_path, [*words, CALLER, *[5] * 20]))
    assert found is not None
    assert (found.repeats, found.stride, found.last) == (400, 0, STACK + 8 * last)


def by_gdb(core: Core, *, guard: bool = False) -> Core:
    """The same core as gdb saves it: no segment for what is mapped from files, one for the guard page."""
    segments = [segment for segment in core.segments if not segment.executable]
    below = Segment(STACK - 4096, 4096, 0, 4096, False)
    return replace(core, segments=tuple([below, *segments] if guard else segments))


def test_a_core_that_gdb_saved_has_no_code_in_it_and_a_guard_page(tmp_path: Path) -> None:
    # GIVEN a thread that ran over its stack and stands in the mapped code that gdb left out
    core = write_core(tmp_path, recursion(200), rsp=STACK - 32)
    found = stride.find_recursion(by_gdb(core, guard=True))
    assert found is not None
    assert (found.address, found.repeats) == (PC, 200)


def test_mapped_data_that_no_thread_stands_in_is_no_code(tmp_path: Path) -> None:
    # GIVEN a repeated word that points into a mapped file, and all threads elsewhere
    core = by_gdb(write_core(tmp_path, recursion(200)))
    elsewhere = replace(core.threads[0], registers={**core.threads[0].registers, "rip": 0x10})
    core = replace(core, threads=(elsewhere,))
    assert stride.find_recursion(core) is None
    # WHEN a tool has found a frame there THEN it is code after all
    found = stride.find_recursion(core, run=[CODE + 0x20])
    assert found is not None
    assert found.repeats == 200


@pytest.mark.parametrize("repeats", [0, 3, stride.MIN_REPEATS - 1])
def test_an_ordinary_stack_is_no_recursion(tmp_path: Path, repeats: int) -> None:
    assert stride.find_recursion(write_core(tmp_path, recursion(repeats))) is None


def test_repeated_data_that_is_no_code_is_no_recursion(tmp_path: Path) -> None:
    assert stride.find_recursion(write_core(tmp_path, [0xA5A5A5A5A5A5A5A5] * 4000)) is None


def test_a_stack_pointer_in_the_guard_page_still_finds_the_stack(tmp_path: Path) -> None:
    # GIVEN a stack of a page or more that was run over at its low end
    core = write_core(tmp_path, recursion(200), rsp=STACK - 4096)
    found = stride.find_recursion(core)
    assert found is not None
    assert found.repeats == 200


def test_the_saved_frame_pointer_is_taken_when_it_points_up_the_stack(tmp_path: Path) -> None:
    words = recursion(100)
    last = len(words) - 26
    words[last - 1] = STACK + 8 * (last + 3)
    found = stride.find_recursion(write_core(tmp_path, words))
    assert found is not None
    assert found.frame_pointer == STACK + 8 * (last + 3)


@given(st.integers(min_value=40, max_value=400), st.integers(min_value=2, max_value=60))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_stride_and_length_is_counted_exactly(repeats: int, gap: int) -> None:
    words = recursion(repeats, gap=gap)
    positions = [8 * index for index, word in enumerate(words) if word == PC]
    chain, found = stride._chain(positions)
    assert (len(chain), found) == (repeats, gap * 8)


def test_the_view_moves_one_thread_and_leaves_the_core_alone(tmp_path: Path) -> None:
    # GIVEN a core of two threads
    core = write_core(tmp_path, recursion(2000), threads=2)
    before = hashlib.sha256(core.path.read_bytes()).digest()
    # WHEN a view from the middle of its stack is made
    middle = STACK + 8 * 9000
    fd = view.reduced_core(core, {"rip": PC, "rsp": middle}, middle)
    assert fd is not None
    copy = tmp_path / "view"
    copy.write_bytes(os.pread(fd, 1 << 24, 0))
    os.close(fd)
    # THEN it is a core of that thread with the moved registers and the stack from there on
    seen = read_core(copy)
    assert [thread.tid for thread in seen.threads] == [TID]
    assert (seen.threads[0].registers["rip"], seen.threads[0].registers["rsp"]) == (PC, middle)
    assert seen.read(middle, 800) == core.read(middle, 800) != b""
    assert copy.stat().st_size < core.file_size
    assert hashlib.sha256(core.path.read_bytes()).digest() == before


def test_the_view_of_a_core_that_gdb_saved_keeps_the_linkers_list(tmp_path: Path) -> None:
    # GIVEN a heap of 6 MB, an arena of 3 MB and a stack of 8 MB, all writable
    def load(address: int, size: int) -> view._Header:
        return view._Header(view.PT_LOAD, 6, 0, address, 0, size, size, 4096)

    headers = [load(0x5555 << 32, 6 << 20), load(0x7F00 << 32, 3 << 20), load(0x7FFF << 32, 8 << 20)]
    core = write_core(tmp_path, [0] * 8)
    # WHEN / THEN the heap's beginning and what is not large are kept; of a kernel's core nothing more is
    assert view._limits(by_gdb(core), headers) == {
        0x5555 << 32: view.LIST_SEGMENT,
        0x7F00 << 32: view.LIST_SEGMENT,
    }
    assert view._limits(core, headers) == {}


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"x" * 500, b"\x7fELF\x02\x01" + b"\xff" * 500])
def test_a_view_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    core = write_core(tmp_path, [0] * 8)
    core.path.write_bytes(content)
    assert view.reduced_core(core, {"rip": 1, "rsp": STACK}, STACK) is None


def test_a_core_that_vanished_is_no_recursion(tmp_path: Path) -> None:
    core = write_core(tmp_path, recursion(100))
    core.path.unlink()
    assert stride.find_recursion(core) is None
    assert stride.fold(core, None, None) is None


def test_head_fold_and_tail_make_one_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a recursion, eu-stack's first frames of it, and a tool that can read the tail
    rows = (
        f"TID {TID}:",
        f"#0  {PC:#x} grow - s",
        "#1  0x8 server_routes::handle_x - s",
        "#2  0x9 __clone3 - c",
    )
    tool(tmp_path, "eu-stack", "\n".join(f'echo "{row}"' for row in rows))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    head = (
        Frame(function="malloc", ip=1),
        Frame(function="grow", ip=2),
        *[Frame(function="grow", ip=PC)] * 60,
    )
    # WHEN it is folded
    folded = stride.fold(write_core(tmp_path, recursion(900)), None, StackFact(tid=TID, frames=head))
    # THEN the handler at the far end is there and the repeats are counted
    assert folded is not None
    shown = [(frame.function, frame.repeat) for frame in folded.frames]
    assert shown == [
        ("malloc", 1),
        ("grow", 1),
        ("grow", 900),
        ("server_routes::handle_x", 1),
        ("__clone3", 1),
    ]
    assert (folded.rung, folded.crashed, folded.complete) == ("stride", True, True)


def test_a_mutual_recursion_keeps_one_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "eu-stack", f'printf "TID {TID}:\\n#0  {PC:#x} even - s\\n#1  0x9 main - s\\n"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    words = recursion(300)
    pair = [Frame(function="even", ip=PC), Frame(function="odd", ip=OTHER)]
    folded = stride.fold(write_core(tmp_path, words), None, StackFact(tid=TID, frames=tuple(pair * 30)))
    assert folded is not None
    assert [(f.function, f.repeat) for f in folded.frames] == [("even", 300), ("odd", 300), ("main", 1)]
