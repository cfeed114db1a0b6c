"""Telling lines in, lives out: splits a stream of lines into process incarnations and keeps what matters.

A new life begins when the PID changes, when a start line comes again, or when the elapsed stamp falls
back. Streams (containers, units, router children) are told apart by their wrappers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.contracts.facts import LogFact, to_evidence
from analyzers.logs import grammar
from analyzers.logs.crosscheck import Row, trusts
from analyzers.logs.keep import Keeper, Kept, LifeState
from analyzers.logs.prefix import Prefix, strip
from analyzers.logs.reading import Life
from analyzers.logs.recognise import OUTSIDE, Found, recognise, safe_text
from analyzers.logs.telling import LIFE, SLEEP
from analyzers.logs.text import decode

LIVES_KEPT_FIRST = 8  # of a log with very many restarts: the first lives
LIVES_KEPT_LAST = 40  # and the last ones, where the incident is
STREAMS = 32  # wrappers told apart; further ones share the last stream
FALL_BACK = 1.0  # seconds an elapsed stamp may fall between neighbours without a new process
START_WITHIN = 60.0  # a start line stamped later than this is not the start of a process

_START = frozenset({"init", "build-info", "loading"})
_STARTED_BEFORE = frozenset({*_START, "settings", "listening", "load-failed"})


@dataclass
class Lives:
    """Collects the telling lines of one input. ``name`` is the input's name for sources and ids."""

    name: str
    form: str | None
    boot_id: str | None = None
    current: dict[str, LifeState] = field(default_factory=dict)
    finished: list[Life] = field(default_factory=list)
    dropped: int = 0
    starts: int = 0
    outside: Keeper[Kept] = field(default_factory=Keeper)
    counts: Counter[str] = field(default_factory=Counter)

    def feed(self, line: int, raw: bytes, label: str, check: bool) -> None:
        """One telling line; ``check`` asks for its stamp to be compared with the one before."""
        group, _, event = label.partition("/")
        self.counts[event] += 1
        if group == OUTSIDE:
            self.outside.add(Kept(line, raw[:2048], group, event, self.outside.count))
            return
        prefix = self._prefix(raw)
        life = self._life(prefix)
        start = group == LIFE and event in _START
        if check or start:
            life = self._checked(life, raw, event if start else None, prefix)
        life.add(line, raw, group, event)
        if group != LIFE or event not in _STARTED_BEFORE:
            life.progressed = True

    def _prefix(self, raw: bytes) -> Prefix:
        if self.form is None and raw[:1].isdigit():
            return _PLAIN
        return strip(decode(raw[:2048]))[0]

    def _life(self, prefix: Prefix) -> LifeState:
        key = _key(prefix)
        life = self.current.get(key)
        if life is not None and prefix.pid is not None and life.pid not in (None, prefix.pid):
            return self._new(key, prefix)
        if life is None:
            key = key if len(self.current) < STREAMS else next(reversed(self.current))
            life = self.current.get(key) or self._new(key, prefix)
        return life

    def _new(self, key: str, prefix: Prefix) -> LifeState:
        old = self.current.get(key)
        if old is not None:
            self._finish(old)
        same_pid = old is not None and old.pid is not None and old.pid == prefix.pid
        life = LifeState(key, prefix.port, prefix.pid, self.boot_id, restarted_in_place=same_pid)
        self.current[key] = life
        return life

    def _checked(self, life: LifeState, raw: bytes, start: str | None, prefix: Prefix) -> LifeState:
        elapsed = stamp_of(raw)
        if self._begins(life, start, elapsed):
            life = self._new(life.stream, prefix)
        if start:
            self.starts += not life.marks
            life.marks.add(start)
        if elapsed is not None:
            life.last_elapsed = elapsed
        return life

    def _begins(self, life: LifeState, start: str | None, elapsed: float | None) -> bool:
        last = life.last_elapsed
        if elapsed is not None and last is not None and elapsed < last - FALL_BACK:
            return start is not None or elapsed < START_WITHIN
        if start is None or (elapsed is not None and elapsed > START_WITHIN):
            return False
        again = start in life.marks or life.progressed
        return again and (elapsed is None or last is None or elapsed <= last)

    def _finish(self, state: LifeState) -> None:
        if not state.counts:
            return
        self.finished.append(build_life(self.name, self.form, state, len(self.finished) + self.dropped))
        if len(self.finished) > LIVES_KEPT_FIRST + LIVES_KEPT_LAST:
            del self.finished[LIVES_KEPT_FIRST]
            self.dropped += 1

    def finish(self) -> tuple[tuple[Life, ...], tuple[Evidence, ...]]:
        """The lives in the order they began, and the outside evidence."""
        for state in self.current.values():
            self._finish(state)
        self.current.clear()
        lives = tuple(sorted(self.finished, key=lambda life: life.first_line))
        rows = _rows(self.outside.items, self.form)
        outside = tuple(_evidence(self.name, kept, found, Incarnation()) for kept, found in rows)
        return lives, outside


_PLAIN = Prefix()


def _key(prefix: Prefix) -> str:
    port = f"[{prefix.port}]" if prefix.port else ""
    return f"{prefix.name or ''}{port}"


def stamp_of(raw: bytes) -> float | None:
    """Elapsed seconds of a raw line of any era; None when it has no stamp of that kind."""
    body = strip(decode(raw))[1]
    if body.startswith("{"):
        line = grammar.parse_line(body)
        return line.elapsed if line is not None else None
    return grammar.elapsed_of(body)


def _rows(kept: list[Kept], form: str | None) -> list[Row]:
    pairs = ((item, recognise(item.raw, form)) for item in kept)
    return [(item, found) for item, found in pairs if found is not None]


def build_life(name: str, form: str | None, state: LifeState, index: int) -> Life:
    """Turn the kept lines of one life into evidence, with the trust the cross-checks leave."""
    rows = _rows(state.kept(), form)
    incarnation = Incarnation(pid=state.pid, boot_id=state.boot_id)
    evidence = tuple(
        _evidence(name, kept, found, incarnation, trust)
        for (kept, found), trust in zip(rows, trusts(rows))
    )
    return Life(
        index=index,
        stream=state.stream,
        port=state.port,
        incarnation=incarnation,
        era=_era(rows),
        evidence=evidence,
        counts=dict(state.counts),
        skipped=state.skipped,
        first_line=state.first_line,
        last_line=state.last_line,
        last_elapsed=max((f.elapsed for _, f in rows if f.elapsed is not None), default=None),
        last_wall=max((f.wall for _, f in rows if f.wall is not None), default=None),
        verbosity=_verbosity(rows),
        head_lost=not state.marks & _START,
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
        if isinstance(found.fact, LogFact) and found.fact.event == "settings" and found.fact.value is not None:
            return int(found.fact.value)
    return None


def _evidence(name: str, kept: Kept, found: Found, who: Incarnation, trust: object = None) -> Evidence:
    source = f"{name}:{kept.line}"
    pid = found.prefix.pid if who.pid is None and found.prefix.form == "syslog" and kept.group in (LIFE, SLEEP) else None
    return to_evidence(
        found.fact,
        id=source,
        source=source,
        text=safe_text(found),
        trust=trust if trust is not None else found.trust,  # type: ignore[arg-type]
        wall=found.wall,
        mono=found.prefix.mono,
        elapsed=found.elapsed,
        incarnation=Incarnation(pid=pid, boot_id=who.boot_id) if pid else who,
    )
