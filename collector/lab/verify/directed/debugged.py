"""A server that gdb started: its threads can be stopped one by one while the others run on."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from analyzers.errors import UserError
from analyzers.stacks.mi import MiError
from collector.lab.reference.conditions import looping
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.debugger import ENVIRONMENT, FATAL, QUIET
from collector.lab.reference.output import Output, printable
from collector.lab.reference.ports import choose_port
from collector.lab.reference.processes import Child, Ending
from collector.lab.reference.server import OWN_CORE, RunningServer
from collector.lab.reference.spec import ServerSpec, command, environment, launched
from collector.lab.verify.directed.mi import MiConversation, Record

# gdb runs the server up to its first word; on a saturated machine that takes tens of seconds.
START_DEADLINE = 90.0
STOP_DEADLINE = 60.0
ASKED_TO_STOP = "0"  # what gdb calls the signal by which it stops a thread on our behalf
FRAMES = 63  # inclusive: the innermost 64; a handler stands within the first 20
SETTINGS = (
    "auto-load off",
    "debuginfod enabled off",
    "confirm off",
    "pagination off",
    "auto-solib-add off",  # no symbols but those of the slim copies: see symbols.py
)
LATER = ("non-stop on", "mi-async on", "print thread-events off", "disable-randomization off")
NO_RIGHT = ("operation not permitted", "permission denied", "cannot create process", "could not trace")
# AddressSanitizer takes these itself, reports, and ends by SIGABRT.
HANDLED = ("SIGSEGV", "SIGBUS")
# gdb 13 names no reason where it has no debug information to print a return value by.
FINISHED = ("function-finished", "")
EXITED = ("exited", "exited-normally", "exited-signalled")


class DebuggedServer(RunningServer):
    """As a RunningServer; what its threads do is taken in by ``absorb``.

    ``hits``: threads that stopped at a breakpoint and wait for a decision. ``left``: threads that have
    returned from the function they were to finish. ``passed``: threads that came by a breakpoint and were let
    go. ``fatal``: the thread that a fatal signal stopped, and
    the signal's number.
    """

    def __init__(self, spec: ServerSpec, folder: Path, port: int, gdb: str) -> None:
        self.spec, self.folder, self.port, self.under_gdb = spec, folder, port, True
        self.started_wall, self.started_mono = time.time(), time.monotonic()
        self.tids: set[int] = set()
        self.core_limit: int | None = None
        self.hits: deque[str] = deque()
        self.left: set[str] = set()
        self.passed: list[str] = []
        self._strays: list[str] = []  # stopped by a signal that ends nothing
        self.fatal: tuple[str, int] | None = None
        self._changed = threading.Condition()
        self._inferior: int | None = None
        self._exit: Ending | None = None
        self._saved: Path | None = None
        popen = _spawn(gdb, folder)
        assert popen.stdin and popen.stdout and popen.stderr  # noqa: S101, PT018 - all were asked for
        self._child = Child(popen, self._notify)
        self.output = Output(popen.stderr, folder / "server.log", self._notify)  # type: ignore[arg-type]
        self.gdb = MiConversation(popen.stdin, popen.stdout, self._notify)

    @property
    def pid(self) -> int:
        return self._inferior or self._child.pid

    @property
    def finished(self) -> bool:
        """The server has ended, or gdb has."""
        return self._exit is not None or self.gdb.ended or self._child.ending is not None

    @property
    def ending(self) -> Ending | None:
        return self._exit

    def absorb(self) -> bool:
        """Take in what happened since the last call; True when the server has died or ended."""
        for event in self.gdb.events():
            self._take(event)
        died = self.fatal is not None or self.finished
        while self._strays and not died:
            self.go_on(self._strays.pop())
        return died

    def _take(self, event: Record) -> None:
        if event.name == "thread-group-started":
            with suppress(ValueError):
                self._inferior = int(event.payload.get("pid", ""))
        reason, thread = event.reason, event.thread
        if reason in EXITED:
            self._exit = _ending(event)
        elif reason is not None and thread is not None:
            self._stopped(event, reason, thread)

    def _stopped(self, event: Record, reason: str, thread: str) -> None:
        name = str(event.payload.get("signal-name", ""))
        if reason == "breakpoint-hit":
            self.hits.append(thread)
        elif reason in FINISHED:
            self.left.add(thread)
        elif name in FATAL and self.fatal is None:
            number = int(signal.Signals[name])
            self.fatal = (thread, number)
            self._exit = Ending(number, None, time.monotonic(), time.time())
        elif name not in (ASKED_TO_STOP, *FATAL):
            self._strays.append(thread)

    def stack(self, thread: str) -> list[str]:
        """Function names of one stopped thread, innermost first, "?" where there is none."""
        rows = self.gdb.ask(f"-stack-list-frames --thread {thread} 0 {FRAMES}").get("stack") or ()
        return [str(row.get("func", "?")) for row in rows if isinstance(row, dict)]

    def register(self, thread: str, name: str) -> int | None:
        """A general register of one stopped thread; None when gdb gives no number."""
        asked = f"-data-evaluate-expression --thread {thread} --frame 0 ${name}"
        with suppress(ValueError):
            return int(str(self.gdb.ask(asked).get("value", "")), 0)
        return None

    def interrupt(self) -> None:
        """Stop all threads and wait until they stand. Raises MiError when they do not."""
        self.gdb.ask("-exec-interrupt --all")
        end = time.monotonic() + STOP_DEADLINE
        while any(row.get("state") == "running" for row in self._threads()):
            if time.monotonic() >= end:
                raise MiError("time")
            self.gdb.wait(0.05)
            self.absorb()

    def _threads(self) -> list[dict[str, str]]:
        rows = self.gdb.ask("-thread-info").get("threads") or ()
        return [row for row in rows if isinstance(row, dict)]

    def go_on(self, thread: str | None = None) -> None:
        """Let one thread, or all, run on."""
        self.gdb.ask("-exec-continue --all" if thread is None else f"-exec-continue --thread {thread}")

    def save_core(self, thread: str) -> None:
        """Stop everything and write the core, the thread that died first in it. Raises MiError."""
        self.interrupt()
        self.gdb.ask(f"-thread-select {thread}")
        self.gdb.console(f"generate-core-file {OWN_CORE}")
        self._saved = self.folder / OWN_CORE

    def core(self, deadline: float = 0.0) -> CoreSearch:
        if self._saved is not None and self._saved.is_file():
            return CoreSearch(self._saved, "saved by gdb, under which the server was started")
        return CoreSearch(None, "gdb saved no core")


def find_gdb() -> str:
    """Raises UserError when there is no debugger."""
    gdb = shutil.which("gdb")
    if gdb is None:
        raise UserError("there is no debugger", where="gdb", remedy="run: apt-get install gdb")
    return gdb


@contextmanager
def debugged(spec: ServerSpec, folder: Path, gdb: str) -> Iterator[DebuggedServer]:
    """A server under gdb that answers and whose loop runs; taken down when the context is left.

    Raises UserError when gdb may not trace, or the server does not come up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="directed-", dir=folder))
    server = DebuggedServer(spec, own, choose_port(spec.port), gdb)
    try:
        try:
            _begin(server)
        except MiError as error:
            raise _refused(server, error.reason) from None
        up = server.wait_until(lambda _: server.absorb() or looping(server), START_DEADLINE)
        if not up or server.absorb():
            raise _did_not_start(server)
        yield server
    finally:
        server.take_down()


