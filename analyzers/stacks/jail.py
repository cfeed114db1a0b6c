"""What happens in the child between fork and exec: limits, no network, no rights, death with the parent.

Everything that can be looked up is looked up before the fork, so that a start costs milliseconds and the
child only makes system calls.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass

NOBODY = 65534
CAP_DAC_READ_SEARCH = 2
CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN = 6, 7, 21
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 8, 38, 47
PR_CAP_AMBIENT_RAISE = 2
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
CAPABILITY_VERSION_3 = 0x20080522
OPEN_FILES = 256  # eu-stack opens every mapped object and its debug file: about 60 on a hosted server
# Address space that holds no memory of its own: objects mapped read-only and gdb's symbol files.
ADDRESS_SPACE_SLACK = 4 << 30


@dataclass(frozen=True)
class Limits:
    """``memory_bytes`` is private memory, ``mapped_bytes`` the size of the files mapped on top of it,
    ``processes`` how many processes and threads of its own the tool may have beside itself."""

    seconds: float
    memory_bytes: int
    mapped_bytes: int = 0
    processes: int = 0

    def rlimits(self) -> tuple[tuple[int, int], ...]:
        """(resource, value) pairs, each soft and hard."""
        return (
            # Private writable memory, which is what costs; a 4 GB core mapped read-only does not count.
            (resource.RLIMIT_DATA, self.memory_bytes),
            # A second bound for whatever RLIMIT_DATA does not see.
            (resource.RLIMIT_AS, self.memory_bytes + self.mapped_bytes + ADDRESS_SPACE_SLACK),
            # If our clock-based kill should ever fail, the kernel's own ends a busy loop.
            (resource.RLIMIT_CPU, int(self.seconds) + 2),
            # No regular file can be written, whoever owns it.
            (resource.RLIMIT_FSIZE, 0),
            # A tool that crashes on a hostile core must not leave a core of its own.
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
        )


def environment() -> dict[str, str]:
    """The child's whole environment: no DEBUGINFOD_URLS, no tool options, no secrets of ours."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C"}


def prepare(limits: Limits, report: int) -> Callable[[], None]:
    """The function to run in the child; it writes a letter to ``report`` per confinement it could not get."""
    libc, parent, rights = _LIBC, os.getpid(), _rights()
    pairs = limits.rlimits()
    drop = _drop_plan(rights)

    def confine() -> None:
        if not _no_network(libc, rights):
            os.write(report, b"n")
        drop_failed = drop(libc)
        if drop_failed:
            os.write(report, drop_failed)
        for which, value in pairs:
            _limit(which, value)
        if rights.root and not drop_failed:
            # A tool that cannot fork leaves no children behind. Set after the change of user, since a
            # count above the limit at that moment would make exec fail.
            _limit(resource.RLIMIT_NPROC, limits.processes)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:  # setuid programs gain nothing
            os.write(report, b"p")
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # last: a change of user clears it
        if os.getppid() != parent:  # we died before the line above took hold
            os._exit(1)

    return confine


_LETTERS = {"n": "network", "u": "user", "c": "capabilities", "p": "new-privileges"}


def read_report(fd: int) -> tuple[str, ...]:
    """The names of the confinements the child could not get; closes ``fd``."""
    try:
        return tuple(_LETTERS.get(letter, letter) for letter in os.read(fd, 64).decode("ascii", "replace"))
    finally:
        os.close(fd)


@dataclass(frozen=True)
class _Rights:
    root: bool
    capabilities: int
    has_nobody: bool  # user 65534 exists in this user namespace

    def can(self, *wanted: int) -> bool:
        return all(self.capabilities >> one & 1 for one in wanted)


def _rights() -> _Rights:
    capabilities = 0
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            row = next((line for line in status if line.startswith("CapEff:")), "CapEff: 0")
        capabilities = int(row.split()[1], 16)
        with open("/proc/self/uid_map", encoding="ascii") as rows:
            ranges = [tuple(map(int, row.split())) for row in rows]
    except (OSError, ValueError):
        ranges = []
    has_nobody = any(first <= NOBODY < first + count for first, _, count in ranges)
    return _Rights(os.geteuid() == 0, capabilities, has_nobody)


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)


def _no_network(libc: ctypes.CDLL, rights: _Rights) -> bool:
    """An empty network namespace; without root inside a new user namespace, where the host allows it."""
    flags = CLONE_NEWNET if rights.can(CAP_SYS_ADMIN) else CLONE_NEWUSER | CLONE_NEWNET
    return bool(libc.unshare(flags) == 0)


def _drop_plan(rights: _Rights) -> Callable[[ctypes.CDLL], bytes]:
    if not rights.root:
        return lambda libc: b""
    if rights.has_nobody and rights.can(CAP_SETGID, CAP_SETUID, CAP_DAC_READ_SEARCH):
        return _become_reader
    return _shed_capabilities


def _become_reader(libc: ctypes.CDLL) -> bytes:
    """User nobody with the one right to read: a root-owned core of mode 0600 stays readable."""
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # a seccomp filter of the container
        return _shed_capabilities(libc)
    if not _capset(libc, 1 << CAP_DAC_READ_SEARCH):
        return b"c"
    raised = libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0)
    return b"" if raised == 0 else b"c"


def _shed_capabilities(libc: ctypes.CDLL) -> bytes:
    """In a container that lacks those rights: stay user 0, but without any capability. With
    no_new_privs the exec gives none back, and the file size limit still forbids writing."""
    return b"u" if _capset(libc, 0) else b"uc"


def _capset(libc: ctypes.CDLL, mask: int) -> bool:
    number = SYS_CAPSET.get(os.uname().machine)
    if number is None:
        return False
    header = _CapHeader(CAPABILITY_VERSION_3, 0)
    data = (_CapData * 2)(_CapData(mask, mask, mask), _CapData(0, 0, 0))
    return bool(libc.syscall(number, ctypes.byref(header), ctypes.byref(data)) == 0)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (ceiling, ceiling))
