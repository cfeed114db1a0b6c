"""What is installed, whether it still holds, and how to mend it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.store import PARTIAL
from collector.capture.setup import state
from collector.capture.setup.install import prefix_words
from collector.capture.setup.kernel import LIMIT, PIPE, SOCKET
from collector.capture.setup.layout import CRASH, SERVER, Layout
from collector.capture.setup.safe import unsafe, unsafe_below
from collector.capture.setup.sysctlfile import others, text_of

NONE, HALF_INSTALLED, HALF_REMOVED = "not installed", "half-installed", "half-removed"
INSTALLED, CHANGED, BROKEN = "installed", "changed by somebody else", "broken"


@dataclass(frozen=True)
class Status:
    """``state``: one of the words above; ``faults``: what is wrong, with its remedy; ``facts``: the rest."""

    state: str
    faults: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        return self.state == INSTALLED and not self.faults


def look(layout: Layout) -> Status:
    """Changes nothing. Raises UserError when the state file cannot be trusted or the kernel not be read."""
    present = layout.kernel.settings()
    shown = tuple(f"{name} = {value}" for name, value in present.items())
    found = state.load(layout.state)
    if found is None:
        return Status(NONE, facts=shown)
    facts = (f"shape {found.shape}, mode {found.mode}, captures in {found.store}", *shown, *_stored(found))
    undo = f"llama-blackbox capture remove{prefix_words(layout)}"
    if found.phase == state.INSTALLING:
        return Status(HALF_INSTALLED, (f"it was ended on its way; undo it with: {undo}",), facts)
    if found.phase == state.REMOVING:
        return Status(HALF_REMOVED, (f"the removal was ended on its way; finish it with: {undo}",), facts)
    changed = [
        f"{name} was left at {value!r} and is {present[name]!r}; undo with: {undo} --force"
        for name, value in found.left.items()
        if present[name] != value
    ]
    faults = (*changed, *_places(layout, found), *_server(layout, found), *_boot(layout, found))
    word = CHANGED if changed else BROKEN if faults else INSTALLED
    return Status(word, faults, facts)


def _places(layout: Layout, found: state.State) -> Iterator[str]:
    if found.shape == PIPE and int(layout.kernel.read(LIMIT)) == 0:
        yield f"{LIMIT} is 0: the process is gone before it is read; set it to 16"
    for path in (layout.prefix, layout.settings, layout.previous):
        fault = unsafe(path) or (None if path.exists() else f"{path} is missing")
        if fault:
            yield f"{fault}; remove and install again"
    for name in (CRASH, SERVER):
        whole = (layout.prefix / name / "__main__.py").is_file()
        fault = unsafe_below(layout.prefix / name) or (
            None if whole else f"{layout.prefix / name} is not whole"
        )
        if fault:
            yield f"{fault}; remove and install again"


def _server(layout: Layout, found: state.State) -> Iterator[str]:
    if found.shape == SOCKET and found.socket is not None and not listens(found.socket):
        yield (
            f"nothing listens on {found.socket}: the kernel writes no core of any program until it does; "
            f"start it: systemctl start llama-blackbox-capture, or {serve_line(layout)}"
        )


def serve_line(layout: Layout) -> str:
    """The command that runs the socket's server."""
    return f"llama-blackbox capture serve{prefix_words(layout)}"


def listens(path: str) -> bool:
    """Whether somebody listens there, by the kernel's table: a connection would be taken for a crash."""
    try:
        rows = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    fields = (row.split(None, 7) for row in rows)
    listening = f"{socket.SOCK_STREAM:04X}"
    return any(
        len(row) == 8 and row[7] == path and row[4] == listening and int(row[3], 16) & 0x10000
        for row in fields
    )


def _boot(layout: Layout, found: state.State) -> Iterator[str]:
    if found.persist is None:
        return
    path = Path(found.persist)
    try:
        whole = path.read_text() == text_of(found.left)
    except OSError:
        whole = False
    if not whole:
        yield f"{path} is missing or changed: the next boot will not set it; remove and install again"
    for other in others(layout.sysctls, layout.sysctl_file.name):
        if other.after:
            yield other.words


def _stored(found: state.State) -> Iterator[str]:
    try:
        names = [each.name for each in Path(found.store).iterdir()]
    except FileNotFoundError:
        yield "nothing captured yet"
        return
    except OSError as problem:
        raise UserError(
            (problem.strerror or "error").lower(), where=found.store, remedy="run it with sudo"
        ) from None
    partial = sum(name.startswith(PARTIAL) for name in names)
    whole = sum(not name.startswith(".") for name in names)
    yield f"{whole} captures" + (f", {partial} unfinished (llama-blackbox capture adopt)" if partial else "")
