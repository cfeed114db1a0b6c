"""The kernel's lines that concern one server: its own, what follows them, and the machine's troubles.

What other programs did is neither evidence nor anybody's business who gets the bundle.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

from analyzers.logs.entries import export_entries
from analyzers.logs.kernel import parse_kernel_body
from collector.gather.journal import ENTRY_START
from collector.sources.kernel import KernelLine

FOLLOWING = 0.05  # seconds; the registers and code bytes of a fault come within a millisecond
# Memory, GPU, hardware, disk and sleep, in words that no fact is made of but a person reads.
_MACHINE = re.compile(
    r"\boom[-_ ]|out of memory|page allocation failure|memory cgroup|\bNVRM\b|\bXid\b|nvidia|amdgpu|amdkfd"
    r"|\bi915\b|\bxe \d|nouveau|\[drm|hardware error|\bmce:|lockup|I/O error|PM: |llama-blackbox",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d{3,10}(?![\w.])")  # shorter ones are counts and code bytes


def of_server_or_machine(lines: Iterable[KernelLine], tids: frozenset[int]) -> Iterator[KernelLine]:
    """Those of ``lines``, in their order, that name one of ``tids`` or no thread at all but the machine."""
    until = float("-inf")
    for line in lines:
        fact = parse_kernel_body(line.text)
        if fact is not None and fact.tid is not None and fact.tid not in tids:
            until = float("-inf")
            continue
        own = _numbers(line.text) & tids or (fact is not None and fact.tid is not None)
        if own:
            until = line.mono + FOLLOWING
        if own or fact is not None or _MACHINE.search(line.text) or line.mono <= until:
            yield line


def export_of_server_or_machine(data: bytes, tids: frozenset[int]) -> bytes:
    """The same of the journal's export format: whole entries, byte for byte, each ended by an empty line."""
    first, *more = data.strip(b"\n").split(ENTRY_START)
    rows = [(_line_of(piece), piece) for piece in (first, *(ENTRY_START[2:] + each for each in more))]
    kept = {id(line) for line in of_server_or_machine((line for line, _ in rows), tids)}
    return b"".join(piece + b"\n\n" for line, piece in rows if id(line) in kept)


def _line_of(piece: bytes) -> KernelLine:
    for entry in export_entries(io.BytesIO(piece + b"\n\n"), "journal"):
        return KernelLine((entry.number_of("__MONOTONIC_TIMESTAMP") or 0) / 1e6, entry.text("MESSAGE") or "")
    return KernelLine(0.0, "")


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in _NUMBER.findall(text))
