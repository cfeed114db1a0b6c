"""Names for the frames of poor stacks, from symbol files whose build-id is the module's in the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.model import Core
from analyzers.stacks.demangle import demangled
from analyzers.symbols.names import function_names
from analyzers.symbols.places import Found, Places, find


@dataclass
class Symbols:
    """The symbol files of one core, looked up once per module."""

    core: Core
    places: Places
    _found: dict[str, Found | None] = field(default_factory=dict)

    def of(self, mapped: str) -> Found | None:
        """The files of the build that the core mapped as ``mapped``; None when the core holds no build-id."""
        if mapped not in self._found:
            build_id = self.core.build_ids.get(mapped)
            self._found[mapped] = find(build_id, mapped, self.places) if build_id else None
        return self._found[mapped]

    @property
    def refused(self) -> tuple[str, ...]:
        """Files that stood where a symbol file was looked for and are another build's."""
        return tuple(dict.fromkeys(line for found in self._found.values() if found for line in found.refused))


def named(stacks: Sequence[StackFact], symbols: Symbols) -> list[StackFact]:
    """The stacks with the frames that symbol files can name. Names that are there already stay."""
    wanted: dict[str, set[int]] = {}
    for _, frame in _nameless(stacks):
        path = _path(frame, symbols.core)
        if path is not None and frame.offset is not None:
            wanted.setdefault(path, set()).add(_inside(frame))
    raw = {path: _names(path, offsets, symbols) for path, offsets in wanted.items()}
    readable = demangled(name for names in raw.values() for name in names.values())
    return [_renamed(stack, symbols.core, raw, readable) for stack in stacks]


def _nameless(stacks: Sequence[StackFact]) -> list[tuple[StackFact, Frame]]:
    return [(stack, frame) for stack in stacks for frame in stack.frames if frame.function is None]


def _path(frame: Frame, core: Core) -> str | None:
    row = core.mapped_at(frame.ip) if frame.ip is not None else None
    return row.path if row else None


def _inside(frame: Frame) -> int:
    """An offset inside the calling instruction: a call that never returns may end its function."""
    offset = frame.offset or 0
    return offset if frame.trust in (None, "register") else max(0, offset - 1)


def _names(path: str, offsets: set[int], symbols: Symbols) -> dict[int, str]:
    found = symbols.of(path)
    return function_names(found.files, offsets) if found else {}


def _renamed(
    stack: StackFact, core: Core, raw: dict[str, dict[int, str]], readable: dict[str, str]
) -> StackFact:
    frames = []
    for frame in stack.frames:
        path = _path(frame, core) if frame.function is None else None
        name = raw.get(path, {}).get(_inside(frame)) if path else None
        frames.append(replace(frame, function=readable.get(name, name)) if name else frame)
    return replace(stack, frames=tuple(frames))
