"""A real systemd in an overlay of this host's root, booted by systemd-nspawn to a minimal target."""

from __future__ import annotations

import os
import shutil
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


@contextmanager
def booted(folder: Path, files: Mapping[str, str]) -> Iterator[Booted]:
    """Boot with ``files`` (path below the root -> text) added; taken down, its mounts gone, afterwards."""
    merged = _overlay(folder)
    try:
        for name, text in {
            "etc/systemd/system/lab.target": TARGET,
            "etc/systemd/journald.conf.d/lab.conf": JOURNALD,
            **files,
        }.items():
            (merged / name).parent.mkdir(parents=True, exist_ok=True)
            (merged / name).write_text(text)
        with (folder / "boot.log").open("wb") as log:
            spawned = subprocess.Popen(_nspawn(merged), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Booted(_leader(spawned, folder / "boot.log"), merged)
        finally:
            spawned.terminate()
            try:
                spawned.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                spawned.kill()
                spawned.wait()
    finally:
        subprocess.run(["umount", str(merged)], check=False)
        subprocess.run(["umount", str(folder / "layer")], check=False)


def _nspawn(merged: Path) -> list[str]:
    return [
        *("systemd-nspawn", "-q", "-D", str(merged), "--register=no", "--keep-unit", "--private-network"),
        *("--machine=llama-blackbox-test", "--notify-ready=yes", "-b", "systemd.unit=lab.target"),
    ]


def _overlay(folder: Path) -> Path:
    layer, merged = folder / "layer", folder / "merged"
    for each in (layer, merged):
        each.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(layer)], check=True)
    (layer / "upper").mkdir()
    (layer / "work").mkdir()
    options = f"lowerdir=/,upperdir={layer / 'upper'},workdir={layer / 'work'}"
    done = subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", str(merged)], check=False)
    if done.returncode != 0:
        subprocess.run(["umount", str(layer)], check=False)
        pytest.skip("this machine's root cannot be the lower layer of an overlay")
    return merged


def _leader(spawned: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < until:
        if spawned.poll() is not None:
            break
        with suppress(OSError, ValueError, IndexError):
            children = Path(f"/proc/{spawned.pid}/task/{spawned.pid}/children").read_text().split()
            leader = int(children[0])
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
