"""One finished life: the kept lines parsed, cross-checked and turned into evidence."""

from __future__ import annotations

from collections import Counter

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import LogFact, to_evidence
from analyzers.logs.crosscheck import Row, trusts
from analyzers.logs.keep import Kept, LifeState
from analyzers.logs.reading import Life
from analyzers.logs.recognise import OUTSIDE, Found, recognise, safe_text

START_EVENTS = frozenset({"init", "build-info", "loading"})


def rows_of(kept: list[Kept], form: str | None) -> list[Row]:
    """Kept lines with what they were recognised as; a line that was cut too short falls out."""
    pairs = ((item, recognise(item.raw, form)) for item in kept)
    return [(item, found) for item, found in pairs if found is not None]


def build_life(name: str, form: str | None, state: LifeState, index: int) -> Life:
    """Turn the kept lines of one life into evidence, with the trust the cross-checks leave."""
    rows = rows_of(state.kept(), form)
    own = state.pid if state.port is None else None
    incarnation = Incarnation(pid=own, boot_id=state.boot_id)
    seen: Counter[int] = Counter()
    evidence = []
    for (kept, found), trust in zip(rows, trusts(rows), strict=True):
        seen[kept.line] += 1
        evidence.append(evidence_of(name, kept, found, incarnation, trust, seen[kept.line]))
    return Life(
        index=index,
        stream=state.stream,
        port=state.port,
        carrier=state.pid,
        incarnation=incarnation,
        era=_era(rows),
        evidence=tuple(evidence),
        counts=dict(state.counts),
        skipped=state.skipped,
        first_line=state.first_line,
        last_line=state.last_line,
        last_elapsed=max((f.elapsed for _, f in rows if f.elapsed is not None), default=None),
        last_wall=max((w for w in (k.wall or f.wall for k, f in rows) if w is not None), default=None),
        verbosity=_verbosity(rows),
        head_lost=not state.marks & START_EVENTS,
        restarted_in_place=state.restarted_in_place,
        cancelled_asleep=state.cancelled_asleep,
    )


def _era(rows: list[Row]) -> str | None:
    eras = Counter(f.fact.era for _, f in rows if isinstance(f.fact, LogFact) and f.fact.era)
    if {"F5", "F4"} <= eras.keys():
        return "F5"
    return eras.most_common(1)[0][0] if eras else None


def _verbosity(rows: list[Row]) -> int | None:
    for _, found in rows:
        if (
            isinstance(found.fact, LogFact)
            and found.fact.event == "settings"
            and found.fact.value is not None
        ):
            return int(found.fact.value)
    return None


def evidence_of(
    name: str, kept: Kept, found: Found, who: Incarnation, trust: Trust | None = None, part: int = 1
) -> Evidence:
    """One kept line as evidence; ``part`` counts the lines one journal entry holds."""
    source = f"{name}:{kept.line}"
    id_ = source if part == 1 else f"{source}#{part}"
    if kept.group == OUTSIDE:
        id_ = f"{source}#outside{kept.place}"  # one journal entry can hold a server's and an outside line
    made = to_evidence(
        found.fact,
        id=id_,
        source=source,
        text=safe_text(found),
        trust=trust or found.trust,
        wall=kept.wall if kept.wall is not None else found.wall,
        mono=kept.mono if kept.mono is not None else found.prefix.mono,
        elapsed=found.elapsed,
        incarnation=who,
    )
    day = found.prefix.calendar
    if day is None or made.wall is not None or made.mono is not None:
        return made
    return made.model_copy(update={"data": {**made.data, "calendar": day}})
