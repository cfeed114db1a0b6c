"""Build numbers: reading them out of version text, and where a build stands with a defect."""

from __future__ import annotations

import re

from analyzers.catalogue.model import BuildRange, Defect, Standing, Witness

SMALLEST_BUILD = 1000  # a shallow clone counts only the commits it fetched: tens to hundreds, never this many
LARGEST_BUILD = 99_999  # upstream is near 11,500; longer digit runs are hashes, dates or times
TEXT_LIMIT = 4096  # version texts are one line; hostile input may be anything
NUMBER = r"(\d{1,7})"
COMMIT = r"[0-9a-f]{7,40}"

# Most explicit first: a build named as such outranks a number that only stands beside a commit.
PATTERNS = (
    re.compile(rf"\bbuild[:= ]\s*{NUMBER}\b(?!\.)", re.IGNORECASE),
    re.compile(rf"(?<![\w.]){NUMBER} \({COMMIT}\)"),
    re.compile(r"(?<![\w.-])b(\d{4,5})(?![\w])"),
    re.compile(r"(?<![\w.])20\d\d\.\d{1,2}\.(\d{4,5})(?![\w])"),
)
PRESUMED = {"affected": "presumed-affected", "fixed": "presumed-fixed", "absent": "absent"}


def build_number_of(text: str | None) -> int | None:
    """The llama.cpp build number named by a version text, or None when none can be trusted.

    Reads ``b11063``, ``version: 10293 (a1f96d4fc)``, ``0.1.0-dev (build 10454, commit 4df29be4f)`` and a
    wheel's ``2026.9.11063``. Refuses ``b0-unknown`` and a shallow clone's count such as ``1 (1705d43)``.
    """
    head = (text or "")[:TEXT_LIMIT]
    for pattern in PATTERNS:
        for found in pattern.finditer(head):
            number = int(found.group(1))
            if SMALLEST_BUILD <= number <= LARGEST_BUILD:
                return number
    return None


def standing_of(defect: Defect, build: int | None) -> Standing:
    """Where ``build`` stands with ``defect``: by its own witness, by its neighbours, or not at all."""
    return standing_in(defect.builds, defect.id, build)


def standing_in(rows: tuple[BuildRange, ...], what: str, build: int | None) -> Standing:
    """Where ``build`` stands in these ranges; ``what`` names the defect, or the defect on a route."""
    if build is None:
        return Standing("unmeasured", "the build is not known, so nothing can be said about it")
    for row in rows:
        if build in row:
            return _inside(what, row, build)
    return Standing("unmeasured", _outside(rows, what, build))


def standing_between(defect: Defect, first: int | None, last: int | None) -> Standing:
    """Where every build from ``first`` to ``last`` stands; presumed at most, as none of them is named.

    An open end is taken for what it is: any build there may be.
    """
    for row in defect.builds:
        below = first is not None and first >= row.first
        above = row.last is None or (last is not None and last <= row.last)
        if below and above:
            where = f"{row.first} to {row.last}" if row.last else f"{row.first} and later"
            return Standing(PRESUMED[row.status], f"all builds it can be lie in the range b{where}")
    return Standing("unmeasured", "the builds it can be do not all stand alike")


def _inside(what: str, row: BuildRange, build: int) -> Standing:
    for witness in row.witnesses:
        if witness.build == build:
            return Standing(row.status, f"{what} {row.status} in {witness}")
    seen = "; ".join(str(witness) for _, witness in _neighbours((row,), build))
    return Standing(
        PRESUMED[row.status], f"b{build} itself was not looked at; {what} is {row.status} in {seen}"
    )


def _outside(rows: tuple[BuildRange, ...], what: str, build: int) -> str:
    if not rows:
        return f"no released build is known to have {what}; it is kept for its history"
    sides = [f"{status} in {witness}" for status, witness in _neighbours(rows, build)]
    return f"nobody looked at {what} in b{build}; nearest: {'; '.join(sides)}"


def _neighbours(rows: tuple[BuildRange, ...], build: int) -> list[tuple[str, Witness]]:
    """The nearest witness below and the nearest above, each with its range's status."""
    seen = sorted(((row.status, w) for row in rows for w in row.witnesses), key=lambda pair: pair[1].build)
    below = [pair for pair in seen if pair[1].build < build]
    above = [pair for pair in seen if pair[1].build > build]
    return below[-1:] + above[:1]
