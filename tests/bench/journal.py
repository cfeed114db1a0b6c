"""A journal to Evidence objects beside the usual ways to read one, and a live journal's latency and cost.

Run as a script with a way's name and a folder it reads that folder once and prints what it took as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.logs import LAUNCH, REQUEST, STEP_MICROSECONDS, stamp
from tests.bench.measure import MeasureError, run
from tests.bench.table import Row, Section, at_least, failure, mebibytes

WRITER = Path("/lib/systemd/systemd-journal-remote")
ENTRIES = 200_000
SERVERS = 100
ROUNDS = 5
GOALS = {"get_next": 3.0, "json": 4.0}
NAMES = {"get_next": "`Reader.get_next`", "json": "`journalctl -o json` into json.loads"}
Reading = Callable[[], "tuple[int, int]"]  # gives (entries, Evidence objects)
START, UPTIME = 1_796_187_355_000_000, 100_000_000  # microseconds
FIRST_PID = 4000
LATENCY_GOAL, LATENCY_SECONDS = 0.4, 20.0
LINES_SECOND, LOAD_SECONDS, LOAD_GOAL = 1000, 20.0, 0.02
IDLE_SECONDS = 10.0
TELLING = (LAUNCH, REQUEST[-1])
OTHERS = "GET /index.html 200 in {task} ms"  # of programs that are no servers: two entries in three

# What journald writes for a line of a service's output: 17 fields besides the address and the boot.
ENTRY = """__CURSOR=s=00000000000000000000000000000001;i={number:x}
__REALTIME_TIMESTAMP={wall}
__MONOTONIC_TIMESTAMP={mono}
_BOOT_ID=0123456789abcdef0123456789abcdef
_TRANSPORT=stdout
_STREAM_ID=aaaabbbbccccddddaaaabbbb{pid:08x}
PRIORITY=6
SYSLOG_FACILITY=3
SYSLOG_IDENTIFIER={comm}
_PID={pid}
_UID=990
_GID=990
_COMM={comm}
_EXE=/usr/local/bin/{comm}
_CMDLINE=/usr/local/bin/{comm} --port 80{port:02d} -m /srv/models/tiny.gguf
_CAP_EFFECTIVE=0
_SYSTEMD_CGROUP=/system.slice/{comm}@{port}.service
_SYSTEMD_UNIT={comm}@{port}.service
_SYSTEMD_SLICE=system.slice
_MACHINE_ID=aaaabbbbccccddddaaaabbbbccccdddd
MESSAGE={message}

