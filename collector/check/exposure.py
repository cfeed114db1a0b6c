"""Is a running server exposed to a known defect: its build by what its file shows, its settings.

Nothing is asked of the server. What cannot be told from outside is said to be not known, and counts as
exposed when the build is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Advice, Defect, Recognised
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_names
from analyzers.errors import UserError
from collector.check.subject import Subject
from collector.gather.logs import build_in, open_log
from collector.gather.servers import Server
from collector.sources.process import option

EXPOSED, POSSIBLE, CLEAR, OFF = "exposed", "possible", "clear", "off"
SLEEP = ("--sleep-idle-seconds",)
SLEEP_OFF = "--sleep-idle-seconds -1"
DRAFT = ("-md", "--model-draft", "--spec-draft-model")
OVERFLOW_SECONDS = 2_147_484  # times 1000 it no longer fits an int: the limit becomes negative
CUDA = ("libcuda", "libggml-cuda", "libcudart", "libggml-hip", "libamdhip64", "libggml-musa")


@dataclass(frozen=True)
class Standing:
    """One defect on one server. ``standing``: exposed | possible | clear | off (its condition is not met);
    ``build``: what the catalogue says of the build alone."""

    defect: str
    title: str
    standing: str
    build: str
    because: str
    condition: str | None
    advice: str | None


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
        """The worst standing."""
        found = {one.standing for one in self.defects}
        return next((one for one in (EXPOSED, POSSIBLE, CLEAR) if one in found), OFF)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        named = {
            word: [one.defect for one in self.defects if one.standing == word] for word in (EXPOSED, POSSIBLE)
        }
        parts = [f"{word}: {', '.join(ids)}" for word, ids in named.items() if ids]
        return "; ".join(parts) or (
            "sleep is off" if self.verdict == OFF else "no known defect of its build applies"
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "verdict": self.verdict, "headline": self.headline}


def expose(subject: Subject) -> Exposure:
    """Every defect of the catalogue that an exposure check speaks of."""
    known = known_defects()
    found, marks = recognised(known, subject.server)
    limit, sleep = sleep_limit(subject)
    rows = tuple(_rows(known, subject, found, marks, limit))
    return Exposure(subject.server.pid, subject.name, str(found), sleep, limit, rows)


def recognised(known: Defects, server: Server) -> tuple[Recognised, tuple[str, ...]]:
    """Which build its code is, and the marks found in it; the log's number comes last."""
    data, _ = open_log(server.pid)
    number = build_in(data) if data else None
    said = f"b{number}" if number else None
    try:
        names = find_names(server.code_path, known.every_sign())
        return known.recognise(build_id_of_file(server.code_path), names, said), names
    except UserError:
        return known.recognise(None, (), said), ()


def sleep_limit(subject: Subject) -> tuple[int | None, str]:
    """(seconds, in words). -1 is off; None: not to be seen from outside."""
    if subject.server.hosted:
        return None, "its sleep limit is set in its own program and is not known"
    if "cmdline" in subject.unread or not subject.args:
        return None, "its command line could not be read, so its sleep limit is not known"
    text = option(list(subject.args), SLEEP)
    if text is None:
        return -1, "sleep is off (--sleep-idle-seconds is not given)"
    limit = int(text) if text.lstrip("-").isdigit() and len(text) < 12 else None
    if limit is None:
        return None, "its sleep limit could not be read"
    if limit >= OVERFLOW_SECONDS:
        return limit, f"sleeps after {limit} s, which overflows: it can sleep at once"
    return limit, "sleep is off" if limit < 0 else f"sleeps after {limit} s without work"


def _rows(
    known: Defects, subject: Subject, found: Recognised, marks: tuple[str, ...], limit: int | None
) -> Iterator[Standing]:
    for defect in known.defects:
        if not defect.exposure:
            continue
        said = known.standing(defect.id, found, marks)
        met, condition = _condition(defect.id, subject, limit)
        standing = OFF if met is False else EXPOSED if said.exposed else CLEAR
        if standing == CLEAR and said.status == "unmeasured":
            standing = POSSIBLE
        if standing == EXPOSED and met is None:
            standing = POSSIBLE
        step = _step(defect, subject) if standing in (EXPOSED, POSSIBLE) else None
        yield Standing(defect.id, defect.title, standing, said.status, said.because, condition, step)


def _condition(defect: str, subject: Subject, limit: int | None) -> tuple[bool | None, str | None]:
    """(whether what the defect needs besides its build is there, in words)."""
    if limit is not None and limit < 0:
        return False, "it never sleeps"
    asleep = True if limit is not None else None
    hidden = subject.server.hosted or not subject.args
    if defect == "D5":
        if hidden:
            return None, "whether it has a draft model is not known"
        draft = option(list(subject.args), DRAFT) is not None
        return (asleep, "it has a draft model") if draft else (False, "it has no draft model")
    if defect == "D8" and subject.image is not None:
        device = any(name in path for path in subject.image.files for name in CUDA)
        return (asleep, "it uses a GPU") if device else (False, "it uses no GPU runtime")
    return asleep, None if asleep else "whether it sleeps is not known"


def _step(defect: Defect, subject: Subject) -> str | None:
    """What keeps the defect away, where the catalogue knows it; else its first step for where it runs."""
    steps = defect.advice_for("systemd" if ".service" in subject.cgroup else None)
    lasting = (step for step in steps if step.text.startswith("Upgrade") or step.command == SLEEP_OFF)
    first: Advice | None = next(lasting, next(iter(steps), None))
    if first is None:
        return None
    return f"{first.text} {first.command}" if first.command == SLEEP_OFF else first.text
