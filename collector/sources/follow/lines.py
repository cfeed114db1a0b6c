"""Lines of a server's own output to what they tell, at the price of a look into a dictionary for most."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact
from analyzers.logs.recognise import recognise
from analyzers.logs.shapes import SHAPE_BYTES, SHAPES_KEPT
from analyzers.logs.telling import NEEDLES
from analyzers.logs.text import MAX_LINE
from collector.sources.follow.quick import quick_evidence
from collector.sources.follow.template import Reading, Template, reading_of, template_of

MASK = bytes.maketrans(b"123456789", b"0" * 9)
UNKNOWN = object()
_SLOW = 1  # shapes of lines that tell something and have to be read one by one

Known = Template | int | None


class Lines:
    """Judges lines. ``known``: shapes (a line translated by MASK) that tell nothing (None), that have a
    Template, or that are read one by one. ``forged`` counts lines in the kernel's words that some process
    printed."""

    def __init__(self) -> None:
        self.known: dict[bytes, Known] = {}
        self.forged = 0

    def evidence(
        self,
        line: bytes,
        id: str,
        source: str,
        wall: float | None,
        mono: float | None,
        who: Incarnation,
        carried: Incarnation,
    ) -> Evidence | None:
        """What ``line`` (no LF in it) tells, None for most. ``who`` printed it; ``carried`` is whom it is
        filed under when it is a router's child's that came through the router."""
        known: Any = self.known.get(line.translate(MASK), UNKNOWN)
        if known is None:
            return None
        if known is UNKNOWN:
            known = self._learn(line)
        if type(known) is FunctionType:
            made: Evidence = known(line, id, source, wall, mono, who)
            return made
        told = self.read(line) if known == _SLOW else None
        if told is None:
            return None
        owner = who if told.port is None else carried
        when = wall if wall is not None else told.wall
        return quick_evidence(
            id, told.kind, source, told.text, told.trust, when, mono, told.elapsed, owner, told.data
        )

    def read(self, line: bytes) -> Reading | None:
        """The grammar's answer, with what a process's own output can be trusted for.

        The kernel does not speak there, and how a unit ended its manager says itself."""
        found = recognise(line[:MAX_LINE])
        if found is None:
            return None
        if isinstance(found.fact, KernelFact):
            self.forged += 1
            return None
        shell = isinstance(found.fact, ExitFact) and found.fact.by == "shell"
        return reading_of(found, Trust.CLIENT if shell else None)

    def _learn(self, line: bytes) -> Known:
        short = line[:MAX_LINE]
        if not any(needle in short for needle in NEEDLES):
            return self._remember(line, None)
        before = self.forged
        if self.read(line) is None:
            # a line like it with other digits may tell something: only a line without needles is dull
            self.forged = before
            return self._remember(line, _SLOW)
        template = template_of(line, self.read)
        self.forged = before
        return self._remember(line, template if template is not None else _SLOW)

    def _remember(self, line: bytes, known: Known) -> Known:
        if len(line) > SHAPE_BYTES:
            return known
        if len(self.known) >= SHAPES_KEPT:  # a log of unique lines must not fill the memory
            self.known = {shape: kept for shape, kept in self.known.items() if kept is not None}
            if len(self.known) >= SHAPES_KEPT // 2:
                self.known.clear()
        self.known[line.translate(MASK)] = known
        return known
