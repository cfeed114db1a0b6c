"""Runs a program and notes when it wrote what, when it ended, and how much memory its family had."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
ROOT = Path(__file__).resolve().parents[2]
SAMPLE_SECONDS = 0.001
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
READ_BYTES = 1 << 20
# gdb needs half a minute for an endless recursion on a busy machine; this is for one that hangs.
LIMIT_SECONDS = 600.0


class MeasureError(Exception):
    """A figure that cannot be measured on this machine or in this run; the text says why."""


@dataclass(frozen=True)
class Chunk:
    """One piece of output, ``at`` seconds after the start of the program."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Sample:
    """Resident bytes of a process and all its descendants, ``at`` seconds after its start. A page that
    two of them share counts twice, so this is never too little."""

    at: float
    size: int


@dataclass(frozen=True)
class Run:
    """One finished program. ``seconds`` from before its start until it was reaped."""

    seconds: float
    status: int
    chunks: tuple[Chunk, ...]
    samples: tuple[Sample, ...] = ()

    @property
    def output(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    def first(self, text: bytes) -> float:
        """When ``text`` had been written. Raises MeasureError when it never was."""
        seen = b""
        for chunk in self.chunks:
            seen += chunk.data
            if text in seen:
                return chunk.at
        raise MeasureError(f"the output never named {text.decode()}")

    def peak(self, begin: float = 0.0, end: float = float("inf")) -> int:
        """The most memory between two moments, in bytes. Raises MeasureError without a sample there."""
        sizes = [sample.size for sample in self.samples if begin <= sample.at <= end]
        if not sizes:
            raise MeasureError("no memory sample was taken in that stretch")
        return max(sizes)


def run(
    argv: Sequence[str | Path],
    *,
    watch_memory: bool = False,
    expected: Sequence[int] = (0,),
    variables: Mapping[str, str] | None = None,
) -> Run:
    """Run ``argv`` to its end. Watching memory costs time, so such a run is not for its times.

    Raises MeasureError when it cannot be started, takes too long, or ends with another status.
    """
    with tempfile.TemporaryFile() as complaints:
        begun = time.perf_counter()
        try:
            child = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                cwd=ROOT,
                env={**os.environ, **(variables or {})},
            )
        except OSError as error:
            raise MeasureError(f"{argv[0]} cannot be started ({error.strerror})") from None
        watcher = _Watcher(child.pid, begun) if watch_memory else None
        chunks, status, ended = _follow(child, begun)
        if status not in expected:
            complaints.seek(0)
            last = complaints.read()[-300:].decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise MeasureError(f"{Path(argv[0]).name} ended with status {status}: {last or 'nothing said'}")
    return Run(ended, status, tuple(chunks), watcher.finish() if watcher else ())


def _follow(child: subprocess.Popen[bytes], begun: float) -> tuple[list[Chunk], int, float]:
    assert child.stdout is not None
    chunks: list[Chunk] = []
    guard = threading.Timer(LIMIT_SECONDS, child.kill)
    guard.start()
    try:
        while data := os.read(child.stdout.fileno(), READ_BYTES):
            chunks.append(Chunk(time.perf_counter() - begun, data))
        status = child.wait()
        return chunks, status, time.perf_counter() - begun
    finally:
        guard.cancel()
        child.stdout.close()
        if child.poll() is None:
            child.kill()
            child.wait()


class _Watcher(threading.Thread):
    """Samples the memory of a process tree until told to finish."""

    def __init__(self, pid: int, begun: float) -> None:
        super().__init__(daemon=True)
        self._pid, self._begun = pid, begun
        self._done = threading.Event()
        self._samples: list[Sample] = []
        self.start()

    def run(self) -> None:
        while not self._done.is_set():
            size = sum(resident(pid) for pid in family(self._pid))
            self._samples.append(Sample(time.perf_counter() - self._begun, size))
            self._done.wait(SAMPLE_SECONDS)

    def finish(self) -> tuple[Sample, ...]:
        self._done.set()
        self.join()
        return tuple(self._samples)


def family(pid: int) -> Iterator[int]:
    """``pid`` and its descendants as far as they live."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError, ValueError):
            for child in path.read_text().split():
                yield from family(int(child))


def resident(pid: int) -> int:
    """Resident bytes of one process; 0 when it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def alternating(count: int, one: Callable[[], A], other: Callable[[], B]) -> tuple[list[A], list[B]]:
    """Both measures ``count`` times, taking turns, so that a change of the machine's load hits both alike."""
    pairs = [(one(), other()) for _ in range(count)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def warm(path: Path) -> None:
    """Read a file once, so that every measured run finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass
