"""Finds the keys a process was given, so that they are taken out wherever else they occur in the bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analyzers.bundle.content import MAX_SMALL, SAMPLE, look
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Process
from analyzers.privacy.redact import Redactor


def learn(
    redactor: Redactor,
    process: Process | None,
    files: Mapping[str, Path | bytes],
    evidence: Sequence[Evidence],
    kinds: Mapping[str, str],
) -> Redactor:
    """``redactor`` with the keys in the process, in facts, and in ``environ`` and ``cmdline`` files."""
    if process:
        redactor = redactor.knowing(args=process.args)
    for fact in evidence:
        args = fact.data.get("args")
        if isinstance(args, (list, tuple)):
            redactor = redactor.knowing(args=[str(arg) for arg in args])
    for name, source in files.items():
        redactor = _learn_file(redactor, name, source, kinds.get(name))
    return redactor


def _learn_file(redactor: Redactor, name: str, source: Path | bytes, kind: str | None) -> Redactor:
    if kind not in ("environ", "cmdline") and name.rsplit("/", 1)[-1] not in ("environ", "cmdline"):
        return redactor
    data = _start(source) if isinstance(source, bytes) or source.is_file() else b""
    form = look(data[:SAMPLE], name, kind).form
    text = data.decode("utf-8", "surrogateescape")
    if form == "cmdline":
        return redactor.knowing(args=text.split("\0"))
    entries = (entry.partition("=") for entry in text.split("\0" if "\0" in text else "\n"))
    return (
        redactor.knowing(env={name: value for name, _, value in entries}) if form == "environ" else redactor
    )


def _start(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:MAX_SMALL]
    try:
        with source.open("rb") as file:
            return file.read(MAX_SMALL)
    except OSError:
        return b""  # the same failure becomes a named gap when the file is taken in
