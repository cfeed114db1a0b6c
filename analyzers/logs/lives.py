"""Telling lines in, lives out: splits a stream of lines into process incarnations and keeps what matters.

A new life begins when the PID changes, when a start line comes again, or when the elapsed stamp falls
back. Streams (containers, units, router children) are told apart by their wrappers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.logs.keep import FALL_BACK, RAW_KEPT, Keeper, Kept, LifeState
from analyzers.logs.life import START_EVENTS, build_life, evidence_of, rows_of
from analyzers.logs.prefix import Prefix, strip
from analyzers.logs.quick import stream_of, take_block
from analyzers.logs.reading import Life
from analyzers.logs.recognise import OUTSIDE, body_stamp
from analyzers.logs.shapes import Judged
from analyzers.logs.telling import LIFE
from analyzers.logs.text import decode

LIVES_KEPT_FIRST = 8  # of a log with very many restarts: the first lives
LIVES_KEPT_LAST = 40  # and the last ones, where the incident is
STREAMS = 32  # streams followed at once; the one silent longest is closed for a further one
START_WITHIN = 60.0  # a start line stamped later than this is not the start of a process

FAILED_STARTS = ("load-failed", "bind-failed", "context-failed")
_BEFORE_PROGRESS = frozenset({*START_EVENTS, "settings", "listening", *FAILED_STARTS})


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
    """Collects the telling lines of one input. ``name`` is the input's name for sources and ids.

    ``turned``: the lines come from the end of a reversed file, their numbers fall.
    """

    name: str
    form: str | None
    turned: bool = False
    current: dict[str, LifeState] = field(default_factory=dict)
    finished: list[LifeState] = field(default_factory=list)
    dropped: int = 0
    starts: int = 0
    outside: Keeper[Kept] = field(default_factory=Keeper)
    counts: Counter[str] = field(default_factory=Counter)

    def feed_block(self, first_line: int, judged: Judged) -> None:
        """The telling lines of one block."""
        if not self.turned and self._quick(first_line, judged):
            return
        hits = judged.hits()
        lines = judged.pick(hits)
        for at in reversed(hits) if self.turned else hits:
            self.feed(first_line + at, lines[at], judged.labels[at])

    def _quick(self, first_line: int, judged: Judged) -> bool:
        prefix = stream_of(judged)
        life = None if prefix is None else self.current.get(_key(prefix, _NOWHERE))
        if life is None or not take_block(life, first_line, judged):
            return False
        for label, count in judged.counts.items():
            self.counts[label.split("/")[1]] += count
        return True

    def feed(self, line: int, raw: bytes, label: str, origin: Origin = _NOWHERE) -> None:
        """One telling line: find its life, split where a new one begins, keep or count it."""
        group, event, *wrapped = label.split("/")
        self.counts[event] += 1
        if group == OUTSIDE:
            place = self.outside.count
            self.outside.add(Kept(line, raw[:RAW_KEPT], group, event, place, origin.wall, origin.mono))
            return
        text = decode(raw[:RAW_KEPT])
        prefix, body = strip(text) if wrapped else (_PLAIN, text)
        start = event if group == LIFE and event in START_EVENTS else None
        life = self._split(self._life(prefix, origin), body_stamp(body), start)
        life.add(line, raw, group, event, origin.wall, origin.mono)
        if group != LIFE or event not in _BEFORE_PROGRESS:
            life.progressed = True

    def _life(self, prefix: Prefix, origin: Origin) -> LifeState:
        key = _key(prefix, origin)
        life = self.current.get(key)
        if life is None:
            if len(self.current) >= STREAMS:
                self._close_one()
            pid = origin.pid if origin.pid is not None else prefix.pid
            life = LifeState(_stream(prefix, origin), key, prefix.port, pid, origin.boot_id)
            life.turned = self.turned
            self.current[key] = life
        return life

    def _close_one(self) -> None:
        silent = min(self.current.values(), key=lambda life: life.last_line * (-1 if self.turned else 1))
        self._finish(self.current.pop(silent.key))

    def _split(self, life: LifeState, elapsed: float | None, start: str | None) -> LifeState:
        if self._begins(life, start, elapsed):
            self._finish(life)
            life = life.successor()
            self.current[life.key] = life
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
        if state.counts:
            self.finished.append(state)
        if len(self.finished) > LIVES_KEPT_FIRST + LIVES_KEPT_LAST:
            del self.finished[LIVES_KEPT_FIRST]
            self.dropped += 1

    def finish(self) -> tuple[tuple[Life, ...], tuple[Evidence, ...]]:
        """The lives in the order they began, and the outside evidence."""
        for state in self.current.values():
            self._finish(state)
        self.current.clear()
        states = sorted(self.finished, key=lambda life: life.first_line, reverse=self.turned)
        lives = (build_life(self.name, self.form, state, at) for at, state in enumerate(states))
        rows = rows_of(self.outside.items, self.form)
        outside = (evidence_of(self.name, kept, found, Incarnation()) for kept, found in rows)
        return tuple(lives), tuple(outside)


_PLAIN = Prefix()


def _stream(prefix: Prefix, origin: Origin) -> str:
    return (origin.stream or prefix.name or "") + (f"[{prefix.port}]" if prefix.port else "")


def _key(prefix: Prefix, origin: Origin) -> str:
    """What tells streams apart: name and port, and the PID where the wrapper or the journal names it."""
    pid = origin.pid if origin.pid is not None else prefix.pid
    return f"{_stream(prefix, origin)}/{'' if pid is None else pid}/{origin.boot_id or ''}"
