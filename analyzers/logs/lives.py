"""Telling lines in, lives out: splits a stream of lines into process incarnations and keeps what matters.

A new life begins when the PID changes, when a start line comes again, or when the elapsed stamp falls
back. Streams (containers, units, router children) are told apart by their wrappers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import LogFact, to_evidence
from analyzers.logs import grammar
from analyzers.logs.crosscheck import Row, trusts
from analyzers.logs.keep import LAST_KEPT, RAW_KEPT, Keeper, Kept, LifeState
from analyzers.logs.prefix import Prefix, strip
from analyzers.logs.reading import Life
from analyzers.logs.recognise import OUTSIDE, Found, recognise, safe_text
from analyzers.logs.shapes import Judged
from analyzers.logs.telling import LIFE, SLEEP, TASK
from analyzers.logs.text import decode

LIVES_KEPT_FIRST = 8  # of a log with very many restarts: the first lives
LIVES_KEPT_LAST = 40  # and the last ones, where the incident is
STREAMS = 32  # wrappers told apart; further ones share the last stream
FALL_BACK = 1.0  # seconds an elapsed stamp may fall between neighbours without a new process
START_WITHIN = 60.0  # a start line stamped later than this is not the start of a process

_START = frozenset({"init", "build-info", "loading"})
_QUICK = frozenset(
    {f"{SLEEP}/{event}" for event in ("enter-sleep", "exit-sleep", "loading", "loaded")}
    | {f"{TASK}/{e}" for e in ("task-launched", "task-done", "task-cancelled", "slots-idle", "request")}
)
_STARTED_BEFORE = frozenset({*_START, "settings", "listening", "load-failed"})

Tails = dict[str, list[int]]  # group -> indices of lines in a block


@dataclass(frozen=True)
class Origin:
    """What a journal knows of a line beside its text: process, unit (or command) and both clocks."""

    stream: str = ""
    pid: int | None = None
    boot_id: str | None = None
    wall: float | None = None
    mono: float | None = None


_NOWHERE = Origin()


@dataclass
class Lives:
    """Collects the telling lines of one input. ``name`` is the input's name for sources and ids."""

    name: str
    form: str | None
    current: dict[str, LifeState] = field(default_factory=dict)
    finished: list[Life] = field(default_factory=list)
    dropped: int = 0
    starts: int = 0
    outside: Keeper[Kept] = field(default_factory=Keeper)
    counts: Counter[str] = field(default_factory=Counter)

    def feed_block(self, first_line: int, judged: Judged, turned: bool) -> None:
        """The telling lines of one block; ``turned`` when the file runs backwards."""
        if not turned and self._quick(first_line, judged):
            return
        hits = judged.hits()
        lines = judged.pick(hits)
        for at in reversed(hits) if turned else hits:
            self.feed(first_line + at, lines[at], judged.labels[at])

    def _quick(self, first_line: int, judged: Judged) -> bool:
        """Take a block of a single bare stream in which no process starts; False when it is not one.

        Only counts and the last lines of each group are needed then, so a dense log costs little more
        than a sparse one.
        """
        life = self.current.get("")
        groups = {label.partition("/")[0] for label in judged.counts}
        if life is None or not judged.counts.keys() <= _QUICK or not life.settled(groups):
            return False
        if "task/task-cancelled" in judged.counts and (
            life.asleep_since or "sleep/enter-sleep" in judged.counts
        ):
            return False
        tails = last_of(judged)
        ends = {min(map(judged.labels.index, judged.counts)), max(at[-1] for at in tails.values())}
        lines = judged.pick({*ends, *(at for places in tails.values() for at in places)})
        if not self._rises(life, lines[min(ends)], lines[max(ends)]):
            return False
        self._take(life, first_line, judged, tails, lines)
        return True

    def _rises(self, life: LifeState, first: bytes, last: bytes) -> bool:
        start, end = stamp_of(first), stamp_of(last)
        if start is None or end is None:
            return start is None and end is None
        if end < start or (life.last_elapsed is not None and start < life.last_elapsed - FALL_BACK):
            return False
        life.last_elapsed = end
        life.recent.extend((start, end))
        return True

    def _take(
        self, life: LifeState, first_line: int, judged: Judged, tails: Tails, lines: dict[int, bytes]
    ) -> None:
        for label, count in judged.counts.items():
            self.counts[label.partition("/")[2]] += count
            life.counts[label.partition("/")[2]] += count
        for group, places in tails.items():
            total = sum(n for label, n in judged.counts.items() if label.startswith(group + "/"))
            base = life.groups[group].count + total - len(places)
            events = [judged.labels[at].partition("/")[2] for at in places]
            kept = [
                Kept(first_line + at, lines[at][:RAW_KEPT], group, event, base + n)
                for n, (at, event) in enumerate(zip(places, events, strict=True))
            ]
            life.add_many(group, kept, total)
        life.progressed = True

    def feed(self, line: int, raw: bytes, label: str, origin: Origin | None = None) -> None:
        """One telling line: find its life, split where a new one begins, keep or count it."""
        group, event, _ = (label + "/").split("/", 2)
        self.counts[event] += 1
        who = origin or _NOWHERE
        if group == OUTSIDE:
            self.outside.add(Kept(line, raw[:RAW_KEPT], group, event, self.outside.count, who.wall, who.mono))
            return
        prefix = strip(decode(raw[:RAW_KEPT]))[0] if label.endswith("/w") else _PLAIN
        life = self._life(prefix, who)
        start = group == LIFE and event in _START
        life = self._checked(life, raw, event if start else None)
        life.add(line, raw, group, event, who.wall, who.mono)
        if group != LIFE or event not in _STARTED_BEFORE:
            life.progressed = True

    def _life(self, prefix: Prefix, who: Origin) -> LifeState:
        stream = (who.stream or prefix.name or "") + (f"[{prefix.port}]" if prefix.port else "")
        pid = who.pid if who.pid is not None else prefix.pid
        key = f"{stream}/{who.pid or ''}/{who.boot_id or ''}" if origin_known(who) else stream
        life = self.current.get(key)
        if life is None:
            self._make_room()
            life = self._begin(LifeState(stream, key, prefix.port, pid, who.boot_id))
        elif pid is not None and life.pid is not None and life.pid != pid:
            life = self._begin(LifeState(stream, key, prefix.port, pid, who.boot_id))
        return life

    def _begin(self, life: LifeState) -> LifeState:
        old = self.current.get(life.key)
        if old is not None:
            self._finish(old)
        self.current[life.key] = life
        return life

    def _make_room(self) -> None:
        """Close the stream that was silent longest when there are too many."""
        if len(self.current) >= STREAMS:
            oldest = min(self.current.values(), key=lambda life: life.last_line)
            self._finish(self.current.pop(oldest.key))

    def _checked(self, life: LifeState, raw: bytes, start: str | None) -> LifeState:
        elapsed = stamp_of(raw)
        if self._begins(life, start, elapsed):
            again = life.pid is not None
            life = self._begin(LifeState(life.stream, life.key, life.port, life.pid, life.boot_id, again))
        if start:
            self.starts += not life.marks
            life.marks.add(start)
        if elapsed is not None:
            life.last_elapsed = elapsed
            life.recent.append(elapsed)
        return life

    def _begins(self, life: LifeState, start: str | None, elapsed: float | None) -> bool:
        last = life.last_elapsed
        if elapsed is not None and last is not None and elapsed < last - FALL_BACK:
            outlier = any(stamp <= elapsed for stamp in life.recent)
            return elapsed < START_WITHIN and (start is not None or not outlier)
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


