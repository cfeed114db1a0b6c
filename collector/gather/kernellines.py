"""The kernel's lines that concern one server: its own, what follows them, and the machine's troubles.

What other programs did is neither evidence nor anybody's business who gets the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from analyzers.logs.kernel import parse_kernel_body
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


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in _NUMBER.findall(text))
