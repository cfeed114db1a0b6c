"""Keeps one crash: a watcher with a deadline, and a worker that does everything that may go wrong.

The watcher leaves the breadcrumb on the disk while the worker reads; it ends a worker that hangs, and writes
over the breadcrumb why there is no capture. A killed watcher costs nothing, a killed worker the capture only.
"""

import os
import resource
from select import POLLHUP, POLLIN, poll
from time import gmtime, monotonic, strftime, time

from collector.capture.crash import limits
from collector.capture.crash.gather import Gathered, gather
from collector.capture.crash.kmsg import tell
from collector.capture.crash.parts import Parts
from collector.capture.crash.proc import Process, read_file
from collector.capture.crash.request import Crash
from collector.capture.crash.settings import FULL, Settings
from collector.capture.crash.store import Folder, begin, open_store, refuse, sync_trace
from collector.capture.crash.stream import Stream, widen
from collector.capture.crash.writing import FULL_CORE, Account, write_capture

_SIGKILL = 9
_REAP_SECONDS = 2.0  # a killed worker that hangs in the kernel is left behind after this
_MESSAGE = 500
_SPARE = 64 << 20  # above the bound of the largest file: headers and rounding


def keep_crash(process: Process, crash: Crash, settings: Settings, mark: str, core: int) -> int:
    """Make a capture of ``process``. ``core``: the descriptor the kernel writes the core to; it is closed as
    soon as the process may go. Gives an exit status: 0 kept, 1 not kept, with a trace that says why.

    Raises RefusedError before anything is read when the store takes nothing: pass the crash on then.
    Forks: call it in a process of its own.
    """
    account = Account(crash, settings.mode, mark)
    account.start_ticks = _start_ticks(process)
    account.settings_faults = settings.faults
    store = open_store(settings.store, settings.reserve)
    told = _breadcrumb(account)
    name = f"{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{crash.pid}-{account.start_ticks or 0}"
    folder = begin(store, name, told)
    ready, done = os.pipe(), os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(ready[1])
        os.close(done[0])
        os._exit(_work(process, settings, account, folder, core, ready[0], done[1]))
    os.close(core)
    os.close(ready[0])
    os.close(done[1])
    return _watch(worker, folder, told, ready[1], done[0], _deadline(settings))


def _deadline(settings: Settings) -> float:
    return limits.FULL_SECONDS if settings.mode == FULL else limits.MINIMAL_SECONDS


def _start_ticks(process: Process) -> int | None:
    try:
        return process.start_ticks()
    except (OSError, ValueError):
        return None


def _breadcrumb(account: Account) -> dict[str, object]:
    crash = account.crash
    boot = read_file("/proc/sys/kernel/random/boot_id", 64).decode("ascii", "replace").strip()
    return {
        "schema": "llama-blackbox/capture-trace/1",
        "state": "begun",
        "pid": crash.pid,
        "start_ticks": account.start_ticks,
        "boot_id": boot,
        "tid": crash.tid,
        "signal": crash.number("s"),
        "time": crash.number("t"),
        "handler": os.getpid(),
        "at": int(time()),
        "mode": account.mode,
        "mark": account.mark,
        "program": crash.program,
    }


def _watch(
    worker: int, folder: Folder, told: dict[str, object], ready: int, done: int, seconds: float
) -> int:
    until = monotonic() + seconds
    said, problem = "", ""
    try:
        sync_trace(folder)
        os.write(ready, b"1")
    except OSError as error:
        problem = f"the breadcrumb could not be synced or the worker is gone: {error.strerror}"
    os.close(ready)
    waiter = poll()
    waiter.register(done, POLLIN | POLLHUP)
    while not problem:
        if not waiter.poll(max(0.0, until - monotonic()) * 1000):
            problem = f"not finished after {seconds:.0f} s"
            break
        part = os.read(done, _MESSAGE)
        if not part:
            break
        said = part.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if problem:
        os.kill(worker, _SIGKILL)
    status = _reaped(worker)
    if status == 0 and not problem:
        return 0
    why = problem or (f"the handler's worker was ended by signal {-status}" if status < 0 else said)
    return _refused(folder, told, why, said)


