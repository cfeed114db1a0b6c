"""The open files of a capture as they may leave the host: how a user calls a file is nobody's business."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

from collector.capture.kept.captures import read_any

DELETED = " (deleted)"
# Folders whose names the system gave, and what a server has open for its own sake.
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/memfd:", "/usr/", "/lib/", "/lib64/")
_OWN = re.compile(r"\.gguf|\.so(?:\.|$)|\.log(?:\.|$)", re.IGNORECASE)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


def files_without_names(path: Path, most: int) -> bytes | None:
    """``descriptors.json`` with the kind and the extension of files that are neither model, log nor library.

    None when there is none, or when it is larger than ``most`` bytes or damaged.
    """
    rows = read_any(path)
    if not isinstance(rows, list):
        return None
    kept = [{**row, "target": shown(row["target"])} for row in rows if _usable(row)]
    text = json.dumps(kept, indent=1).encode()
    return text if len(text) <= most else None


def _usable(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("target"), str)


def shown(target: str) -> str:
    """What one descriptor leads to: pipes, sockets, devices, models, logs and libraries by name."""
    gone = DELETED if target.endswith(DELETED) else ""
    name = PurePosixPath(target.removesuffix(DELETED)).name
    if not target.startswith("/") or target.startswith(_SYSTEM) or _OWN.search(name):
        return target
    suffix = PurePosixPath(name).suffix
    return f"a file{suffix if _SUFFIX.fullmatch(suffix) else ''}{gone}"
