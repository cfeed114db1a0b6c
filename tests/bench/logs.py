"""Log parsing beside grep with the same phrases, and memory for short and long logs.

Run as a script with a file's path it parses that file once and prints seconds and peak memory as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from statistics import median

from analyzers.logs.telling import phrases_regex
from tests.bench.measure import MeasureError, alternating, run, warm
from tests.bench.table import MEBI, Row, Section, at_least, mebibytes, seconds

ROUNDS = 5
RATE_BYTES = 100 * MEBI
SHORT_BYTES, LONG_BYTES = 50 * MEBI, 500 * MEBI
RATE_GOAL = 0.25
FLAT = 1.1  # "flat" means that ten times the log takes no more than a tenth more memory
LAUNCH = "I slot launch_slot_: id  0 | task {task} | processing task, is_child = 0"
RELEASE = "I slot      release: id  0 | task {task} | stop processing: n_tokens = 22, truncated = 0"
# The lines that b11549 prints for one short completion, in its order; two of the nine are telling.
REQUEST = (
    "I slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 1.000 (> 0.100 "
    "thold), f_keep = 0.682",
    LAUNCH,
    "W slot   operator(): id  0 | task {task} | need to evaluate at least 1 token for each active slot "
    "(n_past = 15, task.n_tokens() = 15)",
    "W slot   operator(): id  0 | task {task} | n_past was set to 14",
    "I slot print_timing: id  0 | task {task} | prompt eval time =       0.14 ms /     1 tokens (    0.14 "
    "ms per token,  7246.38 tokens per second)",
    "I slot print_timing: id  0 | task {task} |        eval time =       0.74 ms /     8 tokens (    0.11 "
    "ms per token,  9510.87 tokens per second)",
    "I slot print_timing: id  0 | task {task} |       total time =       0.87 ms /     9 tokens",
    "I slot print_timing: id  0 | task {task} |    graphs reused =         38",
    RELEASE,
)
QUIET = tuple(line for line in REQUEST if line not in (LAUNCH, RELEASE))
STEP_MICROSECONDS = 130  # between two lines


@dataclass(frozen=True)
class Shape:
    """One kind of log: the lines that repeat, with how many of them are telling."""

    name: str
    lines: tuple[str, ...]

    @property
    def share(self) -> str:
        telling = sum(line in (LAUNCH, RELEASE) for line in self.lines)
        return f"{telling} telling in {len(self.lines)}"


SPARSE = Shape("sparse", (*QUIET * 28, LAUNCH, RELEASE))
BUSY = Shape("a busy server's", REQUEST)
DENSE = Shape("dense", (LAUNCH, RELEASE))
START = (
    "I srv          init: initializing ...",
    "I srv          init: build_info: b0-unknown",
    "I srv    load_model: loading model '/srv/models/tiny.gguf'",
    "I srv          init: model loaded",
    "I srv          init: listening on http://127.0.0.1:8080",
)


def measure(rounds: int = ROUNDS) -> Section:
    with tempfile.TemporaryDirectory(prefix="llama-blackbox-bench-") as folder:
        rates = [_rate(shape, Path(folder), rounds) for shape in (SPARSE, BUSY, DENSE)]
        memory = _memory(Path(folder))
    material = (
        f"Written for the run: {mebibytes(RATE_BYTES)} of the lines that a server of build b11549 prints, "
        "with rising stamps. The pattern for grep is the alternation of the parser's own telling phrases."
    )
    return Section("Logs", (*rates, memory), material)


def _rate(shape: Shape, folder: Path, rounds: int) -> Row:
    path = folder / "rate.log"
    size = write(path, shape, RATE_BYTES)
    warm(path)
    pattern = phrases_regex()

    def ours() -> float:
        return parse(path).seconds

    def grep() -> float:
        return run(["grep", "-cE", pattern, str(path)], expected=(0, 1), variables={"LC_ALL": "C"}).seconds

    parsed, grepped = alternating(rounds, ours, grep)
    path.unlink()
    rate, other = size / MEBI / median(parsed), size / MEBI / median(grepped)
    goal, met = at_least(rate / other, RATE_GOAL)
    return Row(
        f"parsing a log, {shape.name} ({shape.share}), beside grep",
        f"{rate / other:.2f} times grep's rate: {rate:,.0f} beside {other:,.0f} MiB/s",
        f"`read_text` inside a fresh process {seconds(parsed)}, `LC_ALL=C grep -cE` {seconds(grepped)}; "
        f"cached file, medians of {rounds}, taking turns",
        f"{goal} grep's rate",
        met,
    )


def _memory(folder: Path) -> Row:
    peaks = []
    for size in (SHORT_BYTES, LONG_BYTES):
        path = folder / "memory.log"
        write(path, BUSY, size)
        peaks.append(parse(path).peak)
        path.unlink()
    ratio = peaks[1] / peaks[0]
    return Row(
        f"memory for a log of {mebibytes(LONG_BYTES)} beside one of {mebibytes(SHORT_BYTES)}",
        f"{ratio:.2f} times: {mebibytes(peaks[1])} beside {mebibytes(peaks[0])}",
        "the kernel's high-water mark of the parsing process, interpreter included, one run each",
        f"flat: at most {FLAT:g} times",
        ratio <= FLAT,
    )


def write(path: Path, shape: Shape, size: int) -> int:
    """Write a server's log of about ``size`` bytes; returns its exact size."""
    with path.open("w", encoding="ascii") as file:
        for block in _blocks(shape):
            file.write(block)
            if file.tell() >= size:
                return file.tell()
    return 0


def _blocks(shape: Shape) -> Iterator[str]:
    """One piece per request, with rising stamps; without end."""
    micro = 0
    for task, lines in enumerate(chain([START], repeat(shape.lines))):
        rows: list[str] = []
        for line in lines:
            micro += STEP_MICROSECONDS
            rows.append(f"{stamp(micro)} {line.format(task=task)}\n")
        yield "".join(rows)


def stamp(micro: int) -> str:
    """minutes.seconds.milliseconds.microseconds since the logger started, as the server prints it."""
    second, rest = divmod(micro, 1_000_000)
    return f"{second // 60}.{second % 60:02d}.{rest // 1000:03d}.{rest % 1000:03d}"


@dataclass(frozen=True)
class Parsed:
    """``seconds`` of the parsing alone; ``peak`` resident bytes of its process; ``events`` counted."""

    seconds: float
    peak: int
    events: int


def parse(path: Path) -> Parsed:
    """Parse in a fresh process. Raises MeasureError when nothing was found in the log."""
    said = json.loads(run([sys.executable, "-m", "tests.bench.logs", path]).output)
    if not said["events"]:
        raise MeasureError("the parser found no telling line in the log")
    return Parsed(said["seconds"], said["peak"], said["events"])


def _child(path: str) -> None:
    from analyzers.logs.scan import read_text

    begun = time.perf_counter()
    reading = read_text(path)
    spent = time.perf_counter() - begun
    print(json.dumps({"seconds": spent, "peak": high_water(), "events": sum(reading.counts.values())}))


def high_water() -> int:
    """Most resident bytes this program ever had. Not ru_maxrss: that one keeps what the process had before
    exec, which is the memory of whoever started it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise MeasureError("the kernel names no high-water mark")


if __name__ == "__main__":
    _child(sys.argv[1])
