"""Journal entries as journalctl exports them, honest and forged."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping

from bad_material import FAULT, PID

BOOT = "0123456789abcdef0123456789abcdef"
COREDUMP_ID = "fc2e22bc6ee647b6b90729ab34a250b1"  # systemd-coredump's, sd-messages.h
Fields = Mapping[str, str | bytes]


def message(text: str | bytes, at: int, pid: int = PID, **more: str | bytes) -> dict[str, str | bytes]:
    """One line of a service's output, ``at`` seconds after boot."""
    return {
        "__CURSOR": f"s=1;i={at}",
        "__REALTIME_TIMESTAMP": str(1_796_000_000_000_000 + at * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(at * 1_000_000),
        "_BOOT_ID": BOOT,
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "llama.service",
        "_PID": str(pid),
        "_COMM": "llama-server",
        "_UID": "990",
        "PRIORITY": "6",
        "MESSAGE": text,
        **more,
    }


def output(lines: str, pid: int = PID, at: int = 100) -> list[dict[str, str | bytes]]:
    """Each line as an entry, a second apart."""
    return [message(line, at + number, pid) for number, line in enumerate(lines.splitlines())]


def kernel(line: str = FAULT, at: int = 500) -> dict[str, str | bytes]:
    """A line of the kernel's, without its own stamp."""
    entry = message(line.split("] ", 1)[1].strip(), at, _TRANSPORT="kernel", SYSLOG_IDENTIFIER="kernel")
    return {
        name: value for name, value in entry.items() if name not in ("_PID", "_UID", "_COMM", "_SYSTEMD_UNIT")
    }


def core_record(at: int = 501, **more: str | bytes) -> dict[str, str | bytes]:
    """What systemd-coredump writes about a dead process."""
    return {
        **message(f"Process {PID} (llama-server) of user 990 dumped core.", at, 600),
        "_TRANSPORT": "journal",
        "_UID": "0",
        "_COMM": "systemd-coredum",
        "_EXE": "/usr/lib/systemd/systemd-coredump",
        "_SYSTEMD_UNIT": "systemd-coredump@1-600-0.service",
        "MESSAGE_ID": COREDUMP_ID,
        "COREDUMP_PID": str(PID),
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_SIGNAL_NAME": "SIGSEGV",
        "COREDUMP_EXE": "/usr/bin/llama-server",
        "COREDUMP_UNIT": "llama.service",
        **more,
    }


def export(entries: Iterable[Fields]) -> bytes:
    """``journalctl -o export``: a field with a line feed or other control character is written as binary."""
    return b"".join(b"".join(_field(*pair) for pair in entry.items()) + b"\n" for entry in entries)


def _field(name: str, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    if any(code < 32 and code != 9 for code in data):
        return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
    return name.encode() + b"=" + data + b"\n"


def as_json(entries: Iterable[Fields]) -> bytes:
    """``journalctl -o json``: what is no UTF-8 text becomes an array of numbers."""
    rows = ({name: _value(value) for name, value in entry.items()} for entry in entries)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _value(value: str | bytes) -> object:
    return value if isinstance(value, str) else list(value)


FORMS = {"export": export, "json": as_json}
