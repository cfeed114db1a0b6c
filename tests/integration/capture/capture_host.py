"""An installation as `capture install` makes it, where only root can write, and the socket's server."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from crash_lab import LIMIT, PATTERN, PYTHON, Place, pattern_set, until

from collector.capture.crash.settings import SETTINGS
from collector.capture.setup import install, undo
from collector.capture.setup.install import Wanted
from collector.capture.setup.layout import Layout

STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Host(Place):
    """``folder`` is the prefix."""

    layout: Layout = field(default_factory=Layout)


@contextmanager
def prefix() -> Iterator[Host]:
    """A folder below /run, whose every parent is root's."""
    folder = Path(f"/run/lbx{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    layout = Layout(prefix=folder, store=folder / "store", sysctls=(folder / "sysctl.d",))
    try:
        yield Host(folder, layout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def hosted(wanted: Wanted, previous: str | None = None) -> Iterator[Host]:
    """Installed while the context lasts; the kernel's settings come back whatever happens."""
    with prefix() as host, pattern_set(previous or PATTERN.read_text().rstrip("\n")):
        limit = LIMIT.read_text()
        install.apply(install.plan(host.layout, replace(wanted, persist=False)))
        host.settings((host.folder / SETTINGS).read_text() + "reserve = 0\n")
        try:
            yield host
        finally:
            if host.layout.state.exists():
                undo.apply(undo.removal(host.layout, force=True))
            LIMIT.write_text(limit)


@contextmanager
def served(host: Host, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The server as the unit starts it; stopped as a manager stops it, its work done."""
    words = [PYTHON, "-ISB", str(host.layout.server), str(path)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert server.stdout is not None
        assert b"listening" in server.stdout.readline()
        yield server
    finally:
        server.terminate()
        server.wait(STOP_SECONDS)


def unlimited() -> None:
    """In a child that will dump core."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def crash_together(program: Path, cwd: Path, count: int) -> list[int]:
    """PIDs of processes that crash at the same time; they are reaped."""
    running = [subprocess.Popen([program], cwd=cwd, preexec_fn=unlimited) for _ in range(count)]
    for process in running:
        process.wait()
    return [process.pid for process in running]


def kept(host: Host, pids: list[int]) -> bool:
    """All of them have a finished capture."""
    names = {name.name.split("-")[1] for name in host.captures()}
    return {str(pid) for pid in pids} <= names


def all_kept(host: Host, pids: list[int], deadline: float = 60.0) -> bool:
    return until(lambda: kept(host, pids) and not host.partial(), deadline)
