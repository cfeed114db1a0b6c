"""A text into evidence: server log, kernel lines, supervisor lines, journal entries, pasted traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import AbortFact, ExitFact, StackFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.reading import Life as LogLife
from analyzers.logs.reading import Reading
from analyzers.logs.scan import read_text
from analyzers.stacks.pasted import parse_pasted, printed_by_itself
from analyzers.triage.from_core import describe_stack
from analyzers.triage.lineage import unpinned, with_lineage
from analyzers.triage.lives import Life
from analyzers.triage.material import Material
from analyzers.triage.traces import TraceEnd, as_live, looks_like_trace, taken_live, trace_end

NextId = Callable[[], str]
TRACE_BYTES = 8 << 20  # a self-printed trace of hundreds of threads has well under 1 MB
JOURNALS = ("journal-export", "journal-json", "journal-verbose")


def text_material(path: Path, name: str, kind: str, next_id: NextId) -> Material:
    """What one text says. Raises UserError when it cannot be read."""
    journal = kind in JOURNALS
    reading = _read_journal(path, name, kind) if journal else read_text(path, name)
    traced = _of_journal(path, kind, next_id, reading) if journal else _traces(path, name, next_id, reading)
    stacks = traced.evidence
    numbered = {item.id: item.model_copy(update={"id": next_id()}) for item in reading.evidence}
    lives = with_lineage(tuple(numbered.values()), [_life(life, reading, numbered) for life in reading.lives])
    return Material(
        evidence=(
            *unpinned(tuple(numbered.values()), lives),
            *stacks,
            *_reboots(reading, path, kind, next_id),
        ),
        gaps=(*reading.gaps, *traced.gaps, *_nothing(reading, stacks, name)),
        lives=lives,
    )


def _reboots(reading: Reading, path: Path, kind: str, next_id: NextId) -> list[Evidence]:
    if kind not in (*JOURNALS, "journal-text"):
        return []
    from analyzers.triage.reboots import reboots  # only a journal tells one boot from another

    return reboots(reading, path, kind, next_id)


def _life(life: LogLife, reading: Reading, numbered: dict[str, Evidence]) -> Life:
    own = tuple(_own(life.evidence, numbered))
    carrier = life.carrier if life.port is not None else life.incarnation.pid
    return Life(own, reading.name, life.stream, life.port, reading.form, carrier)


def _read_journal(path: Path, name: str, kind: str) -> Reading:
    from analyzers.logs.journal import read_export, read_json

    with path.open("rb") as stream:
        if kind == "journal-verbose":
            from analyzers.triage.readers.verbose import read_verbose

            return read_verbose(stream, name)
        return read_export(stream, name) if kind == "journal-export" else read_json(stream, name)


def _own(items: Iterable[Evidence], numbered: dict[str, Evidence]) -> list[Evidence]:
    return [numbered[item.id] for item in items if item.id in numbered]


@dataclass(frozen=True)
class _Traced:
    evidence: list[Evidence] = field(default_factory=list)
    gaps: tuple[Gap, ...] = ()


def _traces(path: Path, name: str, next_id: NextId, reading: Reading) -> _Traced:
    """Stacks that stand in the text's end.

    In a server's log only what shows that the server printed it counts as the server's own: a client's text
    can hold a debugger's words, and a person can paste anything behind a log.
    """
    raw = _tail(path)
    if not looks_like_trace(raw):
        return _Traced()
    text = raw.decode("utf-8", "replace")
    stacks = parse_pasted(text)
    if taken_live(text):
        stacks = as_live(stacks)
    end = trace_end(text, stacks)
    trust = Trust.CLIENT if stacks and _anybodys(reading, stacks, text) else Trust.SERVER
    who = Incarnation(pid=end.pid if end is not None else None)
    found = [_as_evidence(stack, name, next_id, trust, who) for stack in stacks]
    if end is not None and trust is not Trust.CLIENT:
        found.append(_end_evidence(end, name, next_id))
    return _Traced(found, (_pasted_gap(name),) if trust is Trust.CLIENT else ())


def _of_journal(path: Path, kind: str, next_id: NextId, reading: Reading) -> _Traced:
    if not any(item.kind == AbortFact.KIND for item in reading.evidence):
        return _Traced()
    from analyzers.triage.journal_traces import (
        journal_traces,  # reads the journal again: not without an abort
    )

    found = [
        _as_evidence(stack, reading.name, next_id, trace.trust, trace.who)
        for trace in journal_traces(path, kind, reading)
        for stack in trace.stacks
    ]
    return _Traced(found)


def _anybodys(reading: Reading, stacks: Sequence[StackFact], text: str) -> bool:
    """True when server log lines stand in the text and nothing shows that the process printed the trace."""
    if not reading.lives:
        return False
    aborted = any(item.kind == AbortFact.KIND and item.trust is not Trust.CLIENT for item in reading.evidence)
    return not (aborted or printed_by_itself(stacks, text))


def _pasted_gap(name: str) -> Gap:
    return Gap(
        what=f"the stack trace in {name}",
        why="it stands in the server's log without a sign that the server printed it; a client can print "
        "such a text there",
        command="give the trace as a file of its own",
    )


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TRACE_BYTES))
        return file.read(TRACE_BYTES)


def _as_evidence(stack: StackFact, name: str, next_id: NextId, trust: Trust, who: Incarnation) -> Evidence:
    return to_evidence(
        stack,
        id=next_id(),
        source=f"{name}: {stack.rung} trace" + (f" of thread {stack.tid}" if stack.tid else ""),
        text=describe_stack(stack),
        trust=trust,
        incarnation=who,
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
