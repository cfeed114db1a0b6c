"""What the pointer that the faulting instruction followed says about where it came from.

glibc fills memory with a byte when it is freed, and with the inverted byte when it is handed out, where the
process was started so (MALLOC_PERTURB_, glibc.malloc.perturb; malloc.c, free_perturb and alloc_perturb).
A pointer of such bytes was read from freed memory, or from memory nobody had written yet: two claims.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.core.model import Core
from analyzers.core.operand import CANONICAL, LONGEST, Operand, memory_operand
from analyzers.core.startup import read_startup
from analyzers.core.text import Text

FREED, FRESH, FILLED = "freed-fill", "fresh-fill", "repeated-byte"
UNMAPPED, NON_CANONICAL = "unmapped", "non-canonical"
ACCESS_BYTES = 64  # the widest access: the kernel may name any byte of it
PERTURB, TUNABLES = "MALLOC_PERTURB_", "GLIBC_TUNABLES"
TUNABLE = re.compile(r"(?:^|:)glibc\.malloc\.perturb=(\d{1,10})(?::|$)")


@dataclass(frozen=True)
class Provenance:
    """``way`` is one of the constants above; ``fill`` the byte, where one was seen."""

    register: str
    value: int
    way: str
    fill: int | None = None
    perturb: int | None = None

    @property
    def text(self) -> str:
        """One sentence that claims only what was seen."""
        which = f"{self.register} = {self.value:#x}, which the faulting instruction follows,"
        return f"{which} {_SAID[self.way].format(fill=self.fill or 0, perturb=self.perturb)}"


_SAID = {
    FREED: "holds the byte {fill:#04x} that this process's allocator writes into freed memory "
    "(malloc.perturb {perturb}): it was read from memory that had been freed",
    FRESH: "holds the byte {fill:#04x} that this process's allocator writes into memory it hands out "
    "(malloc.perturb {perturb}): it was read from memory that nobody had written yet",
    FILLED: "is one byte {fill:#04x} repeated, as filled memory is; what fills it here is not known",
    UNMAPPED: "points into no mapping of the process",
    NON_CANONICAL: "is no address that a process can have",
}


def provenance(core: Core, text: Text) -> Provenance | None:
    """Where the followed pointer came from; None when the instruction, its operand or the fault do not agree.

    The operand must explain the fault: the address the kernel named, or one that cannot exist where it
    named none.
    """
    thread = core.crashed
    if thread is None or core.signal not in (7, 11):
        return None
    operand = memory_operand(text.read(thread.registers.get("rip", 0), LONGEST))
    if operand is None or not _explains(core, operand):
        return None
    for register in filter(None, (operand.base, operand.index)):
        filled = _filled(core, register, thread.registers.get(register, 0))
        if filled is not None:
            return filled
    return _plain(core, operand)


def _explains(core: Core, operand: Operand) -> bool:
    thread = core.crashed
    address = operand.address(thread.registers) if thread else 0
    if core.fault_address is None:
        return CANONICAL <= address < (1 << 64) - CANONICAL
    return 0 <= core.fault_address - address < ACCESS_BYTES


def _filled(core: Core, register: str, value: int) -> Provenance | None:
    fill = _fill_byte(value)
    if fill is None:
        return None
    perturb = _perturb(core)
    if perturb is not None and fill in (perturb, perturb ^ 0xFF):
        return Provenance(register, value, FREED if fill == perturb else FRESH, fill, perturb)
    whole = value == fill * 0x0101010101010101
    return Provenance(register, value, FILLED, fill) if whole else None


def _fill_byte(value: int) -> int | None:
    """The byte that the whole pointer, or its upper half, is made of; never 0 or 0xFF, which mean nothing."""
    upper = value >> 32
    byte = upper & 0xFF
    return byte if upper == byte * 0x01010101 and byte not in (0, 0xFF) else None


def _perturb(core: Core) -> int | None:
    """The fill byte for freed memory that the process was started with; None when it is not known or off."""
    values = read_startup(core, (), (PERTURB, TUNABLES)).values
    tuned = TUNABLE.search(values.get(TUNABLES, ""))
    text = tuned[1] if tuned else values.get(PERTURB, "")
    return int(text) & 0xFF or None if re.fullmatch(r"\d{1,10}", text) else None


def _plain(core: Core, operand: Operand) -> Provenance | None:
    thread = core.crashed
    if thread is None or operand.base is None:
        return None
    value = thread.registers.get(operand.base, 0)
    if CANONICAL <= value < (1 << 64) - CANONICAL:
        return Provenance(operand.base, value, NON_CANONICAL)
    mapped = any(row.address <= value < row.address + row.size for row in core.segments)
    return None if mapped or core.cut or core.limits else Provenance(operand.base, value, UNMAPPED)
