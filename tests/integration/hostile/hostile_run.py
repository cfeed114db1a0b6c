"""Runs the whole ``triage`` command under kernel limits, and says what it used and where it wrote."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ADDRESS_SPACE = 3 << 30  # bytes for triage itself; its tools have their own, lower bounds of private memory
CPU_SECONDS = 60  # per process; the slowest of these took 6 s on one core
RESIDENT = 700 << 20  # bytes: eu-stack and triage; a million threads took 343 MiB
GDB_RESIDENT = 1600 << 20  # gdb's own bound on private memory is 1,536 MiB
PATIENCE = 240  # seconds of wall time on a machine that does ten other things
COMMAND = [sys.executable, "-c", "from llama_blackbox_launcher import entry; entry()", "triage"]
STRACE = shutil.which("strace")
# What opens for writing, or changes a name: everything that could leave something on the disk.
CALLS = (
    "open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,\
mknodat,truncate,chmod,fchmodat,unlink,unlinkat,rmdir"
)
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) = (-?\d+)")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Ran:
    """One run: status, what it said, and what it and its tools used. ``cpu`` in seconds, ``peak`` in bytes of
    the largest process. ``written``: every path that it made, changed or opened for writing."""

    status: int
    out: str
    err: str
    cpu: float
    peak: int
    written: tuple[str, ...] = ()


def run(folder: Path, *args: object, env: dict[str, str] | None = None, cwd: Path | None = None,
        traced: bool = False) -> Ran:  # fmt: skip
    """``triage ARGS`` with its temporary files in ``folder/tmp`` and its home in ``folder/home``."""
    for name in ("tmp", "home"):
        (folder / name).mkdir(exist_ok=True)
    trace = folder / "trace"
    tracer = [
        str(STRACE),
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-s",
        "4096",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(trace),
    ]
    places = {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*(tracer if traced else []), *COMMAND, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **places, **(env or {})},
        cwd=cwd or folder,
        preexec_fn=_bounded,
        start_new_session=True,
    )
    status, out, err, usage = _to_its_end(process)
    written = tuple(_written(trace.read_text(errors="replace"))) if traced else ()
    return Ran(status, out, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, written)


def _bounded() -> None:
    for which, value in (
        (resource.RLIMIT_AS, ADDRESS_SPACE),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (value, value))


def _to_its_end(process: subprocess.Popen[bytes]) -> tuple[int, str, str, resource.struct_rusage]:
    """Its output is small and fits the pipes' readers; a run past PATIENCE is killed, and shows as -9."""
    import threading

    said: dict[str, bytes] = {}
    streams = {"out": process.stdout, "err": process.stderr}
    readers = [
        threading.Thread(target=lambda n=n, s=s: said.__setitem__(n, s.read())) for n, s in streams.items()
    ]
    for reader in readers:
        reader.start()
    pidfd, deadline = os.pidfd_open(process.pid), time.monotonic() + PATIENCE
    import select

    if not select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        os.killpg(process.pid, signal.SIGKILL)
    os.close(pidfd)
    _, raw, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(raw)
    for reader, stream in zip(readers, streams.values(), strict=True):
        reader.join()
        stream.close()
    return process.returncode, said["out"].decode(), said["err"].decode(), usage


def _written(trace: str) -> Iterator[str]:
    for line in trace.splitlines():
        call = _CALL.match(line)
        if call is None or int(call[3]) < 0:
            continue
        if call[1].startswith(("open", "creat")) and not _WRITES.search(call[2]):
            continue
        yield from _PATH.findall(call[2])


def outside(ran: Ran, folder: Path) -> list[str]:
    """Paths it wrote to that are neither its own nor the terminal's or the null device's."""
    own = (
        str(folder / "tmp"),
        str(folder / "home"),
        "/dev/null",
        "/dev/tty",
        "/proc/self/",
        "/proc/thread-self/",
    )
    return [path for path in ran.written if os.path.isabs(path) and not path.startswith(own)]
