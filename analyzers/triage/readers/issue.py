"""A pasted issue: each block read as what it is, and what is left together as a text with traces.

Blocks of one kind are read together, in their order: people cut one log into several. The prose stays with
the traces: it often holds the debugger's words for the death, or the version.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzers.contracts.facts import LogFact
from analyzers.contracts.report import InputFile
from analyzers.logs.recognise import recognise
from analyzers.triage.material import Material
from analyzers.triage.readers.issue_parts import MAX_ISSUE, Block, blocks, is_issue
from analyzers.triage.readers.looks import text_kind

NextId = Callable[[], str]
LOGS = ("server-log", "journal-text", "container-log")
REST = "stack-trace"
VERSION_LINES = 12  # of a block that holds what --version prints and nothing else


@dataclass
class _Part:
    kind: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks)

    @property
    def lines(self) -> str:
        last = self.blocks[-1]
        return f"lines {self.blocks[0].first}-{last.first + len(last.lines) - 1}"


def issue_materials(path: Path, name: str, next_id: NextId, stack: ExitStack) -> list[Material]:
    """The parts' materials, each with its own line among the inputs. Temporary copies live as ``stack``."""
    from analyzers.triage.from_text import text_material

    with path.open("rb") as file:
        data = file.read(MAX_ISSUE + 1)
    found = blocks(data)
    if len(data) > MAX_ISSUE or not is_issue(found):
        return [text_material(path, name, "server-log", next_id)]
    parts = _parts(found)
    if len(parts) == 1 and parts[0].kind == REST:
        return [text_material(_copy(parts[0], stack), name, REST, next_id)]
    return [_read(part, f"{name}, {part.lines}", next_id, stack) for part in parts]


def _parts(found: list[Block]) -> list[_Part]:
    logs, rest, others = _Part("server-log"), _Part(REST), []
    told = _version(found)
    for block in found:
        kind = text_kind(block.text.encode("utf-8", "replace")) if block.fenced else None
        if (
            kind in LOGS
            and told is not None
            and block.fenced
            and all(is_version(line) or not _telling(line) for line in block.lines)
        ):
            continue  # the version alone: it is told already
        if kind in LOGS:
            logs = replace_kind(logs, kind)
            logs.blocks.append(block)
        elif kind in (None, REST, "issue"):
            rest.blocks.append(block)
        else:
            others.append(_Part(str(kind), [block]))
    if told is not None and not any(is_version(line) for block in logs.blocks for line in block.lines):
        logs.blocks.insert(0, told)
    return [part for part in (logs, *others, rest) if part.blocks]


def _version(found: Sequence[Block]) -> Block | None:
    """The version that the prose names, taken out of it: beside a trace it would make it a server's log."""
    told = None
    for block in found:
        lines = [line for line in block.lines if is_version(line)]
        if lines and told is None and (not block.fenced or len(block.lines) <= VERSION_LINES):
            told = Block(block.first, lines=lines[:1])
        if lines and not block.fenced:
            block.lines = ["" if is_version(line) else line for line in block.lines]
    return told


def _telling(line: str) -> bool:
    return recognise(line.encode("utf-8", "replace")) is not None


def is_version(line: str) -> bool:
    """What ``llama-server --version`` prints, or its logger's own words for it."""
    found = recognise(line.encode("utf-8", "replace"))
    return found is not None and isinstance(found.fact, LogFact) and found.fact.event == "build-info"


def replace_kind(part: _Part, kind: str) -> _Part:
    """The first block names the kind of the log."""
    return part if part.blocks else replace(part, kind=kind)


def _read(part: _Part, name: str, next_id: NextId, stack: ExitStack) -> Material:
    from analyzers.triage.from_text import text_material
    from analyzers.triage.readers.special import SPECIAL, special_material

    copy = _copy(part, stack)
    if part.kind in SPECIAL:
        found = special_material(copy, name, part.kind, next_id)
    else:
        found = text_material(copy, name, part.kind, next_id)
    if part.kind == REST:  # prose that says nothing is no gap
        found = replace(found, gaps=tuple(gap for gap in found.gaps if not gap.what.startswith("anything")))
    return replace(found, inputs=(InputFile(name=name, kind=part.kind, size=copy.stat().st_size),))


def _copy(part: _Part, stack: ExitStack) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="llama-blackbox-", suffix=".part")
    stack.callback(Path(name).unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(part.text.encode("utf-8", "replace"))
    return Path(name)
