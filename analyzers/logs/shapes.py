"""Which lines of a block are telling, found fast: by shape.

A log repeats itself: with its digits masked, 200 MB of it are some hundred distinct lines. So a block is
masked and split by C code, the shapes never seen before are looked at once (the needles by bytes search,
then the real grammar on one sample), and every further line costs one look into a dictionary. Searching
for the needles one by one made 48 MB/s on the machine where this makes 200 to 500.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from analyzers.logs.prefix import Prefix
from analyzers.logs.recognise import Found, recognise
from analyzers.logs.telling import NEEDLES

SHAPES_KEPT = 20_000  # known shapes; a log of unique lines must not fill the memory
SHAPE_BYTES = 512  # longer shapes are judged anew each time: they are mostly client content
DULL = ""  # label of a line that tells nothing

_BARE = Prefix()
_MASK = bytes.maketrans(b"123456789", b"0" * 9)


@dataclass(frozen=True)
class Judged:
    """One block, line by line: ``labels[n]`` is DULL or ``group/event``, ``/w`` behind it when wrapped."""

    block: bytes
    shapes: Sequence[bytes]
    labels: Sequence[str]
    counts: Counter[str] = field(default_factory=Counter)  # without DULL

    def hits(self) -> list[int]:
        """Indices of the telling lines."""
        return [at for at, label in enumerate(self.labels) if label]

    def pick(self, wanted: Iterable[int]) -> dict[int, bytes]:
        """The raw lines at the given indices. A shape is as long as its line, so offsets add up."""
        lines, offset, before = {}, 0, 0
        for at in sorted(wanted):
            offset += sum(map(len, self.shapes[before:at])) + at - before
            lines[at] = self.block[offset : offset + len(self.shapes[at])]
            before = at
        return lines


class Shapes:
    """Judges lines by shape. ``form`` is the file's wrapper form, see ``recognise.form_of``."""

    def __init__(self, form: str | None) -> None:
        self.form = form
        self._known: dict[bytes, str] = {}

    def judge(self, block: bytes) -> Judged:
        """Label every line of ``block`` (whole lines, split at LF)."""
        shapes = block.translate(_MASK).split(b"\n")
        labels = list(map(self._known.get, shapes))
        counts = Counter(labels)
        if None in counts:
            fresh = {shape for shape, label in zip(shapes, labels, strict=True) if label is None}
            once = self._judge(fresh, shapes, block)
            labels = [
                once[shape] if label is None else label for shape, label in zip(shapes, labels, strict=True)
            ]
            counts = Counter(labels)
        told = Counter({label: count for label, count in counts.items() if label})
        return Judged(block, shapes, cast("list[str]", labels), told)

    def label(self, line: bytes) -> str:
        """The label of a single line (no LF in it)."""
        label = self._known.get(line.translate(_MASK))
        return self.judge(line).labels[0] if label is None else label

    def _judge(self, fresh: set[bytes], shapes: Sequence[bytes], block: bytes) -> dict[bytes, str]:
        joined = b"\n".join(fresh)
        needles = [needle for needle in NEEDLES if needle in joined]
        candidates = [s for s in fresh if any(needle in s for needle in needles)] if needles else []
        once = dict.fromkeys(fresh, DULL)
        once.update(self._labels(candidates, shapes, block))
        self._remember(once)
        return once

    def _labels(self, candidates: Sequence[bytes], shapes: Sequence[bytes], block: bytes) -> dict[bytes, str]:
        if not candidates:
            return {}
        sample = dict(zip(reversed(shapes), reversed(block.split(b"\n")), strict=True))
        judged = ((shape, recognise(sample[shape], self.form)) for shape in candidates)
        return {shape: label_of(found) for shape, found in judged if found is not None}

    def _remember(self, once: dict[bytes, str]) -> None:
        if len(self._known) + len(once) > SHAPES_KEPT:
            self._known = {shape: label for shape, label in self._known.items() if label}
        if len(self._known) + len(once) <= SHAPES_KEPT:
            self._known.update((s, label) for s, label in once.items() if len(s) <= SHAPE_BYTES)


def label_of(found: Found) -> str:
    """What a line is counted and kept as, see ``Judged``."""
    event = getattr(found.fact, "event", None) or found.fact.KIND
    return f"{found.group}/{event}" if found.prefix == _BARE else f"{found.group}/{event}/w"
