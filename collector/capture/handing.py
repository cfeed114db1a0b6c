"""`capture bundle`: the one way in which anything of a capture leaves the host."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.kept.bundling import bundle_of
from collector.capture.kept.captures import find
from collector.gather.deaths import Places
from collector.gather.journal import Journal
from collector.gather.stopping import tidied


def write(
    store: Path, name: str, target: Path, journal: Path | None, *, private: bool, force: bool
) -> Iterator[str]:
    """Write the bundle; lines about it. Raises UserError: no such capture, the target is there."""
    if os.path.lexists(target) and not force:
        raise UserError("it exists", where=str(target), remedy="choose another name, or give --force")
    capture = find(store, name)
    with tidied(), tempfile.TemporaryDirectory(prefix="llama-blackbox-") as folder:
        haul = bundle_of(capture, Places(journal=Journal(journal)), Path(folder), private=private)
        manifest = haul.write(target, private=private, memory=private, overwrite=force)
    yield f"{capture.id}: wrote {target}: {len(manifest.files)} files, {len(haul.evidence)} facts"
    if manifest.memory:
        yield "it holds a core: memory, in which keys and prompts stand; do not share it"
    for gap in manifest.gaps:
        yield f"not in it: {gap.what} ({gap.why})" + (f"; {gap.command}" if gap.command else "")
    yield f"next: llama-blackbox triage {shlex.quote(str(target))}"
