"""kernel.core_pattern, set for a moment and restored whatever happens; small programs that crash.

``installed`` copies the crash path to a folder of its own, as an installation does, for the kernel to run.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import collector.capture.crash as crash_package
from collector.capture.crash.request import core_pattern
from collector.capture.crash.settings import PREVIOUS, SETTINGS, written

PATTERN = Path("/proc/sys/kernel/core_pattern")
LIMIT = Path("/proc/sys/kernel/core_pipe_limit")
LOCK = Path("/tmp/llama-blackbox-core-pattern.lock")
SOURCE = Path(crash_package.__file__).parent
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
DEADLINE = 20.0

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(PATTERN, os.W_OK), reason="only root may set kernel.core_pattern"
)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
# Waits for the end of its input, however its parent ends, and puts the old value back; it holds the lock too.
_GUARD = 'read x; printf "%s\\n" "$1" > "$2"; printf "%s\\n" "$3" > "$4"'


@contextmanager
def pattern_set(line: str, pipe_limit: int = 0) -> Iterator[None]:
    """``line`` in kernel.core_pattern, alone on this machine; the former value afterwards, killed or not."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = [PATTERN.read_text().rstrip("\n"), str(PATTERN), LIMIT.read_text().strip(), str(LIMIT)]
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *old], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)
        )
        try:
            PATTERN.write_text(line + "\n")
            LIMIT.write_text(f"{pipe_limit}\n")
            yield
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            guard.wait(DEADLINE)


@dataclass(frozen=True)
class Place:
    """An installation: ``folder`` with code, settings and previous pattern; ``store`` below it."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def line(self) -> str:
        return core_pattern(PYTHON, str(self.folder / "crash" / "__main__.py"))

    def settings(self, text: str) -> None:
        (self.folder / SETTINGS).write_text(text)

    def previous(self, line: str) -> None:
        (self.folder / PREVIOUS).write_text(line + "\n")

    def captures(self) -> list[Path]:
        return sorted(path for path in self.store.glob("*") if not path.name.startswith("."))

    def partial(self) -> list[Path]:
        return sorted(self.store.glob(".partial-*"))

    def one(self) -> Path:
        """The only capture, once it is complete."""
        assert until(lambda: len(self.captures()) == 1 and not self.partial()), self.told()
        return self.captures()[0]

    def of(self, pid: int) -> Path:
        """The complete capture of ``pid``: another server of this machine may die in the same seconds."""
        assert until(lambda: bool(self._named(pid))), self.told()
        return self._named(pid)[0]

    def _named(self, pid: int) -> list[Path]:
        return [path for path in self.captures() if f"-{pid}-" in path.name]

    def told(self) -> str:
        traces = [path.read_text().strip() for path in self.store.glob(".partial-*/trace.json")]
        return f"{self.captures()} {traces}"


@contextmanager
def place(previous: str = "core", mode: str = "minimal", names: tuple[str, ...] = ()) -> Iterator[Place]:
    """A new installation that nobody runs yet. Its path is short: the kernel takes 127 characters."""
    folder = Path(tempfile.mkdtemp(prefix="lbc-", dir="/tmp"))
    try:
        shutil.copytree(SOURCE, folder / "crash", ignore=shutil.ignore_patterns("__pycache__"))
        made = Place(folder)
        subprocess.run([PYTHON, "-m", "compileall", "-q", str(folder / "crash")], check=True)
        made.settings(written(mode, str(made.store), names) + "reserve = 0\n")
        made.previous(previous)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def installed(
    previous: str = "core", mode: str = "minimal", names: tuple[str, ...] = (), pipe_limit: int = 0
) -> Iterator[Place]:
    """A new installation that the kernel runs while the context lasts."""
    with place(previous, mode, names) as made, pattern_set(made.line, pipe_limit):
        yield made


def until(condition: Callable[[], bool], deadline: float = DEADLINE) -> bool:
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def manifest(capture: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((capture / "capture.json").read_text())
    return found


def table(capture: Path, name: str) -> Any:
    return json.loads((capture / name).read_text())


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    """A small C program."""
    (folder / f"{name}.c").write_text(source)
    out = folder / name
    subprocess.run(["gcc", "-g", "-O0", "-o", out, folder / f"{name}.c", "-lpthread", *flags], check=True)
    return out


def crash(program: Path, *args: str, cwd: Path | None = None, **more: Any) -> int:
    """Run it to its end; the exit status as subprocess gives it."""
    done = subprocess.run(
        [program, *args], cwd=cwd or program.parent, capture_output=True, check=False, **more
    )
    return done.returncode


CRASHER = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  size_t n = argc > 1 ? strtoul(argv[1], 0, 10) << 20 : 0;
  if (n) { char *p = malloc(n); memset(p, 7, n); }
  *(volatile int *)8 = 1;
  return 0;
}
"""

THREADS = """
#include <pthread.h>
#include <string.h>
#include <unistd.h>
static void *deep(void *arg, int n) { volatile char pad[200]; memset((char *)pad, n, 200);
  if (n) return deep(arg, n - 1); if (arg) { *(volatile int *)8 = 1; } for (;;) pause(); }
static void *run(void *arg) { return deep(arg, 30); }
int main(void) {
  pthread_t t;
  for (int i = 0; i < 19; i++) pthread_create(&t, 0, run, 0);
  usleep(200000);
  pthread_create(&t, 0, run, (void *)1);
  for (;;) pause();
}
"""
