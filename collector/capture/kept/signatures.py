"""The signature of a capture, asked of the analyzers once and kept beside it."""

from __future__ import annotations

import json
from contextlib import ExitStack

from analyzers.errors import UserError
from analyzers.triage.run import Options, triage
from collector.capture.kept.captures import Capture, read_json
from collector.capture.setup.safe import write_synced

FILE = ".signature.json"
UNKNOWN = "unknown"


def signature(capture: Capture, *, keep: bool = True) -> str:
    """The bug key; for a capture without a core, or one that says nothing, signal and build. Never raises for
    what a core holds; OSError when it cannot be kept."""
    kept = read_json(capture.path / FILE).get("bug_key")
    if isinstance(kept, str):
        return kept
    key = _asked(capture) or _poor(capture)
    if keep:
        write_synced(capture.path / FILE, json.dumps({"bug_key": key}) + "\n", 0o600)
    return key


def _asked(capture: Capture) -> str | None:
    if capture.core is None:
        return None
    try:
        with ExitStack() as stack:
            options = Options(exe=capture.copied_exe, symbols=(capture.path,), fast=True)
            report = triage([capture.core], options, stack).report
    except (UserError, OSError):
        return None
    key = report.signature.bug_key if report.signature else None
    return key if key and any(part != "-" for part in key.split("|")[1:]) else None


def _poor(capture: Capture) -> str:
    exe = capture.part("process").get("exe")
    build = exe.get("build_id") if isinstance(exe, dict) else None
    return f"{UNKNOWN}|{capture.signal}|{build or capture.exe}"
