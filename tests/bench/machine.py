"""What the figures were measured on, and when."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from analyzers.version import __version__

TOOLS = ("gdb", "eu-stack", "grep")


def description() -> list[tuple[str, str]]:
    """(name, value) lines: date, machine, versions. Nothing in them names the host or its user."""
    rows = [
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
        ("llama-blackbox", __version__),
        ("processor", f"{processor()}, {len(os.sched_getaffinity(0))} cores usable"),
        ("memory", memory()),
        ("load when it began", f"{os.getloadavg()[0]:.1f} (one-minute average)"),
        ("kernel", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("Python", platform.python_version()),
        ("C library", " ".join(platform.libc_ver())),
    ]
    return rows + [(tool, version(tool)) for tool in TOOLS]


def processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.M)
    return found[1].strip() if found else "unknown model"


def memory() -> str:
    found = re.search(r"^MemTotal:\s*(\d+) kB$", _text("/proc/meminfo"), re.M)
    return f"{int(found[1]) / (1 << 20):.0f} GiB" if found else "unknown"


def version(tool: str) -> str:
    """The first line a tool says about its version; a missing tool is named as missing."""
    if shutil.which(tool) is None:
        return "not installed"
    made = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, timeout=30)
    return made.stdout.partition("\n")[0].strip() or "version unknown"


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
