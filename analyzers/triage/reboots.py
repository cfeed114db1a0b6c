"""A life of the server that ended with its machine: the next entry of the journal is of another boot.

Sources: ``_BOOT_ID`` of a journal's entries, which journald sets itself, and the line ``-- Boot ID --`` that
journalctl prints between the boots. A planned reboot stops the server first, and its journal says so: then
nothing is told here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from analyzers.contracts.watched import HostFact
from analyzers.logs.reading import Life as LogLife
from analyzers.logs.reading import Reading

NextId = Callable[[], str]
# `-- Boot 9c2f… --` since systemd 250, `-- Reboot --` before; at the beginning of a line no program can print
# them: every line of a message has its stamp or is indented.
_SEPARATOR = re.compile(rb"^-- (?:Boot ([0-9a-f]{32})|Reboot) --\s*$")
MAX_BOOTS = 1000
MAX_LINE = 4096


def reboots(reading: Reading, path: Path, kind: str, next_id: NextId) -> list[Evidence]:
    """A fact for each life after which the machine booted again without a word about the server's end."""
    if reading.reversed or not reading.lives:
        return []
    if kind == "journal-text":
        return list(_by_lines(reading, path, next_id))
    return list(_by_ids(reading, next_id))


def _by_ids(reading: Reading, next_id: NextId) -> Iterator[Evidence]:
    named = [item for item in reading.evidence if item.incarnation.boot_id is not None]
    runs = [(boot, list(items)) for boot, items in groupby(named, key=lambda item: item.incarnation.boot_id)]
    if len({boot for boot, _ in runs}) < len(runs):
        return  # two hosts' entries, merged
    for (boot, items), (later, after) in pairwise(runs):
        for life in _last_ones(reading.lives, boot):
            if not _ended(life, items):
                yield _fact(life, later, after[0].source, after[0].wall, next_id)


def _last_ones(lives: Sequence[LogLife], boot: str | None) -> list[LogLife]:
    """The last life of each stream in that boot."""
    own = [life for life in lives if life.incarnation.boot_id == boot and life.port is None]
    return list({life.stream: life for life in own}.values())


def _by_lines(reading: Reading, path: Path, next_id: NextId) -> Iterator[Evidence]:
    marks = list(_marks(path))
    for number, boot in marks:
        before = [life for life in reading.lives if life.last_line < number and life.port is None]
        floor = max((mark for mark, _ in marks if mark < number), default=0)
        for life in {life.stream: life for life in before if life.first_line > floor}.values():
            items = [item for item in reading.evidence if floor < _line(item) < number]
            if not _ended(life, items):
                yield _fact(life, boot, f"{reading.name}:{number}", None, next_id)


def _line(item: Evidence) -> int:
    return int(item.source.rpartition(":")[2])


def _marks(path: Path) -> Iterator[tuple[int, str | None]]:
    count = 0
    with path.open("rb") as file:
        number, whole = 0, True
        while (line := file.readline(MAX_LINE)) and count < MAX_BOOTS:
            number += whole
            found = _SEPARATOR.match(line) if whole and line.startswith(b"-- ") else None
            whole = line.endswith(b"\n")
            if found is not None:
                count += 1
                yield number, found[1].decode() if found[1] else None


def _ended(life: LogLife, items: Sequence[Evidence]) -> bool:
    """A stop or an end is on record after the life's last line, or the life said so itself."""
    if life.counts.get("stopping") or life.counts.get("cleaning-up"):
        return True
    told = (item for item in items if item.kind in (ExitFact.KIND, "abort"))
    return any(item.kind == "abort" or _line(item) >= life.first_line for item in told)


def _fact(life: LogLife, boot: str | None, source: str, wall: float | None, next_id: NextId) -> Evidence:
    text = "the journal goes on in another boot, and nothing tells of the server's end"
    return to_evidence(
        HostFact(event="rebooted", boot_id=boot),
        id=next_id(),
        source=source,
        text=text,
        trust=Trust.SUPERVISOR,
        wall=wall,
        incarnation=Incarnation(pid=life.incarnation.pid, boot_id=life.incarnation.boot_id),
    )
