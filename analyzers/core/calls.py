"""Whether a call instruction stands before an address: what makes a stack word a possible return address.

Encodings (Intel 64 manual, CALL): ``E8 rel32`` and ``FF /2`` with every addressing form.
"""

from __future__ import annotations

NEAR_CALL, INDIRECT = 0xE8, 0xFF
NEAR_CALL_BYTES = 5
LONGEST_CALL = 7  # FF /2 with SIB and a 32-bit displacement; a prefix stands before and need not be looked at
NEEDS_SIB, NO_BASE, RIP_RELATIVE = 4, 5, 5


def near_call_target(code: bytes, address: int) -> int | None:
    """Where the ``call rel32`` that ends at ``address`` leads; None when none ends there.

    ``code`` are the bytes before ``address``, at least 5 of them.
    """
    if len(code) < NEAR_CALL_BYTES or code[-NEAR_CALL_BYTES] != NEAR_CALL:
        return None
    return address + int.from_bytes(code[-4:], "little", signed=True) & (1 << 64) - 1


def indirect_call(code: bytes) -> bool:
    """A ``call`` through a register or memory ends where ``code`` ends."""
    lengths = range(2, min(LONGEST_CALL, len(code)) + 1)
    return any(code[-n] == INDIRECT and _length(code[-n + 1 :]) == n for n in lengths)


def _length(rest: bytes) -> int:
    """Length of the FF /2 instruction whose bytes after FF are ``rest``; 0 when it is another one."""
    modrm = rest[0]
    mode, operation, register = modrm >> 6, modrm >> 3 & 7, modrm & 7
    if operation != 2:
        return 0
    if mode == 3:
        return 2
    sib = 1 if register == NEEDS_SIB else 0
    if sib and len(rest) < 2:
        return 0
    no_base = mode == 0 and (rest[1] & 7 == NO_BASE if sib else register == RIP_RELATIVE)
    displacement = 4 if mode == 2 or no_base else mode
    return 2 + sib + displacement
