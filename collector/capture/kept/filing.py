"""Changes to a capture after the fact: its manifest rewritten, a core slimmed. Synced, all or nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyzers.errors import UserError
from collector.capture.crash.store import MANIFEST, TRACE
from collector.capture.crash.writing import CORE, FULL_CORE
from collector.capture.kept.captures import Capture
from collector.capture.kept.comparing import difference
from collector.capture.kept.slimming import slim
from collector.capture.setup.safe import sync_folder, write_synced

_HASHED = 1 << 28  # as the crash path: larger files get no hash
_BLOCK = 1 << 20
SLIMMED, KEPT_WHOLE = "slimmed", "kept whole"


def listed(folder: Path) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of every file but the manifest and the breadcrumb."""
    found: dict[str, dict[str, object]] = {}
    for each in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if (
            each.name in (MANIFEST, TRACE)
            or each.name.startswith(".")
            or not each.is_file(follow_symlinks=False)
        ):
            continue
        size = each.stat(follow_symlinks=False).st_size
        found[each.name] = {"size": size, "sha256": _digest(Path(each.path)) if size <= _HASHED else None}
    return found


def _digest(path: Path) -> str:
    summed = hashlib.sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        while data := file.read(_BLOCK):
            summed.update(data)
    return summed.hexdigest()


def rewrite(folder: Path, told: Mapping[str, Any]) -> None:
    """The manifest with the files that are there now. Raises OSError."""
    whole = {**told, "files": listed(folder)}
    write_synced(folder / MANIFEST, json.dumps(whole, indent=1, ensure_ascii=True) + "\n", 0o600)


def slim_full(capture: Capture) -> str | None:
    """Replace a full core by the minimal one where both tools see the same in both; one line about it.

    None when there is nothing to do, or it was tried before. Raises OSError for the disk.
    """
    if capture.full is None or "slimming" in capture.told or not capture.told:
        return None
    why = _unequal(capture)
    told = dict(capture.told)
    told["slimming"] = {"done": why is None, "why": why}
    if why is None:
        told["full_core"] = {**capture.part("full_core"), "file": None}
        rewrite_without(capture.path, told)
        return f"{capture.id}: {SLIMMED}"
    rewrite(capture.path, told)
    return f"{capture.id}: {KEPT_WHOLE}: {why}"


def rewrite_without(folder: Path, told: Mapping[str, Any]) -> None:
    """The full core goes last: a kill before leaves both, and the manifest without it is true afterwards."""
    write_synced(
        folder / MANIFEST,
        json.dumps({**told, "files": {k: v for k, v in listed(folder).items() if k != FULL_CORE}}, indent=1)
        + "\n",
        0o600,
    )
    (folder / FULL_CORE).unlink()
    sync_folder(folder)


def _unequal(capture: Capture) -> str | None:
    full = capture.full
    assert full is not None  # noqa: S101 - asked by the caller
    if not capture.part("full_core").get("whole"):
        return "the full core is not whole"
    slim_core = capture.path / CORE
    if slim_core.is_file():
        why = difference(full, slim_core, capture.copied_exe, capture.path)
        if why is None:
            return None
    return put_slim(full, capture.path, capture.copied_exe)


def put_slim(source: Path, folder: Path, exe: Path | None) -> str | None:
    """Write ``folder``'s minimal core from ``source``; why it may not stand for it, None when it may."""
    new = folder / f".{CORE}.new"
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR, 0o600)
    try:
        slim(source, descriptor)
        os.fsync(descriptor)
    except (ValueError, UserError) as problem:
        new.unlink()
        return problem.what if isinstance(problem, UserError) else str(problem)
    except OSError:
        new.unlink()
        raise
    finally:
        os.close(descriptor)
    why = difference(source, new, exe, folder)
    os.rename(new, folder / CORE)
    sync_folder(folder)
    return why
