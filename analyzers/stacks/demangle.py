"""Mangled names of self-printed traces made readable: by c++filt where it is installed, else in part.

Without c++filt only plain nested names are read (``_ZN11llama_vocab4impl8tokenizeE…``), without their
parameters; a name with templates stays mangled. Both ways normalise to the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from analyzers.stacks import confine

TOOL = "c++filt"
SECONDS = 2.0
MEMORY_BYTES = 64 << 20
GIVEN_BYTES = confine.READ_SIZE - 1  # what fits into a pipe without waiting for the reader
NAME_BYTES = 4096

_MANGLED = re.compile(r"^_?_Z[\w.$@]+$")
_NESTED = re.compile(r"^_?_ZN?[rVKROL]*(?:St)?(?=\d)")
_LENGTH = re.compile(r"L?(\d{1,4})")
_SPECIAL = {"C1": True, "C2": True, "D0": False, "D1": False, "D2": False}


def is_mangled(name: str) -> bool:
    """True for an Itanium-mangled name."""
    return bool(_MANGLED.match(name))


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Mangled name -> readable name, for those that could be read."""
    wanted = [name for name in dict.fromkeys(names) if is_mangled(name) and len(name) <= NAME_BYTES]
    own = {name: text for name in wanted if (text := plain_nested(name))}
    return own | _by_tool(wanted)


def _by_tool(names: list[str]) -> dict[str, str]:
    tool = confine.find_tool(TOOL) if names else None
    if tool is None:
        return {}
    given = _fitting(names)
    try:
        done = confine.run(
            [tool],
            seconds=SECONDS,
            memory_bytes=MEMORY_BYTES,
            output_bytes=GIVEN_BYTES * 16,
            given="".join(f"{name}\n" for name in given).encode(),
        )
    except OSError:
        return {}
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    pairs = zip(given, lines, strict=False)
    return {name: text for name, text in pairs if text and text != name} if len(lines) == len(given) else {}


def _fitting(names: list[str]) -> list[str]:
    room, kept = GIVEN_BYTES, []
    for name in names:
        room -= len(name) + 1
        if room < 0:
            break
        kept.append(name)
    return kept


def plain_nested(name: str) -> str | None:
    """The qualified name of a mangled function without templates, or None where it is not that plain."""
    start = _NESTED.match(name)
    if start is None:
        return None
    parts = ["std"] if "St" in start[0] else []
    at = start.end()
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[1])
        if at > len(name):
            return None
        parts.append(name[length.end() : at])
        if not name.startswith(("_ZN", "__ZN")):
            return "::".join(parts)
    if name[at : at + 2] in _SPECIAL and parts:
        parts.append(("" if _SPECIAL[name[at : at + 2]] else "~") + parts[-1])
        at += 2
    return "::".join(parts) if parts and name[at : at + 1] == "E" else None
