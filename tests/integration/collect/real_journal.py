"""A real journal of a host on which a server of a unit died, made by systemd's own tool from export text."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

BOOT = "0123456789abcdef0123456789abcdef"
MACHINE = "fedcba9876543210fedcba9876543210"
UNIT = "llama.service"
REMOTE = next(
    (
        path
        for path in ("/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote")
        if Path(path).exists()
    ),
    None,
)
needs_journal = pytest.mark.skipif(
    REMOTE is None or shutil.which("journalctl") is None,
    reason="systemd-journal-remote or journalctl is not installed",
)
Fields = Mapping[str, str]
_BOOTED = time.time() - time.monotonic()


def entry(at: float, fields: Fields) -> Fields:
    """One entry ``at`` Unix seconds; its monotonic stamp is this machine's, as in the dead server's queue."""
    return {
        "__REALTIME_TIMESTAMP": str(int(at * 1e6)),
        "__MONOTONIC_TIMESTAMP": str(max(1, int((at - _BOOTED) * 1e6))),
        "_BOOT_ID": BOOT,
        "_MACHINE_ID": MACHINE,
        "_HOSTNAME": "host",
        **fields,
    }


def said(at: float, pid: int, text: str, unit: str = UNIT, comm: str = "llama-server", **more: str) -> Fields:
    """A line of a process's output."""
    fields = {"MESSAGE": text, "_PID": str(pid), "_UID": "998", "_COMM": comm, "_EXE": f"/usr/bin/{comm}"}
    return entry(at, {**fields, "_SYSTEMD_UNIT": unit, "_TRANSPORT": "stdout", **more})


def manager(at: float, text: str, unit: str = UNIT, **more: str) -> Fields:
    """A line of systemd about a unit."""
    fields = {"MESSAGE": text, "_PID": "1", "_UID": "0", "_COMM": "systemd", "_TRANSPORT": "journal"}
    return entry(at, {**fields, "UNIT": unit, "_SYSTEMD_UNIT": "init.scope", **more})


def ended(at: float, code: str, status: str, unit: str = UNIT) -> Fields:
    """systemd's own record of a main process's end."""
    text = f"{unit}: Main process exited, code={code}, status={status}/SEGV"
    number = status.partition("/")[0]
    return manager(
        at, text, unit, MESSAGE_ID="98e322203f7a4ed290d09fe03c09fe15", EXIT_CODE=code, EXIT_STATUS=number
    )


def core_record(at: float, pid: int, exe: str, core: Path | None, unit: str = UNIT, **more: str) -> Fields:
    """systemd-coredump's record."""
    fields = {
        "MESSAGE": f"Process {pid} ({Path(exe).name[:15]}) of user 998 dumped core.",
        "MESSAGE_ID": "fc2e22bc6ee647b6b90729ab34a250b1",
        "_PID": "77",
        "_UID": "0",
        "_COMM": "systemd-coredum",
        "_EXE": "/usr/lib/systemd/systemd-coredump",
        "_SYSTEMD_UNIT": "systemd-coredump@0-76-0.service",
        "_TRANSPORT": "journal",
        "COREDUMP_PID": str(pid),
        "COREDUMP_UID": "998",
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_TIMESTAMP": str(int(at * 1e6)),
        "COREDUMP_COMM": Path(exe).name[:15],
        "COREDUMP_EXE": exe,
        "COREDUMP_UNIT": unit,
        "COREDUMP_ENVIRON": "LLAMA_API_KEY=sk-environ-secret",
        **({"COREDUMP_FILENAME": str(core)} if core else {}),
    }
    return entry(at + 1, {**fields, **more})


def kernel(at: float, text: str) -> Fields:
    """A line of the kernel."""
    return entry(at, {"MESSAGE": text, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"})


def make(folder: Path, entries: Iterable[Fields]) -> Path:
    """The journal folder that holds ``entries``."""
    assert REMOTE is not None
    folder.mkdir(parents=True, exist_ok=True)
    export = folder.parent / f"{folder.name}.export"
    ordered = sorted(entries, key=lambda fields: int(fields["__REALTIME_TIMESTAMP"]))
    export.write_bytes(b"\n".join(_text(fields) for fields in ordered) + b"\n")
    subprocess.run(
        [REMOTE, f"--output={folder / 'host.journal'}", str(export)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return folder


def _text(fields: Fields) -> bytes:
    parts = []
    for name, value in fields.items():
        data = value.encode()
        if b"\n" in data:
            parts.append(name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            parts.append(name.encode() + b"=" + data + b"\n")
    return b"".join(parts)