def last_of(judged: Judged) -> Tails:
    """Indices of the last LAST_KEPT telling lines of each group, rising."""
    by_group: dict[str, Counter[str]] = {}
    for label, count in judged.counts.items():
        by_group.setdefault(label.partition("/")[0], Counter())[label] = count
    return {
        group: _few(judged.labels, counts) if counts.total() <= LAST_KEPT else _many(judged.labels, counts)
        for group, counts in by_group.items()
    }


def _few(labels: Sequence[str], counts: Counter[str]) -> list[int]:
    places = []
    for label, count in counts.items():
        at = -1
        for _ in range(count):
            at = labels.index(label, at + 1)
            places.append(at)
    return sorted(places)


def _many(labels: Sequence[str], wanted: Counter[str]) -> list[int]:
    places: list[int] = []
    for at in range(len(labels) - 1, -1, -1):
        if labels[at] in wanted:
            places.append(at)
            if len(places) == LAST_KEPT:
                break
    return places[::-1]


def origin_known(who: Origin) -> bool:
    """True when the journal named the process, so that streams need not be told apart by text."""
    return who.pid is not None or who.boot_id is not None


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
    seen: Counter[int] = Counter()
    evidence = []
    for (kept, found), trust in zip(rows, trusts(rows), strict=True):
        seen[kept.line] += 1
        evidence.append(_evidence(name, kept, found, incarnation, trust, seen[kept.line]))
    return Life(
        index=index,
        stream=state.stream,
        port=state.port,
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
        if (
            isinstance(found.fact, LogFact)
            and found.fact.event == "settings"
            and found.fact.value is not None
        ):
            return int(found.fact.value)
    return None


def _evidence(
    name: str, kept: Kept, found: Found, who: Incarnation, trust: Trust | None = None, part: int = 1
) -> Evidence:
    source = f"{name}:{kept.line}"
    id_ = source if part == 1 else f"{source}#{part}"
    return to_evidence(
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
