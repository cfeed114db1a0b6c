"""The memory operand of one x86-64 instruction: which registers the address was made of.

Only what is certain is decoded (Intel 64 manual, volume 2, chapter 2): legacy and REX prefixes, one- to
three-byte opcodes and VEX, ModRM, SIB, displacement. Stack and string instructions, segment bases, EVEX and
addresses relative to the instruction give nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REGISTERS = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
LONGEST = 15  # bytes of the longest instruction
PREFIXES = frozenset((0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26))
SEGMENT_BASES = frozenset((0x64, 0x65))
WORD = (1 << 64) - 1
CANONICAL = 1 << 47  # user addresses are below it
# One-byte opcodes with a ModRM byte whose memory operand is read or written (LEA, 8D, touches none).
ONE_BYTE = frozenset(
    (
        *(op for op in range(0x40) if op & 7 < 4),
        *(0x63, 0x69, 0x6B, *range(0x80, 0x8D), 0x8E, 0xC0, 0xC1, 0xC6, 0xC7),
        *(*range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF),
    )
)
# Two-byte opcodes without a ModRM byte, or that touch no memory (prefetch and the long nop).
TWO_BYTE_NOT = frozenset(
    (*range(5, 10), 0x0B, 0x0D, *range(0x18, 0x20), *range(0x30, 0x38), 0x77, *range(0x80, 0x90))
) | frozenset((0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA, *range(0xC8, 0xD0)))


@dataclass(frozen=True)
class Operand:
    """``base`` and ``index`` are register names, None where there is none; ``displacement`` is signed."""

    base: str | None
    index: str | None
    scale: int
    displacement: int

    def address(self, registers: Mapping[str, int]) -> int:
        """The address that the instruction used."""
        base = registers.get(self.base, 0) if self.base else 0
        index = registers.get(self.index, 0) if self.index else 0
        return base + index * self.scale + self.displacement & WORD


def memory_operand(code: bytes) -> Operand | None:
    """The operand of the instruction that ``code`` begins with; None for one without, or an unknown one."""
    try:
        return _decode(code)
    except IndexError:  # cut
        return None


def _decode(code: bytes) -> Operand | None:
    at, rex = 0, 0
    while code[at] in PREFIXES:
        at += 1
    if code[at] in SEGMENT_BASES or (at and 0x67 in code[:at]):
        return None
    if code[at] & 0xF0 == 0x40:
        rex, at = code[at], at + 1
    modrm, extension = _modrm_at(code, at, rex)
    return _operand(code, modrm, extension) if modrm else None


def _modrm_at(code: bytes, at: int, rex: int) -> tuple[int, int]:
    """(place of the ModRM byte or 0, REX bits X and B)."""
    op = code[at]
    if op in (0xC4, 0xC5):
        long = op == 0xC4
        return at + (4 if long else 3), (~code[at + 1] >> 5 & 3 if long else 0)
    if op != 0x0F:
        return (at + 1 if op in ONE_BYTE else 0), rex & 3
    if code[at + 1] in (0x38, 0x3A):
        return at + 3, rex & 3
    return (0 if code[at + 1] in TWO_BYTE_NOT else at + 2), rex & 3


def _operand(code: bytes, at: int, extension: int) -> Operand | None:
    mode, low = code[at] >> 6, code[at] & 7
    if mode == 3 or (mode == 0 and low == 5):
        return None
    base: str | None = REGISTERS[low | (extension & 1) << 3]
    index, scale, behind = None, 1, at + 1
    if low == 4:
        sib, behind = code[at + 1], at + 2
        number = sib >> 3 & 7 | (extension & 2) << 2
        index, scale = (None if number == 4 else REGISTERS[number]), 1 << (sib >> 6)
        no_base = mode == 0 and sib & 7 == 5
        base, mode = (None, 2) if no_base else (REGISTERS[sib & 7 | (extension & 1) << 3], mode)
    size = (0, 1, 4)[mode]
    field = code[behind : behind + size]
    if len(field) < size:
        return None
    return Operand(base, index, scale, int.from_bytes(field, "little", signed=True))