"""


@dataclass(frozen=True)
class Mix:
    """``lines`` repeat for each server; ``others``: how many entries of other programs stand beside one."""

    name: str
    lines: tuple[str, ...]
    others: int


DENSE = Mix("every entry a telling line", TELLING, 0)
REAL = Mix("2 of 27 entries telling, two in three of other programs", REQUEST, 2)


def measure(rounds: int = ROUNDS) -> list[Section]:
    """Raises MeasureError where the parts that write a journal are missing."""
    if importlib.util.find_spec("systemd") is None:
        raise MeasureError("systemd-python is not installed")
    if not WRITER.exists():
        raise MeasureError("systemd-journal-remote is not installed")
    rows = [row for mix in (DENSE, REAL) for row in _rates(mix, rounds)]
    material = (
        f"{ENTRIES:,} entries of 17 fields, of {SERVERS} servers, written by systemd-journal-remote; each "
        "way reads all of it in a fresh process, taking turns; CPU seconds, journalctl's own included."
    )
    return [Section("Journal", tuple(rows), material), Section("Live journal", tuple(_live()))]


def _rates(mix: Mix, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="llama-blackbox-bench-") as name:
        folder = Path(name)
        write(folder, mix)
        taken: dict[str, list[Taken]] = {"ours": [], "get_next": [], "json": []}
        for _ in range(rounds):
            for way, found in taken.items():
                found.append(read(way, folder))
    ours = median(one.rate for one in taken["ours"])
    told, peak = taken["ours"][0].told, max(one.peak for one in taken["ours"])
    for way, goal in GOALS.items():
        theirs = median(one.rate for one in taken[way])
        aim, met = at_least(ours / theirs, goal)
        yield Row(
            f"journal to Evidence, {mix.name}, beside {NAMES[way]}",
            f"{ours / theirs:.2f} times: {ours:,.0f} beside {theirs:,.0f} entries a CPU second",
            f"JournalStream.poll to the end ({told:,} Evidence, peak {mebibytes(peak)}), medians of {rounds}",
            aim,
            met,
        )


def write(folder: Path, mix: Mix, entries: int = ENTRIES) -> None:
    """A journal of ``entries`` entries in ``folder``. Raises MeasureError when it cannot be written."""
    source = folder / "source"
    with source.open("w", encoding="ascii") as file:
        file.writelines(_entries(mix, entries))
    run([WRITER, f"--output={folder / 'bench.journal'}", source])
    source.unlink()


def _entries(mix: Mix, entries: int) -> Iterator[str]:
    for number in range(entries):
        at = number * STEP_MICROSECONDS
        turn, other = divmod(number, mix.others + 1)
        server = turn % SERVERS
        task = turn // SERVERS
        line = mix.lines[task % len(mix.lines)].format(task=task)
        comm = "nginx" if other else "llama-server"
        yield ENTRY.format(
            number=number,
            wall=START + at,
            mono=UPTIME + at,
            pid=FIRST_PID + server + SERVERS * other,
            port=server,
            comm=comm,
            message=OTHERS.format(task=task) if other else f"{stamp(at)} {line}",
        )


@dataclass(frozen=True)
class Taken:
    """One reading: entries a CPU second, Evidence objects, peak resident bytes."""

    rate: float
    told: int
    peak: int


def read(way: str, folder: Path) -> Taken:
    """Read a journal ``way`` in a fresh process. Raises MeasureError when it did not read all of it."""
    said = json.loads(run([sys.executable, "-m", "tests.bench.journal", way, folder]).output)
    if said["entries"] != ENTRIES:
        raise MeasureError(f"{way} read {said['entries']} of {ENTRIES} entries")
    return Taken(said["entries"] / said["cpu"], said["told"], said["peak"])


def _ours(folder: Path) -> Reading:
    from collector.sources.follow.journal import JournalStream
    from collector.sources.follow.journal_open import Journal

    def wanted(pid: int | None, unit: str | None) -> bool:
        return unit is not None and unit.startswith("llama-server")

    def reading() -> tuple[int, int]:
        stream = JournalStream(Journal(folder), wanted, since=0.0)
        while stream.poll().more:
            pass
        health = stream.health()
        return health.read, health.told

    return reading


def _get_next(folder: Path) -> Reading:
    from systemd import journal

    def reading() -> tuple[int, int]:
        reader, count = journal.Reader(path=str(folder)), 0
        while reader.get_next():
            count += 1
        return count, 0

    return reading


def _json(folder: Path) -> Reading:
    argv = ["journalctl", "-D", str(folder), "-o", "json", "--no-pager", "-q", "--all"]

    def reading() -> tuple[int, int]:
        count = 0
        with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=1 << 20) as tool:
            assert tool.stdout is not None
            for line in tool.stdout:
                json.loads(line)
                count += 1
        return count, 0

    return reading


WAYS: dict[str, Callable[[Path], Reading]] = {"ours": _ours, "get_next": _get_next, "json": _json}


def _child(way: str, folder: Path) -> None:
    from tests.bench.logs import high_water

    reading = WAYS[way](folder)  # imports, which are paid once
    before = _cpu()
    entries, told = reading()
    print(json.dumps({"entries": entries, "told": told, "cpu": _cpu() - before, "peak": high_water()}))


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _live() -> Iterator[Row]:
    """A namespace's journald, started for this."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "streams"))
    from livejournal import JournaldError, namespace  # type: ignore[import-not-found]

    try:
        with namespace() as name:
            yield from _latency(name)
            yield _load(name)
    except JournaldError as problem:
        yield failure("a live journal", str(problem))


def _stream(name: str):  # type: ignore[no-untyped-def]
    from collector.sources.follow.journal import JournalStream
    from collector.sources.follow.journal_open import Journal

    stream = JournalStream(Journal(namespace=name), lambda pid, unit: bool(pid), since=time.time())
    stream.poll()
    return stream


