"""`capture adopt`: everything that is done with captures outside of the crash path, in one run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.kept.adopt import adopt, looked_at
from collector.capture.kept.captures import captures
from collector.capture.kept.filing import slim_full
from collector.capture.kept.missed import keep_missed
from collector.capture.kept.retention import clear_doomed, doomed, read_rules, throw_away
from collector.capture.kept.signatures import signature


def tidy(
    store: Path, rules_file: Path, *, dry_run: bool = False, since: float = 0.0, names: Sequence[str] = ()
) -> Iterator[str]:
    """One line for each thing that was done. Raises UserError: a second run, a damaged rules file.

    ``since``: Unix seconds of the installation; ``names``: further programs that it takes for servers.
    """
    rules = read_rules(rules_file)
    if not store.is_dir():
        yield f"{store}: no captures yet"
        return
    with _alone(store), _told(store):
        if dry_run:
            yield from (f"would adopt {folder.name}" for folder, why in looked_at(store) if why is None)
        else:
            yield from _adopted(store, since, names)
        yield from (f"left alone {folder.name}: {why}" for folder, why in looked_at(store) if why)
        for one, why in doomed(captures(store), rules, lambda each: signature(each, keep=not dry_run)):
            yield f"{'would throw away' if dry_run else 'threw away'} {one.id}: {why}"
            if not dry_run:
                throw_away(one)


def _adopted(store: Path, since: float, names: Sequence[str]) -> Iterator[str]:
    clear_doomed(store)
    yield from (f"{done.name}: {done.words}" for done in adopt(store))
    for one in keep_missed(store, since, names):
        yield f"PID {one.pid} ({one.comm}) has no capture: {one.why}"
    for capture in captures(store):
        said = slim_full(capture)
        if said is not None:
            yield said


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError("another run is at work there", where=str(store), remedy="wait for it") from None
    finally:
        os.close(descriptor)


@contextmanager
def _told(store: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        where = str(problem.filename or store)
        raise UserError(
            (problem.strerror or "error").lower(), where=where, remedy="make room, or run it as root"
        ) from None
