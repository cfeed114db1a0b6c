"""Tells systemd how the service is (sd_notify(3)); without a NOTIFY_SOCKET it does nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

MAX_STATUS = 400  # characters of the line that `systemctl status` shows


class Notifier:
    """Holds the manager's socket. ``watchdog_seconds`` is how often the manager wants a sign of life, None
    when it does not; a third of that is a good interval."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        told = os.environ if environ is None else environ
        self._address = _address(told.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog(told)

    def ready(self, status: str) -> None:
        """The service serves."""
        self._send("READY=1", _status(status))

    def reloading(self, mono: float) -> None:
        """The settings are being read again; ``mono`` is CLOCK_MONOTONIC in seconds (Type=notify-reload)."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(mono * 1e6)}")

    def status(self, status: str) -> None:
        """One line on how it is."""
        self._send(_status(status))

    def alive(self) -> None:
        """The watchdog's sign of life."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link,
        ):
            link.setblocking(False)  # a manager that does not read must not hold the agent
            link.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), self._address)


def _address(told: str) -> str | None:
    if told.startswith("@"):
        return "\0" + told[1:]
    return told if told.startswith("/") else None


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())[:MAX_STATUS]


def _watchdog(told: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC, when it is meant for this process."""
    micros, pid = told.get("WATCHDOG_USEC", ""), told.get("WATCHDOG_PID", "")
    if not (micros.isascii() and micros.isdigit()) or int(micros) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(micros) / 1e6
