"""What every provoked fault is handed, and what it hands back: what was meant and what was seen."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collector.lab.faults.kernel import KernelLines, kernel_lines
from collector.lab.reference.client import Answer, Pending
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.processes import Ending
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec

Say = Callable[[str], None]
# Outcomes: what was seen, before anybody judges it.
CRASH, ERROR, WRONG, HANG, ANSWERED, STOPPED, HEALTHY = (
    "crash",
    "error-answer",
    "wrong-answer",
    "hang",
    "answered",
    "stopped",
    "healthy",
)
# Those of signal(7) whose default action writes a core and that a fault or an abort raises.
CORE_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)
# After a connection broke, the process may still be writing its core; 110 MB take under a second, and a
# server that prints its own backtrace waits for a debugger that reads its symbols first.
DEATH_DEADLINE = 60.0


@dataclass(frozen=True)
class Expected:
    """The verdict a fault must lead to. Where several are right, the likeliest stands first.

    ``class_``, ``causes``, ``phases`` and ``defect`` are ids of the registry and the catalogue;
    ``handlers`` are route handlers by the names reports use, empty when no handler is on the stack.
    """

    class_: str
    causes: tuple[str, ...]
    phases: tuple[str, ...]
    defect: str | None = None
    handlers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Where a fault is provoked: the lab that starts servers, and the build and model to start.

    ``base`` names program and model; each fault sets what else it needs. ``say`` gets one line per
    step or try.
    """

    lab: ReferenceServer
    base: ServerSpec
    under_gdb: bool = False
    say: Say = lambda _: None

    def start(self, **changes: Any) -> RunningServer:
        """A server of ``base`` with ``changes`` to its ServerSpec. Raises UserError as ``lab.start``."""
        return self.lab.start(replace(self.base, **changes), under_gdb=self.under_gdb)


@dataclass(frozen=True)
class Provoked:
    """One fault as it happened. ``happened`` tells whether it is what was meant to be provoked.

    ``kernel`` holds the kernel's own lines, or says why there are none. ``server`` is taken down
    already unless ``outcome`` is "hang": then it lives, ``client`` still waits, and whoever called
    releases it and takes it down (leaving the lab's context does). ``answers`` are in the order of their
    sending, the awake answer of a route before the ones compared with it; ``health`` is the last look at
    a server that lived on.
    """

    name: str
    expected: Expected
    happened: bool
    outcome: str
    server: RunningServer
    core: CoreSearch
    kernel: KernelLines
    answers: tuple[Answer, ...] = ()
    ending: Ending | None = None
    client: Pending | None = None
    notes: tuple[str, ...] = ()
    model_state: str = "present"
    health: Answer | None = None

    @property
    def log(self) -> Path:
        """The server's raw log."""
        return self.server.output.path


def closed(
    name: str,
    expected: Expected,
    server: RunningServer,
    outcome: str,
    *,
    happened: bool,
    answers: tuple[Answer, ...] = (),
    notes: tuple[str, ...] = (),
    model_state: str = "present",
    health: Answer | None = None,
) -> Provoked:
    """Collect what a finished experiment left behind, then take its server down."""
    ending = server.ending
    died = ending is not None and ending.signal is not None
    core = _core(server, ending)
    kernel = kernel_lines(server.started_mono, server.tids) if died else KernelLines()
    server.take_down()
    gdb = ("started under gdb: the kernel writes no line for a debugged process",) if server.under_gdb else ()
    return Provoked(
        name,
        expected,
        happened,
        outcome,
        server,
        core,
        kernel,
        answers,
        ending,
        notes=(*notes, *gdb),
        model_state=model_state,
        health=health,
    )


def _core(server: RunningServer, ending: Ending | None) -> CoreSearch:
    if ending is None or ending.signal is None:
        return CoreSearch(None, "the server did not die of a signal")
    if ending.signal not in CORE_SIGNALS:
        return CoreSearch(None, f"{signal.Signals(ending.signal).name} leaves no core")
    return server.core()
