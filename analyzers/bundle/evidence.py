"""evidence.jsonl: one fact a line."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from analyzers.bundle import limits
from analyzers.bundle.folder import open_regular
from analyzers.contracts.bundle import EVIDENCE_NAME
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap


def read_evidence(path: Path) -> tuple[tuple[Evidence, ...], list[Gap]]:
    """The facts of ``path``. A line that is none becomes a named gap, so that one bad line costs one fact."""
    facts: list[Evidence] = []
    bad: list[int] = []
    try:
        with open_regular(path) as file:
            rest = _read(file, facts, bad)
    except OSError as error:
        return (), [Gap(what=EVIDENCE_NAME, why=f"cannot be read: {error.strerror or error}")]
    return tuple(facts), [*_bad_gap(bad), *rest]


def _read(file: BinaryIO, facts: list[Evidence], bad: list[int]) -> list[Gap]:
    left = limits.MAX_EVIDENCE
    for number in range(1, limits.MAX_EVIDENCE_LINES + 1):
        line = file.readline(limits.MAX_EVIDENCE_LINE)
        if not line:
            return []
        left -= len(line)
        if left < 0 or len(line) == limits.MAX_EVIDENCE_LINE:
            break
        _add(line, number, facts, bad)
    return [Gap(what=EVIDENCE_NAME, why=f"read up to line {number} only: it is too long")]


def _add(line: bytes, number: int, facts: list[Evidence], bad: list[int]) -> None:
    if not line.strip():
        return
    try:
        facts.append(Evidence.model_validate_json(line))
    except ValidationError:
        bad.append(number)


def _bad_gap(bad: list[int]) -> list[Gap]:
    if not bad:
        return []
    named = ", ".join(map(str, bad[: limits.MAX_NAMED])) + (" …" if len(bad) > limits.MAX_NAMED else "")
    return [Gap(what=EVIDENCE_NAME, why=f"{len(bad)} lines hold no fact that can be read (line {named})")]