def _latency(name: str) -> Iterator[Row]:
    from livejournal import output

    from collector.sources.follow.journal import POLL_SECONDS

    writer, stream = output(name, "llama-server@1.service"), _stream(name)
    sent: list[float] = []
    waits: list[float] = []
    chance, due, end = random.Random(7), 0.0, time.monotonic() + LATENCY_SECONDS
    while time.monotonic() < end:
        if time.monotonic() >= due:
            line = f"0.00.000.001 {LAUNCH.format(task=len(sent))}\n"
            sent.append(time.monotonic())
            writer.sendall(line.encode())
            due = time.monotonic() + chance.uniform(0.02, 0.3)
        select.select([stream.fileno()], [], [], min(POLL_SECONDS, max(0.0, due - time.monotonic())))
        if due - time.monotonic() > 0 or waits:
            found = stream.poll().evidence
            waits += [time.monotonic() - sent[one.data["task_id"]] for one in found]
    writer.close()
    yield from _latency_rows(sorted(waits), len(sent))
    yield _idle(stream, POLL_SECONDS)
    stream.close()


def _latency_rows(waits: list[float], sent: int) -> Iterator[Row]:
    if len(waits) < sent * 0.9:
        yield failure("line to evidence", f"{len(waits)} of {sent} lines came")
        return
    last = waits[int(len(waits) * 0.99)]
    yield Row(
        "line to evidence in a live journal",
        f"{last * 1000:.0f} ms at the 99th percentile, median {median(waits) * 1000:.0f} ms",
        f"{len(waits)} lines into a namespace's journald at random moments, read by polling and inotify",
        f"under {LATENCY_GOAL * 1000:.0f} ms",
        last < LATENCY_GOAL,
    )


def _idle(stream, every: float) -> Row:  # type: ignore[no-untyped-def]
    begun, end = time.process_time(), time.monotonic() + IDLE_SECONDS
    while time.monotonic() < end:
        select.select([stream.fileno()], [], [], every)
        stream.poll()
    share = (time.process_time() - begun) / IDLE_SECONDS
    return Row(
        "a silent journal", f"{share:.2%} of a core", f"polled every {every:g} s for {IDLE_SECONDS:.0f} s"
    )


def _load(name: str) -> Row:
    """A child writes; this process reads, and only its own CPU time counts."""
    from collector.sources.follow.journal import POLL_SECONDS

    stream = _stream(name)
    child = os.fork()
    if child == 0:
        try:
            _write_load(name)
        finally:
            os._exit(0)
    begun, start, told = time.process_time(), time.monotonic(), 0
    before = sum(one.lines for one in stream.seen().values())
    while time.monotonic() - start < LOAD_SECONDS:
        time.sleep(POLL_SECONDS)
        told += len(stream.poll().evidence)
    share = (time.process_time() - begun) / (time.monotonic() - start)
    lines = sum(one.lines for one in stream.seen().values()) - before
    os.waitpid(child, 0)
    stream.close()
    return Row(
        f"{SERVERS} servers at {LINES_SECOND // SERVERS} lines a second each",
        f"{share:.2%} of a core for {lines / LOAD_SECONDS:.0f} lines/s, {told / LOAD_SECONDS:.0f} told",
        f"a namespace's journald, polled every {POLL_SECONDS:g} s for {LOAD_SECONDS:.0f} s; the reader alone",
        f"under {LOAD_GOAL:.0%}, for the whole agent",
        share < LOAD_GOAL,
    )


def _write_load(name: str) -> None:
    from livejournal import output

    writers = [output(name, f"llama-server@{number}.service") for number in range(SERVERS)]
    tick, start = SERVERS / LINES_SECOND, time.monotonic()
    for turn in range(int(LOAD_SECONDS / tick)):
        for number, writer in enumerate(writers):
            line = f"{stamp(turn * 100_000)} {REQUEST[(turn + number) % len(REQUEST)].format(task=turn)}\n"
            writer.sendall(line.encode())
        time.sleep(max(0.0, start + (turn + 1) * tick - time.monotonic()))


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]))
