"""Keeps one crash: a watcher with a deadline, a keeper that has root's rights, a reader that has none.

The watcher leaves the breadcrumb on the disk meanwhile; it ends a keeper that hangs, and writes over the
breadcrumb why there is no capture. The keeper opens what /proc shows, and gives the capture its name; in
between the reader (collector.capture.crash.reading) does everything with what the dying process determines.
A killed watcher costs nothing, a killed keeper or reader the capture only.
"""

import os
import resource
from select import POLLHUP, POLLIN, poll
from time import gmtime, monotonic, strftime, time

from collector.capture.crash import limits
from collector.capture.crash.dropping import hand_over
from collector.capture.crash.gather import gather
from collector.capture.crash.kmsg import tell
from collector.capture.crash.parts import Parts
from collector.capture.crash.proc import Process, read_file
from collector.capture.crash.reading import MESSAGE, Ends, read_alone, say
from collector.capture.crash.request import Crash
from collector.capture.crash.settings import FULL, Settings
from collector.capture.crash.store import (
    Folder,
    begin,
    mark_of,
    open_store,
    refuse,
    share_left,
    sync_trace,
)
from collector.capture.crash.writing import Account

_SIGKILL = 9
_REAP_SECONDS = 2.0  # a killed worker that hangs in the kernel is left behind after this
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
    uid = crash.number("u")
    store = open_store(settings.store, settings.reserve, uid)
    told = _breadcrumb(account)
    name = f"{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{crash.pid}-{account.start_ticks or 0}"
    name += mark_of(uid) if uid is not None else ""
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
        "uid": account.crash.number("u"),
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
        part = os.read(done, MESSAGE)
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
    """The keeper's exit status. Nothing but a signal gets past it."""
    try:
        _bound(settings)
        why = _keep(process, settings, account, folder, core, ready, done)
    except BaseException as problem:  # noqa: BLE001  whatever it is, the watcher has to be told
        why = f"{type(problem).__name__}: {problem}"[:MESSAGE]
    if why is None:
        return 0
    say(done, why)
    try:
        refuse(folder, {**_breadcrumb(account), "state": "refused", "why": why})
    except OSError:
        return 4
    return 3


def _keep(
    process: Process, settings: Settings, account: Account, folder: Folder, core: int, ready: int, done: int
) -> str | None:
    """Why there is no capture; None when it has its name."""
    parts = Parts()
    account.moment("began")
    say(done, "gathering")
    found = gather(process, account.crash, parts)
    account.moment("gathered")
    room = _room(settings, folder, account.crash.number("u")) if settings.mode == FULL else 0
    user = hand_over(folder.descriptor, process.pid)
    go, words = os.pipe(), os.pipe()
    keeper = os.getpid()
    reader = os.fork()
    if reader == 0:
        ends = Ends(core, go[0], done, words[1], room)
        os._exit(read_alone(user, keeper, found, parts, account, folder, ends))
    for descriptor in (core, go[0], words[1], found.memory, found.program, *(each for _, each in found.held)):
        _close(descriptor)
    _await(ready, folder)
    say(go[1], "go")
    why = _last_words(words[0])
    ended = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    if ended:
        return why or (
            f"the reader was ended by signal {-ended}" if ended < 0 else f"the reader gave {ended}"
        )
    folder.finish()
    return None


def _close(descriptor: int | None) -> None:
    try:
        if descriptor is not None:
            os.close(descriptor)
    except OSError:
        return  # the program's own is among those that are held


def _last_words(descriptor: int) -> str:
    """What the reader says before it ends; empty when all is well."""
    words = b""
    while part := os.read(descriptor, MESSAGE):
        words = (words + part)[-MESSAGE:]
    return words.decode("utf-8", "replace").strip()


def _room(settings: Settings, folder: Folder, uid: int | None) -> int:
    """Bytes that a full core may take: of the file system, and of its user's share."""
    free = os.fstatvfs(folder.descriptor)
    room = min(settings.full_bytes, free.f_bavail * free.f_frsize - settings.reserve)
    if uid is None:
        return room
    names = [name for name in os.listdir(folder.store) if name.endswith(mark_of(uid))]
    return min(room, share_left(folder.store, names))


def _await(ready: int, folder: Folder) -> None:
    """Until the breadcrumb is on the disk; a watcher that was killed leaves that to the keeper."""
    if not os.read(ready, 1):
        sync_trace(folder)
    os.close(ready)


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
