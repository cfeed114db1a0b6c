"""The collector's reader of raw journal files, by name: triage reads the bundle that it writes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from analyzers.cli.extras import install_line
from analyzers.core.files import plain
from analyzers.errors import UserError

READER = "collector.sources.journald"
EXTRA = "journal"
NEEDS = "systemd"  # the module of systemd-python
BUILD = "apt-get install libsystemd-dev pkg-config gcc python3-dev"  # there is no wheel of it
EXPORT = "journalctl --file FILE -o export > server.export"


def journals_into(files: Sequence[Path], target: Path) -> None:
    """Write a bundle of ``files`` into the empty folder ``target``. Raises UserError, also when the extra is
    not installed."""
    missing = next((name for name in ("collector", NEEDS) if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        raise UserError(
            f"a journal file, and reading one needs systemd-python ({missing} is not installed)",
            where=plain(str(files[0])),
            remedy=f"run: {install_line(EXTRA)} ({BUILD} first); or: {EXPORT}",
        )
    importlib.import_module(READER).write_journal_bundle(files, target)