def _spawn(gdb: str, folder: Path) -> subprocess.Popen[bytes]:
    before = [part for text in SETTINGS for part in ("-iex", f"set {text}")]
    return subprocess.Popen(
        launched([gdb, "-nx", "-q", "--interpreter=mi2", *before]),
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _begin(server: DebuggedServer) -> None:
    """Tell gdb what to run, and run it. The server's two streams both go to gdb's error stream: its output
    is the conversation. The poison is the server's alone."""
    program, *arguments = command(server.spec, server.port)
    for text in LATER:
        server.gdb.console(f"set {text}")
    for name in (*QUIET, *(HANDLED if "ASAN_OPTIONS" in server.spec.environment else ())):
        server.gdb.console(f"handle {name} nostop noprint pass")
    for name, value in environment(server.spec).items():
        if os.environ.get(name) != value:
            server.gdb.console(f"set environment {name} {value}")
    server.gdb.ask(f"-file-exec-file {_quoted(program)}")
    server.gdb.console(f"set args {shlex.join(arguments)} 1>&2")
    server.gdb.ask("-exec-run")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ending(event: Record) -> Ending:
    name = str(event.payload.get("signal-name", ""))
    number = int(signal.Signals[name]) if name in signal.Signals.__members__ else None
    with suppress(ValueError):
        code = int(str(event.payload.get("exit-code", "0")), 8)
        return Ending(number, None if number else code, time.monotonic(), time.time())
    return Ending(number, None, time.monotonic(), time.time())


def _refused(server: DebuggedServer, reason: str) -> UserError:
    """gdb did not run the server; what it printed besides tells whether it was allowed to."""
    heard = " ".join([reason, *server.gdb.said, server.output.last_text()])
    if any(words in heard.lower() for words in NO_RIGHT):
        return UserError(
            f"no right to trace processes ({printable(reason, 100)})",
            where="gdb",
            remedy="run as root or with kernel.yama.ptrace_scope=0; a container needs --cap-add SYS_PTRACE",
        )
    what = {"time": "gdb does not answer", "ended": "gdb ended by itself"}.get(reason, printable(reason, 200))
    return UserError(
        f"the server cannot be started under gdb ({what})",
        where=str(server.spec.program),
        remedy="try: gdb --version; another gdb, or use: llama-blackbox verify pinned",
    )


def _did_not_start(server: DebuggedServer) -> UserError:
    if not server.absorb():
        how = f"was not ready within {START_DEADLINE:.0f} s"
    elif server.ending is None:
        return _refused(server, "ended")
    elif server.ending.signal:
        how = f"died of {signal.Signals(server.ending.signal).name}"
    else:
        how = f"ended with status {server.ending.code}"
    return UserError(
        f"under gdb the server {how} instead of coming up; it said: {server.output.telling_text()}",
        where=str(server.spec.program),
        remedy="check that it comes up without a debugger: llama-blackbox reference run",
    )
