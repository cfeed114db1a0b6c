"""A real systemd in an overlay of this host's root, booted by systemd-nspawn to a minimal target."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

BOOT_SECONDS = 60.0
STOP_SECONDS = 60.0
TARGET = """[Unit]
Description=minimal
Requires=systemd-journald.service dbus.service
Wants=systemd-journal-flush.service
After=systemd-journald.service dbus.service
AllowIsolate=yes
"""
JOURNALD = "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n"
needs_boot = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("systemd-nspawn") is None or shutil.which("nsenter") is None,
    reason="needs root, systemd-nspawn and nsenter",
)


@dataclass(frozen=True)
class Booted:
    """The running system. ``leader`` is its PID 1 as this host counts."""

    leader: int
    root: Path

    def run(self, *argv: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """A command inside, its output captured."""
        words = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-p", "-n", "-C", *argv]
        return subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)


# Mounts in a namespace of their own, which ends with the machine: nothing is left where this run is killed.
# The overlay's path is seen from outside below /proc/PID/root.
_START = """
mount -t tmpfs -o size=2g tmpfs "$1/layer" && mkdir "$1/layer/upper" "$1/layer/work" || exit 77
mount -t overlay -o "lowerdir=/,upperdir=$1/layer/upper,workdir=$1/layer/work" overlay "$1/merged" || exit 77
echo ready
read go || exit 1
log=$1/boot.log
shift
exec "$@" </dev/null >"$log" 2>&1
"""
# systemd-nspawn is the first process of a PID namespace: the system it booted does not outlive it.
_PRIVATE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_PRIVATE += ("--mount", "--propagation", "private")


@contextmanager
def booted(folder: Path, files: Mapping[str, str], *more: str) -> Iterator[Booted]:
    """Boot with ``files`` (path below the root -> text) added and ``more`` options of systemd-nspawn; taken
    down afterwards. Its mounts end with it, and it ends with this process, also where that is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in ("layer", "merged"):
        (folder / each).mkdir()
    words = [*_PRIVATE, "sh", "-c", _START, "sh", str(folder), *_nspawn(folder / "merged"), *more]
    words += ["-b", "systemd.unit=lab.target"]
    spawned = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        _fill(spawned, folder / "merged", files)
        leader = _leader(spawned, folder / "boot.log")
        yield Booted(leader, Path(f"/proc/{leader}/root"))
    finally:
        for pid in _children(spawned.pid):  # unshare itself does not pass it on
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            spawned.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            spawned.kill()
            spawned.wait()


def _fill(spawned: subprocess.Popen[bytes], merged: Path, files: Mapping[str, str]) -> None:
    """Put the files into the overlay, then let it boot."""
    assert spawned.stdin is not None
    assert spawned.stdout is not None
    if spawned.stdout.readline() != b"ready\n":
        pytest.skip("this machine's root cannot be the lower layer of an overlay")
    root = Path(f"/proc/{_children(spawned.pid)[0]}/root{merged}")
    for name, text in {
        "etc/systemd/system/lab.target": TARGET,
        "etc/systemd/journald.conf.d/lab.conf": JOURNALD,
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    spawned.stdin.write(b"go\n")
    spawned.stdin.close()


def _nspawn(merged: Path) -> list[str]:
    return [
        *("systemd-nspawn", "-q", "-D", str(merged), "--register=no", "--keep-unit", "--private-network"),
        *("--machine=llama-blackbox-test", "--notify-ready=yes"),
    ]


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _leader(spawned: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < until:
        if spawned.poll() is not None:
            break
        with suppress(OSError, ValueError, IndexError):
            leader = _children(_children(spawned.pid)[0])[0]
            words = [
                "nsenter",
                "-t",
                str(leader),
                "-m",
                "-u",
                "-i",
                "-p",
                "-n",
                "-C",
                "systemctl",
                "is-system-running",
            ]
            state = subprocess.run(
                words, capture_output=True, text=True, timeout=30, check=False
            ).stdout.strip()
            if state in ("running", "degraded"):
                return leader
        time.sleep(0.1)
    pytest.skip(f"no systemd came up here: {log.read_text(errors='replace')[-300:]}")
