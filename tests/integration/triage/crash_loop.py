"""Real deaths of real servers, and the journal that a host has of a unit that crashes and restarts.

The servers, their lines with both stamps, their PIDs, cores and kernel lines are real; only journald's and
systemd's part is written here, in their words.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from collector.lab.faults.provoked import Provoked
from collector.lab.reference.output import Line
from collector.sources.kernel import as_dmesg

BOOT = "0a1b2c3d000040008000" + "0000000000ff"
UNIT = "llama.service"
HANDED_OVER_S = 0.05  # from the core to systemd's word about it


@dataclass(frozen=True)
class Dead:
    """One death; ``wall`` and ``mono`` are of the moment after its last line."""

    provoked: Provoked
    lines: tuple[Line, ...]

    @property
    def pid(self) -> int:
        return self.provoked.server.pid

    @property
    def core(self) -> Path:
        path = self.provoked.core.path
        assert path is not None
        return path

    @property
    def number(self) -> int:
        assert self.provoked.ending is not None
        assert self.provoked.ending.signal is not None
        return int(self.provoked.ending.signal)

    @property
    def wall(self) -> float:
        return self.lines[-1].wall + HANDED_OVER_S

    @property
    def mono(self) -> float:
        return self.lines[-1].mono + HANDED_OVER_S


def died(provoked: Provoked) -> Dead:
    return Dead(provoked, tuple(provoked.server.output.lines()))


def journal(dead: Iterable[Dead]) -> str:
    """``journalctl -o export`` of the unit."""
    return "".join(entry for one in dead for entry in _entries(one))


def _entries(dead: Dead) -> list[str]:
    own = {"_PID": dead.pid, "_COMM": "llama-server", "_TRANSPORT": "stdout", "_SYSTEMD_UNIT": UNIT}
    manager = {"_PID": 1, "_UID": 0, "_COMM": "systemd", "_TRANSPORT": "journal", "UNIT": UNIT}
    name = signal.Signals(dead.number).name.removeprefix("SIG")
    ended = (
        f"{UNIT}: Main process exited, code=dumped, status={dead.number}/{name}",
        f"{UNIT}: Failed with result 'core-dump'.",
        f"{UNIT}: Scheduled restart job, restart counter is at 1.",
    )
    said = [_entry(line.wall, line.mono, line.text, own) for line in dead.lines]
    return said + [_entry(dead.wall, dead.mono, text, manager) for text in ended]


def _entry(wall: float, mono: float, text: str, fields: dict[str, object]) -> str:
    stamps = {
        "__REALTIME_TIMESTAMP": int(wall * 1e6),
        "__MONOTONIC_TIMESTAMP": int(mono * 1e6),
        "_BOOT_ID": BOOT,
    }
    return "".join(f"{key}={value}\n" for key, value in {**stamps, **fields, "MESSAGE": text}.items()) + "\n"


def records(dead: Iterable[Dead]) -> str:
    """``coredumpctl info``, without stacks."""
    return "\n".join(_record(one) for one in dead)


def _record(dead: Dead) -> str:
    name = signal.Signals(dead.number).name.removeprefix("SIG")
    stamp = datetime.fromtimestamp(dead.wall, timezone.utc)
    return (
        f"           PID: {dead.pid} (llama-server)\n           UID: 998 (llama)\n"
        f"        Signal: {dead.number} ({name})\n     Timestamp: {stamp:%a %Y-%m-%d %H:%M:%S} UTC\n"
        f"    Executable: /usr/bin/llama-server\n          Unit: {UNIT}\n       Boot ID: {BOOT}\n"
        f"       Storage: none\n       Message: Process {dead.pid} (llama-server) of user 998 dumped core.\n"
    )


def kernel(dead: Sequence[Dead]) -> str:
    """The kernel's own lines about these deaths, as dmesg prints them; empty where none could be read."""
    return "".join(as_dmesg(one.provoked.kernel.lines) for one in dead)
