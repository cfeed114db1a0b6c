"""A text into evidence: server log, kernel lines, supervisor lines, journal entries, pasted traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, StackFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.reading import Life as LogLife
from analyzers.logs.reading import Reading
from analyzers.logs.scan import read_text
from analyzers.stacks.pasted import parse_pasted
from analyzers.triage.from_core import describe_stack
from analyzers.triage.lives import Life
from analyzers.triage.material import Material
from analyzers.triage.traces import TraceEnd, as_live, looks_like_trace, taken_live, trace_end

NextId = Callable[[], str]
TRACE_BYTES = 8 << 20  # a self-printed trace of hundreds of threads has well under 1 MB
JOURNALS = ("journal-export", "journal-json")


def text_material(path: Path, name: str, kind: str, next_id: NextId) -> Material:
    """What one text says. Raises UserError when it cannot be read."""
    journal = kind in JOURNALS
    reading = _read_journal(path, name, kind) if journal else read_text(path, name)
    stacks = [] if journal else _traces(path, name, next_id)
    numbered = {item.id: item.model_copy(update={"id": next_id()}) for item in reading.evidence}
    return Material(
        evidence=(*numbered.values(), *stacks),
        gaps=(*reading.gaps, *_nothing(reading, stacks, name)),
        lives=tuple(_life(life, reading, numbered) for life in reading.lives),
    )


def _life(life: LogLife, reading: Reading, numbered: dict[str, Evidence]) -> Life:
    own = tuple(_own(life.evidence, numbered))
    return Life(own, reading.name, life.stream, life.port, reading.form)


def _read_journal(path: Path, name: str, kind: str) -> Reading:
    from analyzers.logs.journal import read_export, read_json

    with path.open("rb") as stream:
        return read_export(stream, name) if kind == "journal-export" else read_json(stream, name)


def _own(items: Iterable[Evidence], numbered: dict[str, Evidence]) -> list[Evidence]:
    return [numbered[item.id] for item in items if item.id in numbered]


def _traces(path: Path, name: str, next_id: NextId) -> list[Evidence]:
    """Stacks that stand in the text's end; a client can hardly forge one, but a person can paste anything."""
    raw = _tail(path)
    if not looks_like_trace(raw):
        return []
    text = raw.decode("utf-8", "replace")
    stacks = parse_pasted(text)
    if taken_live(text):
        stacks = as_live(stacks)
    end = trace_end(text, stacks)
    ended = [_end_evidence(end, name, next_id)] if end is not None else []
    return [*(_as_evidence(stack, name, next_id) for stack in stacks), *ended]


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TRACE_BYTES))
        return file.read(TRACE_BYTES)


def _as_evidence(stack: StackFact, name: str, next_id: NextId) -> Evidence:
    return to_evidence(
        stack,
        id=next_id(),
        source=f"{name}: {stack.rung} trace" + (f" of thread {stack.tid}" if stack.tid else ""),
        text=describe_stack(stack),
        trust=Trust.SERVER,
        incarnation=Incarnation(),
    )


def _end_evidence(end: TraceEnd, name: str, next_id: NextId) -> Evidence:
    return to_evidence(
        ExitFact(by="trace", signal=end.signal),
        id=next_id(),
        source=f"{name}: what the trace says of the end",
        text=end.said,
        trust=Trust.SERVER,
        incarnation=Incarnation(pid=end.pid),
    )


def _nothing(reading: Reading, stacks: list[Evidence], name: str) -> list[Gap]:
    if reading.evidence or stacks:
        return []
    return [
        Gap(
            what=f"anything telling in {name}",
            why=f"none of its {reading.lines:,} lines is llama-server's, the kernel's or a supervisor's",
            command="give the server's own log, for example: journalctl -u UNIT -o export > server.export",
        )
    ]
