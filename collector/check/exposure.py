"""Is a running server exposed to a known defect: its build by what its file shows, its settings.

Nothing is asked of the server. What cannot be told from outside is said to be not known, and counts as
exposed when the build is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Advice, Defect, Recognised
from analyzers.catalogue.model import Standing as CatalogueStanding
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_names
from analyzers.errors import UserError
from collector.check.reached import KNOWN, Reached, reached
from collector.check.subject import Subject
from collector.check.told import DRAFT, PRESET, SLEEP, Told, sleep_in, sleep_of_models, told
from collector.check.waketime import log_of
from collector.discovery.builds import Identity, identity
from collector.discovery.model import Found
from collector.gather.logs import BUILD_WITHIN, build_in
from collector.gather.servers import Server

EXPOSED, POSSIBLE, CLEAR, OFF = "exposed", "possible", "clear", "off"
SLEEP_OFF = "--sleep-idle-seconds -1"
MAX_MARKED = 512  # files whose names are remembered within one run
CUDA = ("libcuda", "libggml-cuda", "libcudart", "libggml-hip", "libamdhip64", "libggml-musa")


@dataclass(frozen=True)
class Standing:
    """One defect on one server. ``standing``: exposed | possible | clear | off (its condition is not met);
    ``build``: what the catalogue says of the build alone, ``known``: measured | presumed | unknown;
    ``routes`` it is reached through, those of a defect that the server may have."""

    defect: str
    title: str
    standing: str
    build: str
    because: str
    condition: str | None
    advice: str | None
    known: str = "unknown"
    routes: tuple[Reached, ...] = ()


@dataclass(frozen=True)
class Exposure:
    """One server. ``sleep_idle_seconds`` as it was told; None where that cannot be seen from outside."""

    pid: int
    name: str
    build: str
    sleep: str
    sleep_idle_seconds: int | None
    defects: tuple[Standing, ...]

    @property
    def verdict(self) -> str:
        """The worst standing. Of a server whose settings are not known nothing is clear."""
        found = {one.standing for one in self.defects}
        worst = next((one for one in (EXPOSED, POSSIBLE, CLEAR) if one in found), OFF)
        return POSSIBLE if self.sleep_idle_seconds is None and worst in (CLEAR, OFF) else worst

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        named = {
            word: [one.defect for one in self.defects if one.standing == word] for word in (EXPOSED, POSSIBLE)
        }
        parts = [f"{word}: {', '.join(ids)}" for word, ids in named.items() if ids]
        if not parts and self.verdict == POSSIBLE:
            return "no known defect of its build, but its settings are not known"
        return "; ".join(parts) or (
            "sleep is off" if self.verdict == OFF else "no known defect of its build applies"
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "verdict": self.verdict, "headline": self.headline}


def expose(subject: Subject, found: Found | None = None) -> Exposure:
    """Every defect that an exposure check speaks of. ``found``: what discovery says of the server."""
    known, said = known_defects(), told(subject, found)
    build, marks = recognised(known, subject.server)
    limit, sleep = sleep_limit(subject, said, router=found is not None and found.role == "router")
    rows = tuple(_rows(known, subject, said, build, marks, limit))
    return Exposure(subject.server.pid, subject.name, str(build), sleep, limit, rows)


def recognised(known: Defects, server: Server) -> tuple[Recognised, tuple[str, ...]]:
    """Which build its code is, and the marks found in it; the log's number comes last."""
    number = build_in(log_of(server.pid, None)[:BUILD_WITHIN])
    said = f"b{number}" if number else None
    build_id, names = marked(known, server.code_path)
    return known.recognise(build_id, names, said), names


_MARKED: dict[Identity, tuple[str | None, tuple[str, ...]]] = {}


def marked(known: Defects, path: Path) -> tuple[str | None, tuple[str, ...]]:
    """(build-id, marks) of a file, read once for all servers that run it; nothing when it cannot be read."""
    at = identity(path)
    if at is None:
        return None, ()
    if at not in _MARKED:
        if len(_MARKED) >= MAX_MARKED:
            _MARKED.clear()
        try:
            _MARKED[at] = build_id_of_file(path), find_names(path, known.every_sign())
        except UserError:
            return None, ()
    return _MARKED[at]


