"""HANG-LOOP on a real server: one task blocks the queue loop's thread in a system call that does not return.

Saving a slot writes a file in the loop's own thread. Where that file is a named pipe that nobody reads (in
life: a network file system that is gone), the open never returns, and every other request waits behind it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import HANG, Expected, Provoked, Stage
from collector.lab.reference.client import Pending, Request
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.server import RunningServer

EXPECTED = Expected("HANG-LOOP", ("unknown",), ("awake",))
PIPE = "never-read"
BLOCKED_DEADLINE = 10.0
PATIENCE = 120.0  # how long the clients wait: longer than anybody looks


def provoke(stage: Stage) -> Provoked:
    """A loop blocked in one task, and a client behind it. The server lives; ``unblock`` lets it go on."""
    folder = stage.lab.folder / "slots"
    pipe = _pipe(folder)
    server = stage.start(
        parameters={**stage.base.parameters, "slot_save_path": f"{folder}/"}
        if stage.base.python
        else stage.base.parameters,
        arguments=(*stage.base.arguments, "--slot-save-path", f"{folder}/"),
    )
    server.send(touch())
    saving = Request("POST", "/slots/0?action=save", {"filename": pipe.name}, timeout=PATIENCE)
    server.begin(saving)
    blocked = server.wait_until(_opens_a_pipe, BLOCKED_DEADLINE)
    behind = server.begin(replace(touch(), timeout=PATIENCE))
    stage.say("the loop is blocked" if blocked else "the loop is not blocked")
    return hanging("HANG-LOOP", EXPECTED, server, behind, happened=blocked)


def hanging(
    name: str, expected: Expected, server: RunningServer, client: Pending, *, happened: bool
) -> Provoked:
    """What a server that lives and does not answer hands over."""
    return Provoked(
        name,
        expected,
        happened,
        HANG,
        server,
        CoreSearch(None, "the server lives"),
        KernelLines(),
        client=client,
    )


def unblock(stage: Stage) -> None:
    """Open the other end: the blocked task fails or finishes, and the queue goes on."""
    with suppress(OSError):
        os.close(os.open(stage.lab.folder / "slots" / PIPE, os.O_RDONLY | os.O_NONBLOCK))


def _pipe(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pipe = folder / PIPE
    if not pipe.exists():
        os.mkfifo(pipe)
    return pipe


def _opens_a_pipe(server: RunningServer) -> bool:
    """A thread waits in the kernel for the other end of a pipe."""
    with suppress(OSError):
        tasks = Path(f"/proc/{server.pid}/task")
        return any("partner" in (task / "wchan").read_text() for task in tasks.iterdir())
    return False
