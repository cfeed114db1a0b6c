"""When a wheel was packed, and which build the old ones are that do not say it."""

from __future__ import annotations

import re
from functools import cache

from analyzers.contracts.trials import Subject
from collector.lab.verify.routes.data import entries

_DATED = re.compile(r"(20\d\d)\.(\d{1,2})\.\d{4,5}(\.\d+)*")


@cache
def _wheels() -> dict[str, tuple[str, int | None]]:
    return {
        each["version"]: (each["released"], each.get("build")) for each in entries("wheels.toml", "wheel")
    }


def released(subject: Subject) -> str | None:
    """Day or month of a wheel, ISO 8601; None for a binary."""
    if subject.kind != "hosted" or subject.version is None:
        return None
    if subject.version in _wheels():
        return _wheels()[subject.version][0]
    dated = _DATED.fullmatch(subject.version)
    return f"{dated[1]}-{int(dated[2]):02d}" if dated else None


def build_number(subject: Subject) -> int | None:
    """The subject's build, by itself or by the table."""
    if subject.build is not None or subject.version is None:
        return subject.build
    return _wheels().get(subject.version, (None, None))[1]


def numbered(subject: Subject) -> Subject:
    """``subject`` with its build and a name that says it."""
    number = build_number(subject)
    if subject.build is not None or number is None:
        return subject
    return subject.model_copy(update={"build": number, "name": f"b{number} (xllamacpp {subject.version})"})
