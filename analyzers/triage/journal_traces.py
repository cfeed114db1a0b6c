"""A backtrace that a server printed into its journal: MESSAGE lines of one process, in one unit and boot.

The debugger that ggml starts is a child of the server, and journald names its lines by the child's own PID:
they are the server's by unit and boot, from the abort's line to the end of that life.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, StackFact
from analyzers.logs.entries import Entry, export_entries, json_entries
from analyzers.logs.journal_lives import is_core_record, is_systemd, origin_of
from analyzers.logs.reading import Life as LogLife
from analyzers.logs.reading import Reading
from analyzers.logs.text import decode
from analyzers.stacks.pasted import parse_pasted, printed_by_itself
from analyzers.triage.traces import TRACE

MAX_LINES = 20_000  # of one life's end: a trace of hundreds of threads has some thousands
LINE_BYTES = 4096
TRACE_FIRST = ("terminate", "exception")
DEBUGGERS = ("gdb", "lldb")


@dataclass(frozen=True)
class JournalTrace:
    """The stacks that the process ``who`` printed."""

    who: Incarnation
    stacks: tuple[StackFact, ...]
    trust: Trust


@dataclass
class _Printed:
    lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    traced: bool = False


def journal_traces(path: Path, kind: str, reading: Reading) -> Iterator[JournalTrace]:
    """The traces of the lives of a journal's export; nothing where no life ended in an abort's text, which
    comes before every trace that a server prints."""
    ended = [life for life in reading.lives if _aborts(life) and life.incarnation.pid is not None]
    if not ended or kind not in ("journal-export", "journal-json"):
        return
    printed = _printed(path, kind, reading.name, ended)
    for at, life in enumerate(ended):
        if printed[at].traced:
            text = b"\n".join(printed[at].lines).decode("utf-8", "replace")
            stacks = parse_pasted(text)
            own = printed_by_itself(stacks, text) or _from(life) > life.first_line
            if stacks:
                yield JournalTrace(life.incarnation, stacks, Trust.SERVER if own else Trust.CLIENT)


def _aborts(life: LogLife) -> list[Evidence]:
    items = (item for item in life.evidence if item.kind == AbortFact.KIND)
    return [item for item in items if item.trust is not Trust.CLIENT]


def _from(life: LogLife) -> int:
    """The entry from which on lines can be the trace: the abort's text, but an uncaught exception prints its
    trace first."""
    found = _aborts(life)
    before = any(item.data.get("shape") in TRACE_FIRST for item in found)
    return life.first_line if before else int(found[0].source.rpartition(":")[2])


def _printed(path: Path, kind: str, name: str, ended: Sequence[LogLife]) -> dict[int, _Printed]:
    found: dict[int, _Printed] = defaultdict(_Printed)
    with path.open("rb") as file:
        for entry in (export_entries if kind == "journal-export" else json_entries)(file, name):
            at = _life_of(entry, ended)
            if at is None:
                continue
            for line in entry.fields.get("MESSAGE", b"").split(b"\n", MAX_LINES)[:MAX_LINES]:
                found[at].lines.append(line[:LINE_BYTES])
                found[at].traced |= TRACE.search(line[:LINE_BYTES]) is not None
    return found


def _life_of(entry: Entry, ended: Sequence[LogLife]) -> int | None:
    """Which life printed it; a debugger's words belong to the unit's life that had begun last."""
    if entry.text("_TRANSPORT") == "kernel" or is_systemd(entry) or is_core_record(entry):
        return None
    origin = origin_of(entry)
    for at, life in reversed(list(enumerate(ended))):
        if life.incarnation.boot_id != origin.boot_id or entry.number < _from(life):
            continue
        child = decode(entry.fields.get("_COMM", b"")) in DEBUGGERS and life.stream == origin.stream
        if origin.pid == life.incarnation.pid or child:
            return at
    return None
