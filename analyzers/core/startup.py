"""What the dead process was started with, from the top of its main thread's stack.

The kernel writes there: argc, the pointers of argv, zero, those of the environment, zero, then the auxiliary
vector, of which NT_AUXV is a copy (System V ABI for x86-64, 3.4.1). So the vector is looked for, and what
stands before it is read backwards. Both lists may hold secrets: only what is asked for by name leaves here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analyzers.core.memory import WORD, Memory
from analyzers.core.model import Core
from analyzers.errors import UserError

AT_RANDOM, AT_EXECFN, AT_SYSINFO_EHDR = 25, 31, 33
# The kernel allows a quarter of the stack limit for both lists; a service's environment has some hundred.
MAX_WORDS = 1 << 13
MAX_TEXT = 4096
ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"  # set by the router in its children, server-models.cpp


@dataclass(frozen=True)
class Startup:
    """``values``: the wanted options and variables that were set, the last of each option. ``program`` is the
    first word of the command line; None where the core does not hold that line, or holds it blanked."""

    values: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None

    def number(self, name: str) -> int | None:
        """The value as a port number; None when it is none."""
        text = self.values.get(name, "")
        number = int(text) if text.isdecimal() and text.isascii() and len(text) <= 5 else 0
        return number or None


def read_startup(core: Core, options: Sequence[str], variables: Sequence[str]) -> Startup:
    """The named ``options`` of the command line and ``variables`` of the environment; empty where the core
    does not hold them (a cut or redacted one)."""
    try:
        with Memory(core) as memory:
            arguments, environment = _lists(core, memory)
            words = [_text(memory, pointer) for pointer in arguments]
            found = _options(words, frozenset(options))
            found.update(_variables(memory, environment, frozenset(variables)))
    except UserError:
        return Startup()
    return Startup(found, words[0] if words and all(words) else None)


def _lists(core: Core, memory: Memory) -> tuple[Sequence[int], Sequence[int]]:
    """The pointers of argv and of the environment, in order."""
    at = _vector(core, memory)
    if at is None:
        return (), ()
    segment = memory.segment_at(at)
    start = max(segment.address if segment else at, at - MAX_WORDS * WORD)
    words = memory.words(start, at - start)
    if not words or words[-1] != 0:
        return (), ()
    end = len(words) - 1
    gap = _zero_before(words, end)
    first = _first_argument(words, gap)
    return (() if first is None else words[first:gap]), words[gap + 1 : end]


def _zero_before(words: Sequence[int], end: int) -> int:
    return next((at for at in range(end - 1, -1, -1) if words[at] == 0), -1)


def _first_argument(words: Sequence[int], end: int) -> int | None:
    """argc stands before argv and is how many words lie between."""
    return next((at + 1 for at in range(end - 1, -1, -1) if words[at] == end - at - 1), None)


def _vector(core: Core, memory: Memory) -> int | None:
    """Where the vector stands: below the strings that its own AT_RANDOM and AT_EXECFN point to."""
    above, first = core.auxv.get(AT_RANDOM), core.auxv.get(AT_SYSINFO_EHDR)
    segment = memory.segment_at(above) if above is not None else None
    if above is None or first is None or segment is None:
        return None
    start = max(segment.address, above - MAX_WORDS * WORD)
    at = memory.read(start, above - start).rfind(struct.pack("<QQ", AT_SYSINFO_EHDR, first))
    return start + at if at >= 0 and (start + at) % WORD == 0 else None


def _options(words: Sequence[str], wanted: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in wanted:
            found[name] = value if equals else words[at + 1] if at + 1 < len(words) else ""
    return found


def _variables(memory: Memory, pointers: Sequence[int], wanted: frozenset[str]) -> dict[str, str]:
    longest = max((len(name) for name in wanted), default=0)
    found: dict[str, str] = {}
    for pointer in pointers if wanted else ():
        name = memory.read(pointer, longest + 1).partition(b"=")[0].decode("utf-8", "replace")
        if name in wanted:
            found[name] = _text(memory, pointer).partition("=")[2]
    return found


def _text(memory: Memory, pointer: int) -> str:
    return memory.read(pointer, MAX_TEXT).split(b"\0", 1)[0].decode("utf-8", "replace")
