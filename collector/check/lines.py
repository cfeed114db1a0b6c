"""Short outputs: one line a server for a monitoring system, and node_exporter's textfile format."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from analyzers.errors import UserError
from analyzers.privacy.visible import visible
from collector.check.exposure import CLEAR, EXPOSED, OFF, POSSIBLE
from collector.check.overview import View

WIDEST = 300  # characters of a line; check_mk and Nagios cut or wrap long ones
MAX_SERIES_SERVERS = 200  # servers with series of their own: more are counted only
MAX_LABEL = 100  # characters
PREFIX = "llama_blackbox_check_"
STANDINGS = (EXPOSED, POSSIBLE, CLEAR, OFF)


def one_line(view: View) -> str:
    """``EXPOSED llama-server pid 7 port 8080: exposed: D2; restart yes; …``; the status word is the first."""
    where = f"{visible(view.exposure.name)} pid {view.pid}"
    where += f" port {view.port}" if view.port else ""
    where += f" {view.readiness.unit}" if view.readiness.unit else ""
    parts = [view.exposure.headline, f"restart {view.restart.fires}", f"core {view.readiness.verdict}"]
    parts += [f"model file {one.state}" for one in view.weights.broken[:1]]
    parts += ["open to the network without a key"] if view.doors.open else []
    word = "BROKEN-MODEL" if view.broken_model and view.verdict in (CLEAR, OFF) else view.verdict.upper()
    return visible(f"{word} {where}: {'; '.join(parts)}").replace("\n", " ")[:WIDEST]


def skipped_line(line: str) -> str:
    return visible(f"UNREAD {line}").replace("\n", " ")[:WIDEST]


def textfile(views: Sequence[View], skipped: int, now: float) -> str:
    """The whole file. Labels are a server's name (unit, else port, else PID), its role, and words of ours:
    never a path, a model or a key."""
    shown = list(zip(_labels(views), views, strict=True))[:MAX_SERIES_SERVERS]
    lines = [
        *_metric("timestamp_seconds", "Unix time of this check", [("", f"{now:.0f}")]),
        *_metric("servers", "llama-servers that were looked at", [("", str(len(views)))]),
        *_metric("not_looked_at", "processes of that name this user may not look into", [("", str(skipped))]),
        *_metric("defect", "1 for the standing of a known defect on a server", _defects(shown)),
        *_words("restart", "1 for whether a crash would be followed by a start", "fires", shown, _fires),
        *_words("cores", "1 for whether a crash would leave a core and a log", "verdict", shown, _cores),
        *_words(
            "reach", "1 for how widely the server listens", "scope", shown, lambda view: view.doors.scope
        ),
        *_metric("open", "1 when it listens on the network and asks for no key", _ones(shown, "open")),
        *_metric(
            "model_file_broken", "1 when a file of the model is missing or another", _ones(shown, "model")
        ),
        *_metric("wake_seconds", "how long a wake takes, measured or estimated", _wakes(shown)),
        *_metric("sleep_idle_seconds", "its sleep limit, -1 for off", _limits(shown)),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, help: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    head = [f"# HELP {PREFIX}{name} {help}", f"# TYPE {PREFIX}{name} gauge"]
    return [*head, *(f"{PREFIX}{name}{labels} {value}" for labels, value in rows)]


Shown = Sequence[tuple[str, View]]


def _words(name: str, help: str, label: str, shown: Shown, word: Callable[[View], str]) -> list[str]:
    return _metric(name, help, [(f'{{{base},{label}="{word(view)}"}}', "1") for base, view in shown])


def _fires(view: View) -> str:
    return view.restart.fires


def _cores(view: View) -> str:
    return view.readiness.verdict


def _defects(shown: Shown) -> list[tuple[str, str]]:
    return [
        (f'{{{base},defect="{_safe(row.defect)}",standing="{row.standing}"}}', "1")
        for base, view in shown
        for row in view.exposure.defects
    ]


def _ones(shown: Shown, what: str) -> list[tuple[str, str]]:
    return [
        (f"{{{base}}}", str(int(view.doors.open if what == "open" else view.broken_model)))
        for base, view in shown
    ]


def _wakes(shown: Shown) -> list[tuple[str, str]]:
    return [
        (f'{{{base},how="{view.wake.how}"}}', f"{view.wake.seconds:.3f}")
        for base, view in shown
        if view.wake.seconds is not None
    ]


def _limits(shown: Shown) -> list[tuple[str, str]]:
    return [
        (f"{{{base}}}", str(view.exposure.sleep_idle_seconds))
        for base, view in shown
        if view.exposure.sleep_idle_seconds is not None
    ]


def _labels(views: Sequence[View]) -> Iterator[str]:
    """``server="llama.service:8080",role="standalone"``; a second of the same name gets its PID."""
    seen = set()
    for view in views:
        parts = [view.readiness.unit or "", f"port-{view.port}" if view.port else ""]
        name = _safe(":".join(part for part in parts if part) or f"pid-{view.pid}")
        name = f"{name}:pid-{view.pid}" if name in seen else name
        seen.add(name)
        yield f'server="{name}",role="{_safe(view.role)}"'


def _safe(text: str) -> str:
    return "".join(char if (char.isalnum() and char.isascii()) or char in "-_.:@" else "_" for char in text)[
        :MAX_LABEL
    ]


def write_textfile(path: Path, text: str) -> None:
    """Replaces ``path`` at once, never through a link. Raises UserError."""
    where = f"--textfile {path}"
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        remedy = "name a file in node_exporter's textfile folder itself, not through a link"
        raise UserError(
            f"its folder cannot be used: {problem.strerror}", where=where, remedy=remedy
        ) from None
    try:
        _replace(folder, path.name, text, where)
    finally:
        os.close(folder)


def _replace(folder: int, name: str, text: str, where: str) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise UserError("is no regular file", where=where, remedy="name another file, ending in .prom")
    draft = f".{name[:100]}.{secrets.token_hex(6)}.draft"  # node_exporter reads *.prom only
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o644, dir_fd=folder), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as problem:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        remedy = "run it as a user that may write there"
        raise UserError(f"cannot be written: {problem.strerror}", where=where, remedy=remedy) from None


def nothing(skipped: int) -> str:
    """The textfile of a host without a server."""
    return textfile([], skipped, time.time())


def all_fine(views: Sequence[View]) -> bool:
    """No defect applies, and every model file is the one that was loaded."""
    return all(view.verdict in (CLEAR, OFF) and not view.broken_model for view in views)
