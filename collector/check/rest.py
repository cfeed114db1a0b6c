"""Files at rest: a binary by its marks, a preset file's sections as the servers they would be."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from analyzers.catalogue.builds import LARGEST_BUILD, SMALLEST_BUILD
from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Defect, Recognised
from analyzers.errors import UserError
from collector.check.exposure import CLEAR, EXPOSED, OFF, POSSIBLE, Standing, marked, standing_with, step_for
from collector.check.reached import KNOWN, reached
from collector.check.told import DRAFT, SLEEP, limit_in
from collector.discovery.options import TRUE, named
from collector.discovery.presets import DEFAULT, GLOBAL, MAX_BYTES, Preset, parse, section_name
from collector.gather.servers import LIBRARY
from collector.gather.tools import open_quietly

MAX_LIBRARY_FOLDER = 2000  # files beside a binary that are looked through for its library
MAX_SHOWN_ERRORS = 20
NO_NUMBER = "how long a sleep limit is, the server takes as a whole number above 0, or -1 for off"
_HEADER = re.compile(r"\[[ \t]*([^\]]+?)[ \t]*\]")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*([^#;]*)")


@dataclass(frozen=True)
class AtRest:
    """What one section, or a binary alone, would be exposed to. ``kind``: section | binary. ``metrics`` None
    for a binary. ``errors`` are lines of the preset file that stand in this section."""

    kind: str
    name: str
    build: str
    sleep: str
    sleep_idle_seconds: int | None
    metrics: bool | None
    defects: tuple[Standing, ...]
    errors: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        found = {one.standing for one in self.defects}
        return next((word for word in (EXPOSED, POSSIBLE, CLEAR) if word in found), OFF)

    @property
    def headline(self) -> str:
        parts = [
            f"{word}: {', '.join(ids)}"
            for word in (EXPOSED, POSSIBLE)
            if (ids := [one.defect for one in self.defects if one.standing == word])
        ]
        return "; ".join(parts) or ("sleep is off" if self.verdict == OFF else "no known defect applies")

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "verdict": self.verdict, "headline": self.headline}


@dataclass(frozen=True)
class Wanted:
    """The build that is asked about; ``found`` None for all builds that are known."""

    found: Recognised | None = None
    marks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "any known build" if self.found is None else str(self.found)


def wanted_build(build: str | None, binary: Path | None) -> Wanted:
    """From --build and --server-bin. Raises UserError for two of them, or one that cannot be used."""
    known = known_defects()
    if build is not None and binary is not None:
        raise UserError("--build and --server-bin name two builds", where="check", remedy="give one of them")
    if binary is not None:
        build_id, names = _of_binary(known, binary)
        return Wanted(known.recognise(build_id, names, None), names)
    if build is None:
        return Wanted()
    digits = build.removeprefix("b")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5):
        raise UserError("is no build number", where=f"--build {build[:40]!r}", remedy="such as b11368")
    if not SMALLEST_BUILD <= int(digits) <= LARGEST_BUILD:
        remedy = f"numbers go from {SMALLEST_BUILD} to {LARGEST_BUILD}"
        raise UserError("is no build of llama.cpp", where=f"--build {build}", remedy=remedy)
    return Wanted(known.recognise(None, (), f"b{digits}"))


def _of_binary(known: Defects, path: Path) -> tuple[str | None, tuple[str, ...]]:
    """Marks of a program, or of the library beside it that holds the server's code. Nothing of it is run."""
    where = f"--server-bin {path}"
    opened = open_quietly(path)
    if opened is None:
        raise UserError("cannot be read", where=where, remedy="name a file that this user may read")
    with opened as file:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        head = os.pread(file.fileno(), 4, 0) if regular else b""
    if not regular or head != b"\x7fELF":
        remedy = "name llama-server's program, or the library that holds its code"
        raise UserError("is no ELF file", where=where, remedy=remedy)
    build_id, names = marked(known, path)
    for library in () if names else _beside(path):
        other, names = marked(known, library)
        if names or known.known_build(other) is not None:
            return other, names
    return build_id, names


def _beside(path: Path) -> list[Path]:
    """Libraries with the server's code in its own folder and in ../lib."""
    made = []
    for folder in (path.resolve().parent, path.resolve().parent.parent / "lib"):
        try:
            names = sorted(os.listdir(folder))[:MAX_LIBRARY_FOLDER]
        except OSError:
            continue
        made += [folder / name for name in names if LIBRARY.search(name)]
    return made


def binary_at_rest(path: Path, wanted: Wanted) -> AtRest:
    """What a server of this file would be exposed to if it sleeps."""
    rows = tuple(_standings(wanted, True, "if it sleeps (--sleep-idle-seconds)", None))
    return AtRest("binary", path.name, str(wanted), "whether it would sleep is not said", None, None, rows)


