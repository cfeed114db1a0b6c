"""Hands a crash that is not ours to what kernel.core_pattern named before, as the kernel would have.

A path: the core file, in the dying process's root and folder, with its user's rights, within its
RLIMIT_CORE (``do_coredump`` in fs/coredump.c). ``|program``: that program, in this process's place, with the
core on its standard input. Anything else: nothing.
"""

import os
import stat
import sys
from errno import ESRCH

from collector.capture.crash import limits, stall
from collector.capture.crash.corefile import PAGE, write_sparse
from collector.capture.crash.kmsg import tell
from collector.capture.crash.proc import Process, read_file
from collector.capture.crash.request import UNLIMITED, Crash, expand, file_name

_USES_PID = "/proc/sys/kernel/core_uses_pid"
_PIDFD = 3  # COREDUMP_PIDFD_NUMBER: where the kernel puts the descriptor that %F names
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
_PATH_ROOM = 4096
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h


def pass_on(crash: Crash, previous: str, process: "Process | None" = None) -> int:
    """Exit status; does not return when another program takes over. Raises nothing for what goes wrong
    there: like the kernel it leaves a line in the kernel's log. ``process``: the dying one, held open."""
    try:
        if process is not None and "%f" in previous:
            _name(crash, process)
        if previous.startswith("|"):
            return _to_program(crash, previous[1:])
        if previous.startswith("@"):
            tell(f"PID {crash.pid}: the previous core_pattern is a socket, which only the kernel can use")
            return 1
        return _to_file(crash, previous, process)
    except (OSError, ValueError) as problem:
        stall.end_after(0)
        tell(f"PID {crash.pid}: not passed on ({problem})")
        return 1


def _to_program(crash: Crash, command: str) -> int:
    words = [expand(word, crash) for word in command.split()]
    if not words or os.path.dirname(os.path.abspath(__file__)) in command:
        raise ValueError("the previous core_pattern names no other program")
    if "%F" not in command:
        _close(_PIDFD)
    _forget_python()
    os.execve(words[0], words, _kernel_environment())  # noqa: S606 - the kernel starts it the same way


def _forget_python() -> None:
    """What Python changed in this process and a program would inherit: two signals it ignores."""
    import signal

    for name in _IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def _kernel_environment() -> dict[bytes, bytes]:
    """The environment as the kernel gave it: Python adds a locale of its own."""
    pairs = [word.partition(b"=") for word in read_file("/proc/self/environ").split(b"\0") if b"=" in word]
    return {name: value for name, _, value in pairs if name}


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        return


def core_name(crash: Crash, pattern: str) -> str:
    """The path a pattern stands for; empty when the kernel would write no file."""
    name = expand(pattern, crash)
    uses_pid = read_file(_USES_PID, 8).strip() not in (b"", b"0")
    if uses_pid and "%p" not in pattern.replace("%%", ""):
        name += f".{crash.values['p']}"
    return name[:_PATH_ROOM]


def _name(crash: Crash, process: Process) -> None:
    """%f by the program's link: in %E a slash cannot be told from an exclamation mark."""
    try:
        crash.values["f"] = file_name(process.link("exe").rpartition("/")[2])
    except OSError:
        return


def _to_file(crash: Crash, pattern: str, process: "Process | None") -> int:
    name = core_name(crash, pattern)
    if not name or crash.core_limit < PAGE:  # min_coredump
        return 0
    if crash.as_root and not name.startswith("/"):
        tell(f"PID {crash.pid}: can only dump core to a fully qualified path")
        return 1
    stall.end_after(limits.STALL_SECONDS)
    if process is None:  # its number may be another's by now
        raise ProcessLookupError(ESRCH, "the process is gone")
    descriptor = _create(crash, name, process)
    _drain(descriptor, crash.core_limit)
    return 0


def _create(crash: Crash, name: str, process: Process) -> int:
    """The new file, opened where the process stood and with its rights. There is no way back from them."""
    status = process.read("status")
    owner, group, groups = file_identity(status)
    owner = 0 if crash.as_root else owner
    rights = _Rights(process, status) if owner == 0 else None  # of another user they end with the change
    if not crash.as_root:  # otherwise the kernel uses the initial root
        root, folder = (process.open(place, os.O_PATH | os.O_DIRECTORY) for place in ("root", "cwd"))
        sys.meta_path.clear()  # no module may be loaded from the root of a container
        os.fchdir(root)
        os.chroot(".")
        os.fchdir(folder)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(owner, owner, owner)
    if rights is not None:
        rights.enter()
    if not crash.as_root:
        _unlink(name)
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY
    descriptor = os.open(name, flags, 0o600)
    found = os.fstat(descriptor)
    plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_mode & 0o677 == 0o600
    if not plain or found.st_uid != owner:
        raise ValueError("the file system changed the core's owner or mode")
    return descriptor


class _Rights:
    """The capabilities of a process that is root: in a container it has few, and the kernel writes its core
    with those. All of ours would follow links that lead out of the container (/proc/PID/root)."""

    def __init__(self, process: Process, status: bytes) -> None:
        import ctypes  # before the root is changed

        own = _capabilities(read_file("/proc/self/status"), b"CapPrm:")
        same = process.link("ns/user") == os.readlink("/proc/self/ns/user")  # others mean nothing here
        self._mask = own & _capabilities(status, b"CapEff:") if same else 0
        self._libc, self._array = ctypes.CDLL(None, use_errno=True), ctypes.c_uint32
        self._errno = ctypes.get_errno

    def enter(self) -> None:
        """Have these and no others. Raises OSError."""
        low, high = self._mask & 0xFFFFFFFF, self._mask >> 32
        header = (self._array * 2)(_CAPABILITY_VERSION, 0)
        if self._libc.capset(header, (self._array * 6)(low, low, 0, high, high, 0)) != 0:
            raise OSError(self._errno(), "capset")


def _capabilities(status: bytes, name: bytes) -> int:
    words = status.partition(b"\n" + name)[2].split(None, 1)
    return int(words[0], 16) if words else 0


def _unlink(name: str) -> None:
    try:
        os.unlink(name)
    except OSError:
        return  # whatever it is, opening the new file tells


def file_identity(status: bytes) -> tuple[int, int, list[int]]:
    """The dying process's fsuid, fsgid and supplementary groups. Raises ValueError when they are missing."""
    rows = {line.partition(b":")[0]: line.partition(b":")[2].split() for line in status.split(b"\n")}
    users, groups = rows.get(b"Uid", []), rows.get(b"Gid", [])
    if len(users) != 4 or len(groups) != 4:
        raise ValueError("its user is not known")
    return int(users[3]), int(groups[3]), [int(word) for word in rows.get(b"Groups", [])]


def _drain(descriptor: int, limit: int) -> None:
    """Standard input into the file: pages of zeros as holes, which the limit does not count."""
    buffer = bytearray(limits.PIPE_BYTES)
    view = memoryview(buffer)
    at = written = 0
    full = False
    while not full and (size := _fill(view)):
        stall.end_after(limits.STALL_SECONDS)
        step = size if limit == UNLIMITED or limit - written >= size else PAGE
        for start in range(0, size, step):
            piece = view[start : min(start + step, size)]
            full = limit - written < len(piece) and any(piece)
            if full:
                break
            written += write_sparse(descriptor, piece, at)
            at += len(piece)
    os.ftruncate(descriptor, at)
    stall.end_after(0)


def _fill(view: memoryview) -> int:
    """Bytes read from standard input; fewer than there is room for only at the end."""
    done = 0
    while done < len(view):
        got = os.readv(0, [view[done:]])
        if not got:
            break
        done += got
    return done
