"""Cores that hold registers and a page: calls, operands, filled pointers, and the queue's own page."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.core.calls import LONGEST_CALL, indirect_call, near_call_target
from analyzers.core.facts import pointer_evidence
from analyzers.core.notes import read_core
from analyzers.core.operand import memory_operand
from analyzers.core.phase import loop_state
from analyzers.core.queuepages import PAGE, queue_pages
from analyzers.core.startup import AT_RANDOM, AT_SYSINFO_EHDR
from elfcore import CoreBuilder, R, W, X, queue_memory

QUEUE, HTTP, LOOP, WAITER = 0x7F00_1000_0000, 41, 42, 43
CODE, STACK = 0x40_0000, 0x7FFF_0000_0000
FILL = 0xA5A5_A5A5_A5A5_A5A5


@pytest.mark.parametrize(
    "code", ["ff d0", "41 ff d3", "ff 50 18", "ff 14 c5 00 10 00 00", "ff 54 24 18", "ff 15 00 00 00 01"]
)
def test_calls_through_registers_and_memory_are_known(code: str) -> None:
    assert indirect_call(bytes.fromhex(code).rjust(LONGEST_CALL, b"\x90"))


@pytest.mark.parametrize(
    "code", ["ff e0", "ff 60 18", "ff d0 90", "48 8b 50 18", "ff 35 00 00 00 01", "90 90 90"]
)
def test_jumps_pushes_and_what_lies_before_a_call_are_none(code: str) -> None:
    assert not indirect_call(bytes.fromhex(code).rjust(LONGEST_CALL, b"\x90"))


def test_a_near_call_leads_somewhere() -> None:
    assert near_call_target(bytes.fromhex("e8 fb ff ff ff"), 0x1005) == 0x1000
    assert near_call_target(bytes.fromhex("e9 fb ff ff ff"), 0x1005) is None


# operands, as objdump shows them
@pytest.mark.parametrize(
    ("code", "operand"),
    [
        ("48 83 be 70 01 00 00 00", ("rsi", None, 1, 0x170)),  # cmpq $0x0,0x170(%rsi)
        ("8b 47 18", ("rdi", None, 1, 0x18)),  # mov 0x18(%rdi),%eax
        ("8b 30", ("rax", None, 1, 0)),  # mov (%rax),%esi
        ("4a 8b 4c e3 f8", ("rbx", "r12", 8, -8)),  # mov -0x8(%rbx,%r12,8),%rcx
        ("41 0f b6 04 24", ("r12", None, 1, 0)),  # movzbl (%r12),%eax
        ("f3 0f 6f 07", ("rdi", None, 1, 0)),  # movdqu (%rdi),%xmm0
        ("c5 fa 6f 47 10", ("rdi", None, 1, 0x10)),  # vmovdqu 0x10(%rdi),%xmm0
        ("c4 c1 7a 6f 07", ("r15", None, 1, 0)),  # vmovdqu (%r15),%xmm0
        ("8b 04 cd 10 00 00 00", (None, "rcx", 8, 0x10)),  # mov 0x10(,%rcx,8),%eax
        ("ff 50 18", ("rax", None, 1, 0x18)),  # call *0x18(%rax)
    ],
)
def test_a_memory_operand_is_read(code: str, operand: tuple[object, ...]) -> None:
    found = memory_operand(bytes.fromhex(code))
    assert found is not None
    assert (found.base, found.index, found.scale, found.displacement) == operand


@pytest.mark.parametrize(
    "code",
    [
        "48 8d 47 18",  # lea: no access
        "89 c5",  # registers alone
        "55",  # push
        "a4",  # movsb: two addresses
        "48 8b 05 00 10 00 00",  # relative to the instruction
        "64 48 8b 04 25 28 00 00 00",  # thread-local
        "0f 1f 44 00 00",  # nop with an operand
        "e8 00 00 00 00",
        "62 f1 7c 48 10 07",  # EVEX
        "48 83",  # cut
        "",
    ],
)
def test_what_has_no_certain_operand_gives_none(code: str) -> None:
    assert memory_operand(bytes.fromhex(code)) is None


@given(st.binary(max_size=15))
def test_any_bytes_are_decoded_without_an_error(code: bytes) -> None:
    found = memory_operand(code)
    assert found is None or 0 <= found.address({"rax": 1 << 63}) < 1 << 64


def started_with(variables: dict[str, str]) -> tuple[bytes, dict[int, int]]:
    """A stack that begins as the kernel makes it, at STACK, and the auxiliary vector that points into it."""
    texts, pointers, at = b"", [], STACK + 2048
    for name, value in variables.items():
        pointers.append(at + len(texts))
        texts += f"{name}={value}".encode() + b"\0"
    words = [0, 0, *pointers, 0, AT_SYSINFO_EHDR, 0x7FFF_FFFF_0000, 0, 0]
    data = struct.pack(f"<{len(words)}Q", *words).ljust(2048, b"\0") + texts.ljust(2048, b"\0")
    return data, {AT_SYSINFO_EHDR: 0x7FFF_FFFF_0000, AT_RANDOM: STACK + 4000}


def faulting(
    tmp_path: Path, code: str, *, fault: int | None, perturb: dict[str, str] | None = None, **registers: int
) -> list[str]:
    """``way`` of the pointer evidence of a core that died at ``code``; no ``fault``: the kernel knew none."""
    built = CoreBuilder(si_code=1 if fault is not None else 0x80, fault=fault or 0).thread(
        HTTP, rip=CODE, **registers
    )
    built.load(CODE, bytes.fromhex(code).ljust(64, b"\x90"), R | X)
    if perturb is not None:
        data, built.auxv = started_with(perturb)
        built.load(STACK, data, R | W)
    core = read_core(built.write(tmp_path / "core"))
    return [str(item.data["way"]) for item in pointer_evidence(core, "core", lambda: "E1")]


MOVE = "8b 47 18"  # mov 0x18(%rdi),%eax


@pytest.mark.parametrize(
    ("perturb", "way"),
    [
        ({"MALLOC_PERTURB_": "165"}, "freed-fill"),
        ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165"}, "freed-fill"),
        ({"MALLOC_PERTURB_": "90"}, "fresh-fill"),  # the look-alike: memory handed out, never freed
        ({"MALLOC_PERTURB_": "17"}, "repeated-byte"),  # filled by somebody else
        ({"MALLOC_PERTURB_": "0"}, "repeated-byte"),
        ({"OTHER": "165"}, "repeated-byte"),
        (None, "repeated-byte"),
    ],
)
def test_a_filled_pointer_is_freed_memory_only_where_the_process_fills_it_so(
    tmp_path: Path, perturb: dict[str, str] | None, way: str
) -> None:
    assert faulting(tmp_path, MOVE, fault=None, perturb=perturb, rdi=FILL) == [way]


def test_an_operand_that_does_not_explain_the_fault_says_nothing(tmp_path: Path) -> None:
    # GIVEN the same filled register, and a fault that the kernel saw elsewhere
    assert faulting(tmp_path, MOVE, fault=0x1234, perturb={"MALLOC_PERTURB_": "165"}, rdi=FILL) == []
    # AND the instruction does not follow the filled register at all
    assert faulting(tmp_path, "8b 06", fault=8, perturb={"MALLOC_PERTURB_": "165"}, rdi=FILL, rsi=8) == [
        "unmapped"
    ]


def test_a_pointer_into_a_mapping_says_nothing(tmp_path: Path) -> None:
    assert faulting(tmp_path, MOVE, fault=CODE + 0x18, rdi=CODE) == []


# the queue's own page


def one_page(tmp_path: Path, queue: bytes, *, map_known: bool = True) -> CoreBuilder:
    """A core with the first 1,024 bytes of the queue; the maps of its deques were not dumped."""
    made = CoreBuilder().thread(HTTP, rip=CODE).waiting(LOOP, QUEUE + 296 + 40)
    made.load(QUEUE, queue[:1024], R | W)
    return made.load(QUEUE + 1024, b"", R | W, size=8192) if map_known else made


@pytest.mark.parametrize(("sleeping", "phase"), [(1, "asleep"), (0, "unknown")])
def test_the_queues_page_alone_gives_its_flags(tmp_path: Path, sleeping: int, phase: str) -> None:
    made = one_page(tmp_path, queue_memory(QUEUE, sleeping=sleeping))
    fact = loop_state(read_core(made.write(tmp_path / "core")), ())
    assert fact is not None
    assert (fact.sleeping, fact.owner, fact.time_last_task_ms) == (bool(sleeping), 0, 4_646_602)
    assert fact.phase in (phase, "awake")


def test_maps_that_stand_nowhere_in_the_process_make_no_queue(tmp_path: Path) -> None:
    # GIVEN the look-alike: the same page, whose pointers lead to no memory that the process had
    made = one_page(tmp_path, queue_memory(QUEUE, sleeping=1), map_known=False)
    assert loop_state(read_core(made.write(tmp_path / "core")), ()) is None


def test_a_dumped_map_that_disagrees_makes_no_queue(tmp_path: Path) -> None:
    whole = bytearray(queue_memory(QUEUE, sleeping=1))
    struct.pack_into("<Q", whole, 1024 + 24, 0xDEAD)
    made = CoreBuilder().thread(HTTP).waiting(LOOP, QUEUE + 296 + 40).load(QUEUE, bytes(whole), R | W)
    assert loop_state(read_core(made.write(tmp_path / "core")), ()) is None


@pytest.mark.parametrize(("lock", "owner"), [(0, 0), (1, LOOP), (1, HTTP)])
def test_who_holds_the_queues_mutex_is_told(tmp_path: Path, lock: int, owner: int) -> None:
    made = one_page(tmp_path, queue_memory(QUEUE, sleeping=1, lock=lock, owner=owner))
    fact = loop_state(read_core(made.write(tmp_path / "core")), ())
    assert fact is not None
    assert fact.owner == owner


@pytest.mark.parametrize("word", [176, 256, 216 + 40, 296 + 40, 352 + 44])
def test_the_pages_to_dump_hold_the_queue_for_every_word_a_thread_may_wait_on(word: int) -> None:
    for start in (0x7F00_0000_0010, 0x7F00_0000_0FF0):
        pages = queue_pages([(202, start + word), (0, start), (232, 5)])
        assert all((start + at) & -PAGE in pages for at in (0, 503))
        assert len(pages) <= 2


def test_no_futex_no_pages() -> None:
    assert queue_pages([(0, 0x7F00_0000_0010), (202, 3)]) == []


def test_a_queue_on_two_pages_that_are_segments_of_their_own_is_one(tmp_path: Path) -> None:
    whole = queue_memory(QUEUE, sleeping=1)
    made = CoreBuilder().thread(HTTP).waiting(LOOP, QUEUE + 296 + 40)
    made.load(QUEUE, whole[:192], R | W).load(QUEUE + 192, whole[192:], R | W)
    fact = loop_state(read_core(made.write(tmp_path / "core")), ())
    assert fact is not None
    assert fact.sleeping is True


def test_a_gap_between_two_segments_is_not_read_over(tmp_path: Path) -> None:
    whole = queue_memory(QUEUE, sleeping=1)
    made = CoreBuilder().thread(HTTP).waiting(LOOP, QUEUE + 296 + 40)
    made.load(QUEUE, whole[:192], R | W).load(QUEUE + 200, whole[200:], R | W)
    assert loop_state(read_core(made.write(tmp_path / "core")), ()) is None
