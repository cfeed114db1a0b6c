"""Journal files for tests: export text through systemd's own writer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

WRITER = Path("/lib/systemd/systemd-journal-remote")
MISSING = [
    name
    for name, there in (
        ("systemd-python (deploy/setup.sh says how)", importlib.util.find_spec("systemd") is not None),
        ("systemd-journal-remote (a Debian package)", os.path.exists(WRITER)),
    )
    if not there
]
BOOT = "0123456789abcdef0123456789abcdef"
START = 1_796_187_355_000_000  # microseconds
SLEEP = "2.00.004.097 I que    start_loop: entering sleeping state"
WAKE = "3.00.004.097 I que    start_loop: exiting sleeping state"


def entry(
    number: int,
    message: bytes | str = "",
    *,
    boot: str = BOOT,
    wall: int | None = None,
    **fields: bytes | str,
) -> bytes:
    """One entry of the export format, a second after its predecessor on both clocks unless told."""
    rows = [
        b"__CURSOR=s=00000000000000000000000000000001;i=%x" % number,
        b"__REALTIME_TIMESTAMP=%d" % (START + number * 1_000_000 if wall is None else wall),
        b"__MONOTONIC_TIMESTAMP=%d" % (100_000_000 + number * 1_000_000),
        b"_BOOT_ID=" + boot.encode(),
    ]
    for name, value in {"MESSAGE": message, **fields}.items():
        raw = value.encode() if isinstance(value, str) else value
        if b"\n" in raw:
            rows.append(name.encode() + b"\n" + len(raw).to_bytes(8, "little") + raw)
        else:
            rows.append(name.encode() + b"=" + raw)
    return b"\n".join(rows) + b"\n\n"


def server(number: int, message: bytes | str = SLEEP, *, pid: int = 4242, **fields: str) -> bytes:
    """A line of the server ``pid`` in llama.service."""
    own = {"_PID": str(pid), "_SYSTEMD_UNIT": "llama.service", "_COMM": "llama-server", "_UID": "990"}
    clocks = {name: fields.pop(name) for name in ("boot", "wall") if name in fields}
    return entry(number, message, **clocks, **{"_TRANSPORT": "stdout", **own, **fields})


def manager(number: int, message: str, **fields: str) -> bytes:
    """A message of the system's manager about llama.service."""
    own = {"_PID": "1", "_UID": "0", "_COMM": "systemd", "_TRANSPORT": "journal", "UNIT": "llama.service"}
    return entry(number, message, **{**own, **fields})


def core_record(number: int, **fields: str) -> bytes:
    own = {
        "MESSAGE_ID": "fc2e22bc6ee647b6b90729ab34a250b1",
        "_PID": "77",
        "_UID": "0",
        "_COMM": "systemd-coredum",
        "_TRANSPORT": "journal",
        "_SYSTEMD_UNIT": "systemd-coredump@1-2-0.service",
        "COREDUMP_PID": "4242",
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_COMM": "llama-server",
        "COREDUMP_UNIT": "llama.service",
        "COREDUMP_FILENAME": "/var/lib/systemd/coredump/core.llama-server.zst",
        "COREDUMP_ENVIRON": "API_KEY=sk-secret",
    }
    return entry(number, "Process 4242 (llama-server) of user 0 dumped core.", **{**own, **fields})


def write(path: Path, *entries: bytes) -> Path:
    """A journal file with these entries; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".export")
    source.write_bytes(b"".join(entries))
    subprocess.run([WRITER, f"--output={path}", source], check=True, capture_output=True)
    source.unlink()
    return path
