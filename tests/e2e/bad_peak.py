"""Runs triage and writes its own peak of resident memory (KiB) to a file: ``bad_peak.py FILE ARGUMENT…``.

A process of its own, because the kernel carries a peak over fork and exec, but starts VmHWM anew at exec.
"""

import sys
from pathlib import Path

from analyzers.cli.main import main


def peak() -> str:
    """VmHWM of this process, in KiB."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(row.split()[1] for row in rows if row.startswith("VmHWM:"))


if __name__ == "__main__":
    status = main(["triage", *sys.argv[2:]])
    Path(sys.argv[1]).write_text(peak())
    sys.exit(status)
