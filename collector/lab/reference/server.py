"""Reference servers: started on a free loopback port, waited for by condition, always taken down."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from analyzers.errors import UserError
from collector.lab.reference import debugger
from collector.lab.reference.allocator import foreign_allocator
from collector.lab.reference.client import REQUEST_TIMEOUT, Answer, Pending, Request, send
from collector.lab.reference.conditions import Condition, exited, looping
from collector.lab.reference.cores import CoreSearch, CoreSettings, locate_core
from collector.lab.reference.output import Output
from collector.lab.reference.ports import choose_port
from collector.lab.reference.processes import Child, Ending, descendants, is_dumping
from collector.lab.reference.spec import ServerSpec, command, environment, launched

# A tiny model is up in a tenth of a second; a padded one on a busy machine takes seconds, and gdb reads
# the symbols of a 90 MB library first.
START_DEADLINE = 30.0
GDB_START_DEADLINE = 90.0
# How often a condition that no log line announces is looked at again.
POLL = 0.02
# SIGKILL acts at once, but a process that is writing its core first finishes that.
TAKE_DOWN_GRACE = 30.0
# systemd-coredump compresses after the process is gone: a large core takes it seconds.
CORE_DEADLINE = 15.0
OUTPUT_GRACE = 2.0
OWN_CORE = "core.gdb"


class RunningServer:
    """One live server. ``folder`` is its private working directory; ``output.path`` its raw log.

    Its start, and every wait, are bounded. Leaving its context takes it down, whatever it is doing.
    The thread that started it must outlive it: the kernel ties the server's life to that thread.
    """

    def __init__(self, spec: ServerSpec, folder: Path, port: int, under_gdb: bool) -> None:
        self.spec = spec
        self.folder = folder
        self.port = port
        self.under_gdb = under_gdb
        self.started_wall = time.time()
        self.started_mono = time.monotonic()
        self.tids: set[int] = set()
        self.core_limit: int | None = None
        self.allocator: str | None = None
        self._changed = threading.Condition()
        popen = _spawn(spec, folder, port, under_gdb)
        assert popen.stdout is not None  # noqa: S101 - it was asked for
        self._child = Child(popen, self._notify)
        self.output = Output(popen.stdout, folder / "server.log", self._notify)  # type: ignore[arg-type]
        self._inferior: int | None = None

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.take_down()

    @property
    def pid(self) -> int:
        """The server's PID; under a debugger that of the debugged process once it is known."""
        if not self.under_gdb:
            return self._child.pid
        if self._inferior is None:
            family = [member.pid for member in descendants(self._child.pid)]
            self._inferior = family[0] if family else None
        return self._inferior or self._child.pid

    @property
    def finished(self) -> bool:
        """The started process has ended: the server itself, or the debugger after saving the core."""
        return self._child.ending is not None

    @property
    def dumping(self) -> bool:
        """The kernel is writing this server's core: it is dead, and looks like one that hangs."""
        return is_dumping(self.pid)

    @property
    def ending(self) -> Ending | None:
        """How the server ended, or None while it lives."""
        return _ending_under_gdb(self.output, self._child.ending) if self.under_gdb else self._child.ending

    def send(self, request: Request) -> Answer:
        """One request in this thread; see ``client.send``."""
        return send(self.port, request, self.spec.api_key)

    def get(self, route: str, timeout: float = REQUEST_TIMEOUT) -> Answer:
        return self.send(Request("GET", route, timeout=timeout))

    def post(self, route: str, body: object, timeout: float = REQUEST_TIMEOUT) -> Answer:
        return self.send(Request("POST", route, body, timeout=timeout))

    def begin(self, request: Request) -> Pending:
        """Start one request in a thread of its own."""
        return Pending(self.port, request, self.spec.api_key)

    def wait_until(self, condition: Condition, deadline: float) -> bool:
        """Wait at most ``deadline`` seconds; True as soon as the condition holds.

        Looked at again after every piece of output, at the end of the process and every 20 ms. An
        ended server is looked at one last time.
        """
        end = time.monotonic() + deadline
        while True:
            last = self.finished or time.monotonic() >= end
            self.note_threads()
            if condition(self):
                return True
            if last:
                return False
            with self._changed:
                self._changed.wait(min(POLL, max(0.0, end - time.monotonic())))

    def transitions(self, phrase: str) -> int:
        """How often the queue loop printed ``phrase``; the server's echo of the line is not counted."""
        return sum(phrase in line.text and "server is" not in line.text for line in self.output.lines())

    def note_threads(self) -> None:
        """Remember the thread ids there are now: the kernel names a dead thread, never its process."""
        with suppress(OSError, ValueError):
            self.tids.update(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))

    def core(self, deadline: float = CORE_DEADLINE) -> CoreSearch:
        """Where the core of the ended server is, waiting for a helper that may still write it."""
        if self.under_gdb:
            return self._own_core()
        limit = self.core_limit
        settings = CoreSettings.of_machine(limit)
        end = time.monotonic() + (deadline if settings.pattern.startswith("|") else 0.0)
        while True:
            found = locate_core(self.pid, self.folder, settings=settings, since=int(self.started_wall))
            if found.path is not None or time.monotonic() >= end:
                return found
            time.sleep(POLL)

    def _own_core(self) -> CoreSearch:
        said = [debugger.saved_core_in(line.text) for line in self.output.lines()]
        paths = [path for path in said if path is not None and path.is_file()]
        if paths:
            return CoreSearch(paths[-1], "saved by gdb, under which the server was started")
        return CoreSearch(None, f"gdb saved no core; its last line: {self.output.last_text()}")

    def terminate(self, deadline: float = TAKE_DOWN_GRACE) -> Ending | None:
        """The planned stop: SIGTERM to the server, then its ending, or None when it does not end in time."""
        self._signal(signal.SIGTERM)
        self.wait_until(exited, deadline)
        return self.ending

    def kill(self, deadline: float = TAKE_DOWN_GRACE) -> Ending | None:
        """SIGKILL to the server, as another process would send it, then its ending."""
        self._signal(signal.SIGKILL)
        self.wait_until(exited, deadline)
        return self.ending

    def _signal(self, number: int) -> None:
        if self.under_gdb and self.pid != self._child.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
        else:
            self._child.signal(number)

    def take_down(self) -> None:
        """Kill whatever is left of the server and its children, and reap it. Safe to call again."""
        self._child.take_down(TAKE_DOWN_GRACE)
        self.output.finish(OUTPUT_GRACE)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class ReferenceServer:
    """Starts reference servers and takes all of them down when its context is left.

    ``folder`` keeps logs and cores and stays; without one they stand in a temporary folder that goes
    with the context.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._kept = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="llama-blackbox-lab-"))
        self.allocators: set[str] = set()  # of the servers so far, those that are not glibc's
        self._servers: list[RunningServer] = []

    def __enter__(self) -> ReferenceServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.take_down()
        if not self._kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, spec: ServerSpec, *, under_gdb: bool = False) -> RunningServer:
        """A server that answers GET /health with 200 and whose queue loop runs.

        Raises UserError, with the server's last line, when the program or model is missing, the port
        is taken, or the server ends or is silent instead of coming up.
        """
        _check(spec)
        port = choose_port(spec.port)
        server = RunningServer(spec, self._private_folder(), port, under_gdb)
        self._servers.append(server)
        deadline = GDB_START_DEADLINE if under_gdb else START_DEADLINE
        up = server.wait_until(lambda each: each.finished or looping(each), deadline)
        if not up or server.finished:
            ending = server.ending  # taking it down gives a server that only was too slow an ending of ours
            server.take_down()
            raise _did_not_start(server, ending, deadline)
        server.core_limit = _core_limit(server.pid)
        server.allocator = foreign_allocator(server.pid)
        self.allocators |= {server.allocator} if server.allocator else set()
        server.note_threads()
        return server

    def _private_folder(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"server-{len(self._servers):03d}-", dir=self.folder))


def _spawn(spec: ServerSpec, folder: Path, port: int, under_gdb: bool) -> subprocess.Popen[bytes]:
    argv, variables = command(spec, port), environment(spec)
    if under_gdb:
        argv = debugger.debugged(argv, folder / OWN_CORE)
        variables.update(debugger.ENVIRONMENT)
    return subprocess.Popen(
        launched(argv),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _check(spec: ServerSpec) -> None:
    if not spec.model.is_file():
        raise UserError("no model file", where=str(spec.model), remedy="give the path of a GGUF file")
    if not (spec.program.is_file() and os.access(spec.program, os.X_OK)):
        raise UserError(
            "not a program that can be run",
            where=str(spec.program),
            remedy="give the path of a llama-server binary, or of a prepared environment's python",
        )


def _did_not_start(server: RunningServer, ending: Ending | None, deadline: float) -> UserError:
    if ending is None:
        how = f"was not ready within {deadline:.0f} s"
    elif ending.signal is not None:
        how = f"died of {signal.Signals(ending.signal).name}"
    else:
        how = f"ended with status {ending.code}"
    last = server.output.telling_text()
    remedy = "check that it is a llama-server of this architecture and that the model is whole"
    return UserError(
        f"the server {how} instead of coming up; it said: {last}",
        where=str(server.spec.program),
        remedy=remedy,
    )


def _core_limit(pid: int) -> int | None:
    with suppress(OSError):
        return resource.prlimit(pid, resource.RLIMIT_CORE)[0]
    return None


def _ending_under_gdb(output: Output, debugger_ending: Ending | None) -> Ending | None:
    for line in output.lines():
        number = debugger.signal_in(line.text)
        code = debugger.exit_code_in(line.text)
        if number is not None or code is not None:
            return Ending(number, None if number else code, line.mono, line.wall)
    return debugger_ending