def preset_at_rest(path: Path, wanted: Wanted) -> tuple[list[AtRest], list[str]]:
    """(each section as a server, errors of the whole file). Raises UserError when it cannot be read."""
    text, errors = read_preset_file(path)
    preset = parse(text)
    lines = _lines(text)
    errors += [line.replace("its preset file", path.name) for line in preset.problems]
    errors += _doubled(text)
    names = [name for name in preset.sections if name != GLOBAL] or [GLOBAL]
    made = [_section(preset, name, wanted, lines) for name in names if name in preset.sections]
    return made, errors[:MAX_SHOWN_ERRORS]


def read_preset_file(path: Path) -> tuple[str, list[str]]:
    """(its text, what is wrong with the file itself). Raises UserError."""
    opened = open_quietly(path)
    where = f"--preset {path}"
    if opened is None:
        raise UserError("cannot be read", where=where, remedy="name a file that this user may read")
    with opened as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError("is no regular file", where=where, remedy="name the preset file itself")
        try:
            data = os.pread(file.fileno(), MAX_BYTES + 1, 0)
        except OSError as problem:
            raise UserError(
                f"cannot be read: {problem.strerror}", where=where, remedy="see the disk"
            ) from None
    text = data[:MAX_BYTES].decode("utf-8", "replace")
    if len(data) <= MAX_BYTES:
        return text, []
    line = text.count("\n") + 1
    cut = f"it is longer than {MAX_BYTES >> 10} KiB: nothing from line {line} on was looked at"
    return text[: max(text.rfind("\n"), 0)], [cut]


def _lines(text: str) -> dict[tuple[str, str], int]:
    """(section, setting) to the line that counts."""
    found, now = {}, DEFAULT
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        header, pair = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            now = section_name(header[1])
        elif pair is not None:
            found[now, named(pair[1])[0]] = number
    return found


def _doubled(text: str) -> list[str]:
    """Sections that come twice: the server keeps the second beginning only."""
    seen: dict[str, int] = {}
    made = []
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        header = _HEADER.match(line)
        if header is not None:
            name = section_name(header[1])
            if name in seen:
                made.append(
                    f"line {number}: [{name}] stands in line {seen[name]} already, which no longer counts"
                )
            seen[name] = number
    return made


def _section(preset: Preset, name: str, wanted: Wanted, lines: dict[tuple[str, str], int]) -> AtRest:
    rows = preset.of(name)
    value, origin = rows.get(SLEEP, ("-1", ""))
    at = lines.get((origin, SLEEP))
    errors: tuple[str, ...] = ()
    limit, words = (
        limit_in(value, f"[{origin}], line {at}") if SLEEP in rows else (-1, "sleep is off (not set)")
    )
    if limit is None or limit == 0 or limit < -1:
        errors = (f"line {at}: {SLEEP} = {value[:40]}: {NO_NUMBER}",)
        limit, words = (None, "its sleep limit cannot be used") if limit != 0 else (limit, words)
    met = None if limit is None else limit >= 0
    condition = {True: None, False: "it never sleeps", None: "whether it would sleep is not known"}[met]
    metrics = rows.get("metrics", ("", ""))[0].lower() in TRUE
    standings = tuple(_standings(wanted, met, condition, DRAFT in rows))
    return AtRest("section", name, str(wanted), words, limit, metrics, standings, errors)


def _standings(
    wanted: Wanted, met: bool | None, condition: str | None, draft: bool | None
) -> Iterator[Standing]:
    known = known_defects()
    for defect in known.defects:
        if not defect.exposure:
            continue
        own, why = (met, condition)
        if defect.id == "D5" and draft is not True and met is not False:
            own, why = (
                (None, "whether it has a draft model is not known")
                if draft is None
                else (False, "no draft model")
            )
        if defect.id == "D8" and met:
            own, why = None, "whether it would use a GPU is not known"
        if wanted.found is None:
            yield _in_any(defect, own, why)
        else:
            yield _in_one(known, defect, wanted, own, why)


def _in_one(known: Defects, defect: Defect, wanted: Wanted, met: bool | None, why: str | None) -> Standing:
    assert wanted.found is not None  # noqa: S101 - asked by the caller
    said = known.standing(defect.id, wanted.found, wanted.marks)
    standing = standing_with(said, met)
    at_risk = standing in (EXPOSED, POSSIBLE)
    return Standing(
        defect.id,
        defect.title,
        standing,
        said.status,
        said.because,
        why,
        step_for(defect, False) if at_risk else None,
        KNOWN.get(said.status, "unknown"),
        reached(known, defect, wanted.found, wanted.marks) if at_risk else (),
    )


def _in_any(defect: Defect, met: bool | None, why: str | None) -> Standing:
    """In the builds that are known: exposed by those that have it, so never more than possible."""
    has = [str(row) for row in defect.builds if row.status == "affected"]
    standing = OFF if met is False else POSSIBLE if has else CLEAR
    because = f"{defect.id} {'; '.join(has)}" if has else f"no known build has {defect.id}"
    step = step_for(defect, False) if standing == POSSIBLE else None
    return Standing(defect.id, defect.title, standing, "unmeasured", because, why, step)
