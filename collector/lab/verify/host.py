"""What the trials ran on: nothing that names the machine or its owner."""

from __future__ import annotations

import os
import platform
from typing import Any


def host_facts() -> dict[str, Any]:
    """Architecture, kernel release, C library, number of usable CPUs."""
    return {
        "arch": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "cpus": len(os.sched_getaffinity(0)),
    }
