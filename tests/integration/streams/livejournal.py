"""A journald of the test's own: a namespace beside the host's, volatile, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

JOURNALD = Path("/lib/systemd/systemd-journald")
DEADLINE = 10.0


class JournaldError(Exception):
    """The namespace's journald cannot be had here; the text says why."""


@contextmanager
def namespace(settings: str = "RateLimitIntervalSec=0\n") -> Iterator[str]:
    """The name of a namespace whose journald runs. Raises JournaldError."""
    name = f"bb{os.getpid()}"
    runtime, extra = Path(f"/run/systemd/journal.{name}"), Path(f"/run/systemd/journald@{name}.conf.d")
    try:
        runtime.mkdir(parents=True)
        extra.mkdir()
        (extra / "test.conf").write_text(f"[Journal]\nStorage=volatile\n{settings}")
        daemon = subprocess.Popen([JOURNALD, name], stderr=subprocess.DEVNULL)
    except OSError as problem:
        shutil.rmtree(runtime, ignore_errors=True)
        raise JournaldError(str(problem)) from None
    try:
        _until(lambda: (runtime / "stdout").exists() or daemon.poll() is not None)
        if daemon.poll() is not None:
            raise JournaldError(f"journald ended with status {daemon.returncode}")
        yield name
    finally:
        with suppress(ProcessLookupError):
            daemon.send_signal(signal.SIGTERM)
        daemon.wait(DEADLINE)
        shutil.rmtree(runtime, ignore_errors=True)
        shutil.rmtree(extra, ignore_errors=True)
        machine = Path("/etc/machine-id").read_text().strip()
        shutil.rmtree(Path(f"/run/log/journal/{machine}.{name}"), ignore_errors=True)


def _until(done: object) -> None:
    assert callable(done)
    end = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > end:
            raise JournaldError("journald made no socket in time")
        time.sleep(0.01)


def output(name: str, unit: str) -> socket.socket:
    """A stream like a service's stdout; whole lines are sent into it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(f"/run/systemd/journal.{name}/stdout")
    made.sendall(f"llama-server\n{unit}\n6\n0\n0\n0\n0\n".encode())
    return made