def sleep_limit(
    subject: Subject, said: Told | None = None, *, router: bool = False
) -> tuple[int | None, str]:
    """(seconds, in words). -1 is off; None: not to be seen from outside."""
    if subject.server.hosted:
        return None, "its sleep limit is set in its own program and is not known"
    if "cmdline" in subject.unread or not subject.args:
        return None, "its command line could not be read, so its sleep limit is not known"
    said = told(subject) if said is None else said
    return sleep_of_models(said) if router else sleep_in(said)


def _rows(
    known: Defects,
    subject: Subject,
    settings: Told,
    found: Recognised,
    marks: tuple[str, ...],
    limit: int | None,
) -> Iterator[Standing]:
    for defect in known.defects:
        if not defect.exposure:
            continue
        said = known.standing(defect.id, found, marks)
        met, condition = _condition(defect.id, subject, settings, limit)
        standing = standing_with(said, met)
        at_risk = standing in (EXPOSED, POSSIBLE)
        yield Standing(
            defect.id,
            defect.title,
            standing,
            said.status,
            said.because,
            condition,
            step_for(defect, ".service" in subject.cgroup, sleep_off(subject, settings)) if at_risk else None,
            KNOWN.get(said.status, "unknown"),
            reached(known, defect, found, marks) if at_risk else (),
        )


def standing_with(said: CatalogueStanding, met: bool | None) -> str:
    """The build's standing, with whether what else the defect needs is there (None: not known)."""
    standing = OFF if met is False else EXPOSED if said.exposed else CLEAR
    if standing == CLEAR and said.status == "unmeasured":
        return POSSIBLE
    return POSSIBLE if standing == EXPOSED and met is None else standing


def _condition(
    defect: str, subject: Subject, settings: Told, limit: int | None
) -> tuple[bool | None, str | None]:
    """(whether what the defect needs besides its build is there, in words)."""
    if limit is not None and limit < 0:
        return False, "it never sleeps"
    asleep = True if limit is not None else None
    hidden = subject.server.hosted or not subject.args
    if defect == "D5":
        if hidden:
            return None, "whether it has a draft model is not known"
        sections = (*settings.sections.values(), {})
        draft = settings.get(DRAFT) is not None or any(DRAFT in rows for rows in sections)
        return (asleep, "it has a draft model") if draft else (False, "it has no draft model")
    if defect == "D8" and subject.image is not None:
        device = any(name in path for path in subject.image.files for name in CUDA)
        return (asleep, "it uses a GPU") if device else (False, "it uses no GPU runtime")
    return asleep, None if asleep else "whether it sleeps is not known"


def sleep_off(subject: Subject, settings: Told) -> str:
    """The setting that switches sleep off, where it was switched on."""
    origin = settings.origin(SLEEP)
    if subject.server.hosted:
        return "sleep_idle_seconds = -1 in the program that hosts it"
    if origin.startswith(PRESET):
        return f"sleep-idle-seconds = -1 in [{origin.removeprefix(PRESET)}] of its router's preset file"
    if origin.startswith("config:"):
        return f"sleep-idle-seconds = -1 in {origin.removeprefix('config:')}"
    if origin == "default" and settings.sections:
        return "sleep-idle-seconds = -1 in each section of its preset file"
    return SLEEP_OFF


def step_for(defect: Defect, systemd: bool, off: str = SLEEP_OFF) -> str | None:
    """What keeps the defect away, where the catalogue knows it; else its first step for where it runs."""
    steps = defect.advice_for("systemd" if systemd else None)
    lasting = (step for step in steps if step.text.startswith("Upgrade") or step.command == SLEEP_OFF)
    first: Advice | None = next(lasting, next(iter(steps), None))
    if first is None:
        return None
    return f"{first.text} {off}" if first.command == SLEEP_OFF else first.text