def _reaped(worker: int) -> int:
    until = monotonic() + _REAP_SECONDS
    while monotonic() < until:
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        poll().poll(5)
    return -_SIGKILL


def _refused(folder: Folder, told: dict[str, object], why: str, stage: str) -> int:
    try:
        refuse(folder, {**told, "state": "refused", "why": why, "stage": stage})
    except OSError as problem:
        why += f" (and the trace could not be written: {problem.strerror})"
    tell(f"PID {told['pid']} was not captured: {why}")
    return 1


def _work(
    process: Process, settings: Settings, account: Account, folder: Folder, core: int, ready: int, done: int
) -> int:
    """The worker's exit status. Nothing but a signal gets past it."""
    try:
        _bound(settings)
        _capture(process, settings, account, folder, core, ready, done)
    except BaseException as problem:  # noqa: BLE001  whatever it is, the watcher has to be told
        why = f"{type(problem).__name__}: {problem}"[:_MESSAGE]
        _say(done, why)
        try:
            refuse(folder, {**_breadcrumb(account), "state": "refused", "why": why})
        except OSError:
            return 4
        return 3
    return 0


def _capture(
    process: Process, settings: Settings, account: Account, folder: Folder, core: int, ready: int, done: int
) -> None:
    parts, stream = Parts(), Stream(core)
    account.moment("began")
    _say(done, "gathering")
    found = gather(process, account.crash, stream, parts)
    account.moment("gathered")
    if settings.mode == FULL and stream.notes:
        _await(ready, folder)
        _say(done, "streaming")
        _stream_full(folder, settings, stream, parts, account, found)
    os.close(core)
    account.moment("released")
    _await(ready, folder)
    _say(done, "writing")
    write_capture(folder, found, stream, parts, account)
    folder.finish()


def _await(ready: int, folder: Folder) -> None:
    """Until the breadcrumb is on the disk; a watcher that was killed leaves that to the worker."""
    try:
        told = os.read(ready, 1)
    except OSError:
        return  # asked before
    if not told:
        sync_trace(folder)
    os.close(ready)


def _stream_full(
    folder: Folder, settings: Settings, stream: Stream, parts: Parts, account: Account, found: Gathered
) -> None:
    free = os.fstatvfs(folder.descriptor)
    limit = min(settings.full_bytes, free.f_bavail * free.f_frsize - settings.reserve)
    widen(stream.descriptor)
    descriptor = folder.create(FULL_CORE)
    try:
        size, written, whole = stream.drain_to(descriptor, limit)
    except OSError as problem:
        folder.remove(FULL_CORE)
        parts.gaps.append((FULL_CORE, f"{problem.strerror}: the full core was given up"))
        return
    finally:
        account.moment("streamed")
        os.close(descriptor)
    if not whole and written + limits.PIPE_BYTES > limit:
        folder.remove(FULL_CORE)
        parts.gaps.append((FULL_CORE, f"it needs more than the {limit} bytes it may have"))
        return
    if not whole:
        found.streamed = "the kernel's core ended early"
    account.full = {"file": FULL_CORE, "size": size, "written": written, "whole": whole}


def _say(done: int, text: str) -> None:
    try:
        os.write(done, text.encode("utf-8", "replace") + b"\n")
    except OSError:
        return  # the watcher is gone


def _bound(settings: Settings) -> None:
    full = settings.mode == FULL
    largest = max(settings.full_bytes if full else 0, limits.COPY_BYTES, limits.KEPT_BYTES) + _SPARE
    seconds = limits.FULL_CPU_SECONDS if full else limits.CPU_SECONDS
    for kind, bound in (
        (resource.RLIMIT_AS, limits.ADDRESS_SPACE),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, largest),
        (resource.RLIMIT_NOFILE, limits.OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (bound, bound))
