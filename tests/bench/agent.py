"""What the agent itself costs: processor share and memory, idle beside one server and beside a hundred.

``python -m tests.bench.agent [--seconds N]``. The hundred are stand-ins: a small program called llama-server
that listens, and prints ten lines a second of the server's own grammar into a file. Probes are off, their
share is measured apart, beside one real server asked every ten seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.outbox_read import open_reading
from analyzers.errors import UserError
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import prepare
from tests.bench.table import Row, Section, at_most

MANY = 100
LINES = 10  # a second, of each
SETTLE = 5.0
IDLE, ASKING = "idle, one server, no probes", "idle, one server, probes every 10 s"
CROWD = f"{MANY} servers, {LINES} lines/s each"
SOURCE = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bind(s, (struct sockaddr *)&a, sizeof a);
  listen(s, 8);
  setvbuf(stdout, 0, _IOLBF, 0);
  for (unsigned n = 0;; n++) {
    printf("%u.%02u.%03u.000 I ", n / 600, n / 10 % 60, n % 10 * 100);
    switch (n % 5) {
      case 0: printf("slot launch_slot_: id  0 | task %u | processing task\n", n / 5); break;
      case 1: printf("slot update_slots: id  0 | task %u | prompt processing, n_tokens = 64\n", n / 5); break;
      case 2: printf("slot print_timing: id  0 | task %u | eval time = 88.10 ms / 11 tokens\n", n / 5); break;
      case 3: printf("slot      release: id  0 | task %u | stop processing: n_tokens = 75\n", n / 5); break;
      default: printf("srv  update_slots: all slots are idle\n");
    }
    usleep(100000);
  }
}
"""


@dataclass(frozen=True)
class Cost:
    """``cpu``: share of one core, 0 to 1; ``bytes``: resident; ``servers`` that the agent shows."""

    what: str
    seconds: float
    cpu: float
    bytes: int
    servers: int
    found_after: float


def stand_in(folder: Path) -> Path:
    """The small program, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise UserError("no C compiler", where="PATH", remedy="install gcc")
    target = folder / "llama-server"
    subprocess.run([compiler, "-O1", "-w", "-x", "c", "-", "-o", target], input=SOURCE.encode(), check=True)
    return target


@contextmanager
def many(folder: Path, number: int) -> Iterator[list[int]]:
    """``number`` stand-ins, each printing into a file of its own."""
    program, running = stand_in(folder), []
    try:
        for each in range(number):
            with (folder / f"log-{each}").open("wb") as log:
                words = [program, "-m", "m.gguf", "--sleep-idle-seconds", "300"]
                running.append(subprocess.Popen(words, stdout=log, stderr=log))
        yield [each.pid for each in running]
    finally:
        for each in running:
            each.kill()
            each.wait()


@contextmanager
def agent(folder: Path, settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as its verb starts it."""
    (folder / "agent.toml").write_text(settings)
    code = "import sys; from analyzers.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["watch", "--config", str(folder / "agent.toml"), "--outbox", str(folder / "outbox")]
    with (folder / "agent.log").open("wb") as log:
        running = subprocess.Popen([sys.executable, "-c", code, *words], stderr=log, stdout=log)
        try:
            yield running
        finally:
            running.terminate()
            running.wait(60)


def shown(folder: Path) -> int:
    """Servers in the outbox."""
    try:
        with open_reading(folder / "outbox") as reader:
            return len(reader.servers())
    except UserError:
        return 0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cost(what: str, folder: Path, settings: str, expected: int, seconds: float) -> Cost:
    """Start the agent, wait until it shows ``expected`` servers and has settled, then watch it."""
    began = time.monotonic()
    with agent(folder, settings) as running:
        while shown(folder) < expected and time.monotonic() - began < 60:
            time.sleep(0.05)
        found_after = time.monotonic() - began
        time.sleep(SETTLE)
        before, since = cpu_seconds(running.pid), time.monotonic()
        time.sleep(seconds)
        used, passed = cpu_seconds(running.pid) - before, time.monotonic() - since
        return Cost(what, passed, used / passed, resident(running.pid), shown(folder), found_after)


def rows(seconds: float) -> Iterator[Cost]:
    """Every row, as it is measured."""
    quiet, asking = "[probes]\nenabled = false\n", "[probes]\nevery_seconds = 10\n"
    with tempfile.TemporaryDirectory(prefix="bench-agent-") as name, ReferenceServer() as lab:
        spec = ServerSpec(cached_model(), python=prepare("2026.10.11549"), idle_seconds=1)
        with lab.start(spec):
            yield cost(IDLE, _sub(name, "idle"), quiet, 1, seconds)
            yield cost(ASKING, _sub(name, "asking"), asking, 1, seconds)
        folder = _sub(name, "many")
        with many(folder, MANY):
            yield cost(CROWD, folder, quiet, MANY, seconds)


def _sub(name: str, part: str) -> Path:
    folder = Path(name) / part
    folder.mkdir()
    return folder


# Goals of the monitoring issue: share of a core, bytes, seconds until everybody is shown.
GOALS = {
    IDLE: (0.003, 60e6, None),
    ASKING: (None, 60e6, None),
    CROWD: (0.02, 80e6, 2.0),
}


def measure(seconds: float = 20.0) -> list[Section]:
    """The rows for the page of figures."""
    made = [each for row in rows(seconds) for each in _figures(row)]
    said = "The hundred are stand-ins that listen and print; the one is a real hosted server."
    return [Section("The agent itself", tuple(made), said)]


def _figures(row: Cost) -> list[Row]:
    share, most, late = GOALS[row.what]
    how = f"{row.seconds:.0f} s after everybody was shown and {SETTLE:.0f} s had passed"
    cpu_goal, cpu_met = at_most(100 * row.cpu, 100 * share, "% of a core") if share else ("", None)
    size_goal, size_met = at_most(row.bytes / 1e6, most / 1e6, "MB")
    found = [
        Row(f"{row.what}: processor", f"{100 * row.cpu:.2f} % of a core", how, cpu_goal, cpu_met),
        Row(f"{row.what}: memory", f"{row.bytes / 1e6:.0f} MB", "resident", size_goal, size_met),
    ]
    if late is not None:
        goal, met = at_most(row.found_after, late, "s")
        took = f"{row.found_after:.2f} s"
        found.append(Row(f"{row.what}: all shown", took, "from the start of the process", goal, met))
    return found


def words(row: Cost) -> str:
    """One line for a person."""
    return (
        f"{row.what:40} {100 * row.cpu:5.2f} % of a core, {row.bytes / 1e6:5.1f} MB, {row.servers} servers,"
        f" all found {row.found_after:.2f} s after the start, over {row.seconds:.0f} s"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    for row in rows(parser.parse_args(argv).seconds):
        print(words(row), flush=True)


if __name__ == "__main__":
    main()
