"""Remembers a run's findings in the local catalogue overlay, where triage, explain and check read them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from analyzers.catalogue.loader import catalogue
from analyzers.catalogue.model import LocalWitness
from analyzers.catalogue.overlay import SCHEMA, overlay_path, read_overlay
from analyzers.catalogue.tables import SIZE_LIMIT
from analyzers.contracts.trials import AFFECTED, BAD, SOUND, Finding, TrialRun
from analyzers.errors import UserError
from collector.lab.reference.cache import exclusive, publish
from collector.lab.reference.output import printable
from collector.lab.verify.writable import demand_room, reason, unwritable

HEAD = f"""# What `llama-blackbox verify … --update-catalogue` found on this machine. Entries are only ever
# added; to take one back, delete its [[witness]] block.
schema = {SCHEMA}
"""
STATUS = {AFFECTED: "affected", SOUND: "fixed"}
WHERE = "the catalogue overlay"
REMEDY = "free some space, or set XDG_DATA_HOME to a folder you may write to"
RUN_BYTES = 16 << 10  # a witness has half a kilobyte, with every route there is six; a run adds a few


def update_overlay(run: TrialRun) -> Path:
    """Add the findings of ``run`` to the overlay and give its path.

    A defect that was found makes its build a witness that it is affected; a clean run one for that build
    alone, with its number of trials and what they leave possible. An interrupted run, and a finding that
    stayed open, add nothing. Raises UserError when the file there cannot be read (it is left as it is) or
    the new one cannot be written.
    """
    path = _demanded_path()
    found = list(witnesses_of(run))
    try:
        _add(path, found)
    except OSError as error:
        raise unwritable(path, f"cannot be written ({reason(error)})", REMEDY) from None
    return path


def demand_updatable() -> None:
    """Raises UserError when the overlay could not be written, or not read back, as far as that can be told
    before there is anything to write."""
    path = _demanded_path()
    demand_room(path.parent, REMEDY)
    with suppress(FileNotFoundError):
        _demand_lock(path)
    if path.exists() or path.is_symlink():
        read_overlay(path)
        demand_room(path.resolve().parent, REMEDY)
        if path.stat().st_size + RUN_BYTES > SIZE_LIMIT:
            raise _full(path)


def _demanded_path() -> Path:
    path = overlay_path()
    if path is None:
        raise UserError("there is no home folder to keep it in", where=WHERE, remedy="set XDG_DATA_HOME")
    return path


def _demand_lock(path: Path) -> None:
    lock = path.with_suffix(".lock")
    try:
        os.close(os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unwritable(lock, f"cannot be opened ({reason(error)})", "remove it") from None


def _full(path: Path) -> UserError:
    return UserError(
        "is full",
        where=str(path),
        remedy="delete [[witness]] blocks you no longer need, or move the file away",
    )


def _add(path: Path, found: list[LocalWitness]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(path.with_suffix(".lock")):
        there = path.exists() or path.is_symlink()
        known = read_overlay(path) if there else ()
        old = path.read_text("utf-8") if there else HEAD
        fresh = [witness for witness in found if witness not in known]
        new = old.rstrip("\n") + "\n" + "".join(map(block, fresh))
        if len(new.encode()) > SIZE_LIMIT:
            raise _full(path)
        if fresh or not there:
            publish(path.resolve() if there else path, lambda draft: _write(draft, new))


def _write(draft: Path, text: str) -> None:
    draft.write_text(text, encoding="utf-8")
    read_overlay(draft)  # what cannot be read back never takes the old one's place


def witnesses_of(run: TrialRun) -> Iterator[LocalWitness]:
    """The findings of a finished run that say something, as entries of the overlay."""
    if run.interrupted or not (run.subject.build_id or _stock(run)):
        return
    known = {defect.id for defect in catalogue().defects}
    for finding in run.findings:
        if finding.defect in known and _says(finding):
            yield _witness(run, finding)


def _says(finding: Finding) -> bool:
    """Of a survey's own questions (is every answer right?) a catalogue of defects knows nothing."""
    bounded = finding.conclusion == AFFECTED or finding.upper_bound is not None
    return finding.conclusion in STATUS and finding.reached > 0 and bounded


def _witness(run: TrialRun, finding: Finding) -> LocalWitness:
    status = STATUS[finding.conclusion]
    shown = f"{finding.shown} of {finding.reached} trials showed it"
    kind = " with AddressSanitizer" if run.subject.asan else ""
    return LocalWitness(
        defect=finding.defect,
        status=status,
        build=run.subject.build,
        build_id=run.subject.build_id,
        stock=_stock(run),
        date=run.date,
        how=printable(f"verify {run.method}{kind}: {shown}"),
        trials=finding.reached,
        bound=finding.upper_bound if status == "fixed" else None,
        routes=tuple(_routes(run, finding)) if status == "affected" else (),
    )


def _stock(run: TrialRun) -> bool:
    """The subject speaks for its build's number: a wheel known by its build-id, or our own unpatched build.

    A binary or a tree of the user's own may be anything, whatever number it prints."""
    subject = run.subject
    if subject.build is None or subject.fix is not None:
        return False
    known = catalogue().known_build(subject.build_id)
    return subject.stock or (known is not None and known.build == subject.build)


def _routes(run: TrialRun, finding: Finding) -> Iterable[str]:
    shown = (t for t in run.trials if t.defect == finding.defect and t.reached and t.outcome in BAD)
    named = (t for t in shown if t.judgement is None or t.judgement.defect in (None, finding.defect))
    return dict.fromkeys(trial.route for trial in named)


def block(witness: LocalWitness) -> str:
    """One entry as TOML. A JSON string is a TOML string as long as it is printable."""
    rows = ((field.name, getattr(witness, field.name)) for field in fields(witness))
    lines = [f"{name} = {_value(value)}" for name, value in rows if value is not None]
    return "\n[[witness]]\n" + "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False)
    return json.dumps(value)
