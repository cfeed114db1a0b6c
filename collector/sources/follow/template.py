"""What lines of one shape have in common, so that the grammar has to read only the first of them.

The shape of a line is the line with its digits masked (analyzers.logs.shapes). Lines of one shape differ in
digits alone, at the same places, so what the grammar makes of one tells where in all of them the numbers
stand. Nothing is guessed: a template is made only when the grammar, asked about the line with other digits,
answers what the template would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.logs.prefix import strip
from analyzers.logs.recognise import Found, safe_text
from analyzers.logs.text import decode
from collector.sources.follow.quick import ALL_FIELDS, new, set_dict, set_extra, set_fields, set_private

PROBES = 4  # digit patterns; two would do for telling numbers apart, the others are the proof
RUNS = 24  # numbers in one line; the longest telling line has nine
LINE_BYTES = 400  # longer lines are mostly client content, and rare
_RUN = re.compile(rb"\d+")
_STAMP = re.compile(rb"\d{1,9}\.\d\d\.\d{3}\.\d{3}")
_NONZERO = b"123456789"
_MINUTE = 10**8  # the stamp without its dots: the last eight digits are microseconds of the minute
_NOBODY = Incarnation()

Maker = Callable[[bytes], Any]


@dataclass(frozen=True)
class Reading:
    """What one line tells, before it is Evidence. ``port``: of the router's child that printed it."""

    kind: str
    data: dict[str, Any]
    text: str
    trust: Trust
    elapsed: float | None = None
    wall: float | None = None
    port: str | None = None


def reading_of(found: Found, trust: Trust | None = None) -> Reading:
    """The grammar's answer; fields that are None are left out, as facts.to_evidence does."""
    data = {key: value for key, value in asdict(found.fact).items() if value is not None}
    wall = found.wall if found.wall is not None else found.prefix.wall
    return Reading(
        found.fact.KIND,
        data,
        safe_text(found),
        trust or found.trust,
        found.elapsed,
        wall,
        found.prefix.port,
    )


# Evidence of a line of the template's shape: (line, id, source, wall, mono, who).
Template = Callable[[bytes, str, str, "float | None", "float | None", Incarnation], Evidence]
Numbers = Sequence["tuple[str, slice, Maker]"]


def _template(first: Reading, head: str, tail: slice, numbers: Numbers, stamp: slice | None) -> Template:
    """The reader of one shape; slices are of bytes in the raw line.

    ``numbers``: (field, where, how). The text is ``head`` and ``line[tail]``. ``stamp``: where the elapsed
    stamp (minutes.SS.mmm.uuu) stands. Written out in one piece: it runs for every telling line.
    """
    kind, trust, copied = first.kind, first.trust, first.data.copy

    def read(
        line: bytes, id: str, source: str, wall: float | None, mono: float | None, who: Incarnation
    ) -> Evidence:
        data = copied()
        for name, where, maker in numbers:
            data[name] = maker(line[where])
        elapsed = None
        if stamp is not None:
            digits = int(line[stamp].translate(None, b"."))
            elapsed = (digits // _MINUTE * 60_000_000 + digits % _MINUTE) / 1e6
        made = new(Evidence)
        fields = {
            "id": id,
            "kind": kind,
            "source": source,
            "text": head + line[tail].decode(),
            "trust": trust,
            "wall": wall,
            "mono": mono,
            "elapsed": elapsed,
            "incarnation": who,
            "data": data,
        }
        set_dict(made, "__dict__", fields)
        set_fields(made, ALL_FIELDS)
        set_extra(made, {})
        set_private(made, None)
        return made

    return read


def template_of(line: bytes, judge: Callable[[bytes], Reading | None]) -> Template | None:
    """The template of ``line``'s shape, None where lines of it have to be read one by one."""
    if not line.isascii() or len(line) > LINE_BYTES or b"\x1b" in line or b"\x00" in line:
        return None
    samples = [line, *(_probe(line, salt) for salt in range(1, PROBES))]
    readings = [judge(sample) for sample in samples]
    told = [reading for reading in readings if reading is not None]
    if len(told) < len(samples) or any(one.wall is not None or one.port is not None for one in told):
        return None
    template = _derived(samples, told)
    return template if template is not None and all(map(_says(template), samples, told)) else None


def _probe(line: bytes, salt: int) -> bytes:
    """The same shape with other digits: no two runs alike where they are long enough to differ."""
    made, count = bytearray(line), 0
    for at, char in enumerate(line):
        if 48 <= char <= 57:
            made[at] = _NONZERO[(count * (salt + 3) + count * count * salt + salt) % 9]
            count += 1
    return bytes(made)


def _derived(samples: Sequence[bytes], told: Sequence[Reading]) -> Template | None:
    line, first = samples[0], told[0]
    runs = [match.span() for match in _RUN.finditer(line)]
    if len(runs) > RUNS:
        return None
    numbers = []
    for name, value in first.data.items():
        if all(one.data.get(name) == value for one in told):
            continue
        place = _place(name, runs, samples, told)
        if place is None:
            return None
        numbers.append(place)
    end = len(line.rstrip())
    start = _suffix(line[:end].decode("ascii"), first.text)
    head = first.text[: len(first.text) - (end - start)]
    return _template(first, head, slice(start, end), tuple(numbers), _stamp(line, first))


def _place(
    name: str, runs: Sequence[tuple[int, int]], samples: Sequence[bytes], told: Sequence[Reading]
) -> tuple[str, slice, Maker] | None:
    maker = _MAKERS.get(type(told[0].data[name]))
    for start, end in runs if maker is not None else ():
        pairs = zip(samples, told, strict=True)
        if maker and all(one.data.get(name) == maker(line[start:end]) for line, one in pairs):
            return name, slice(start, end), maker
    return None


def _suffix(line: str, text: str) -> int:
    """Where the longest tail of ``line`` that ends ``text`` begins."""
    start = len(line)
    while start > 0 and len(line) - start < len(text) and line[start - 1] == text[start - len(line) - 1]:
        start -= 1
    return start


def _stamp(line: bytes, first: Reading) -> slice | None:
    if first.elapsed is None:
        return None
    text = decode(line)
    start = len(text) - len(strip(text)[1])
    stamp = _STAMP.match(line, start)
    return slice(start, stamp.end()) if stamp is not None else slice(0, 0)


def _says(template: Template) -> Callable[[bytes, Reading], bool]:
    def same(line: bytes, one: Reading) -> bool:
        try:
            made = template(line, "", "", None, None, _NOBODY)
        except (ValueError, IndexError):
            return False
        mine = (made.kind, made.trust, dict(made.data), made.text, made.elapsed)
        return mine == (one.kind, one.trust, one.data, one.text, one.elapsed)

    return same


_MAKERS: dict[type, Maker] = {int: int, float: float, str: lambda raw: raw.decode("ascii")}
