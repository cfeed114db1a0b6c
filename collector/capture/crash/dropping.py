"""Takes all rights from the process that reads the core: another user, no capability, no exec, few calls.

What a dying process shows is written by whoever broke it. The reader keeps the descriptors that it needs and
nothing else: it can make files in its own folder, and do nothing to the rest of the machine.
"""

import os
import resource
from struct import Struct, pack

NOBODY = 65534
_READERS = 0x7F000000  # users above systemd's ranges (uids.md: 1879048191 is the last): none of anybody's
_PIDS = 1 << 22  # PID_MAX_LIMIT
_MOST_OPEN = 8192  # LimitNOFILE of the socket's server
# linux/prctl.h, linux/seccomp.h, linux/audit.h
_PDEATHSIG, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 22, 24, 38
_FILTER, _ALLOW, _REFUSE, _X86_64 = 2, 0x7FFF0000, 0x00050001, 0xC000003E  # _REFUSE: EPERM
_MOST_CAPABILITY, _SIGKILL = 63, 9
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
# What Python, its loader and the writing of a capture ask of the kernel (x86-64 numbers).
_CALLS = (
    *(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),  # read write close stat fstat lstat poll lseek mmap … brk
    *(13, 14, 15, 16, 17, 18, 19, 20, 21, 24, 25, 28),  # signals, ioctl, p/readv, access, mremap, madvise
    *(32, 35, 38, 39, 40, 60, 63, 72, 74, 75, 77, 79),  # dup nanosleep setitimer sendfile exit fsync …
    *(89, 96, 97, 98, 99, 102, 104, 107, 108, 110, 131, 138),  # readlink, times, own ids, fstatfs
    *(
        186,
        202,
        217,
        219,
        228,
        229,
        230,
        231,
        234,
        257,
        262,
        263,
        267,
    ),  # futex, getdents64, restart, openat …
    *(269, 270, 271, 302, 318, 332, 334, 439),  # faccessat, prlimit64, getrandom, statx, rseq
)


def reader_of(pid: int) -> int:
    """The user that reads the core of ``pid``: no other process is its own, so none can end or trace it."""
    return _READERS + pid % _PIDS


def hand_over(folder: int, pid: int) -> int:
    """Give the open ``folder`` to the reader of ``pid``; the user it is, without root this one.

    Raises OSError.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        os.fchown(folder, reader_of(pid), reader_of(pid))
        return reader_of(pid)
    except OSError:  # a user namespace that knows few users
        os.fchown(folder, NOBODY, NOBODY)
        return NOBODY


def drop(user: int, parent: int) -> list[str]:
    """Become ``user`` for good; the calling process dies with ``parent``. What this host did not allow.

    Raises OSError when the user cannot be changed: the core must not be read then.
    """
    libc = _calls()
    if libc is not None and os.geteuid() == 0:
        for number in range(_MOST_CAPABILITY + 1):
            libc(_CAPBSET_DROP, number)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # above the limit at a change of user: no exec at all
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if libc is None:
        return ["the C library could not be called: no system call is refused to the reader"]
    missing = [] if libc(_NO_NEW_PRIVS, 1) == 0 else ["new privileges are not forbidden"]
    libc(_PDEATHSIG, _SIGKILL)  # after the change of user, which clears it
    if os.getppid() != parent:
        raise OSError("the handler is gone")
    return missing + ([] if _filtered(libc) else ["no system call is refused to the reader"])


def keep_only(*kept: int) -> None:
    """Close every other descriptor, but for output and errors."""
    last = 0
    for number in sorted({1, 2, *kept}):
        if number > last:  # an empty range that begins at 0 would be all of them (close_range(0, -1))
            os.closerange(last, number)
        last = number + 1
    os.closerange(last, _MOST_OPEN)


def program(calls: "tuple[int, ...]" = _CALLS) -> bytes:
    """The filter (``struct sock_filter`` each): ``calls`` of x86-64 are allowed, all others give EPERM."""
    row = Struct("<HBBI").pack
    rows = [row(_LOAD, 0, 0, 4), row(_EQUAL, 1, 0, _X86_64), row(_RETURN, 0, 0, _REFUSE), row(_LOAD, 0, 0, 0)]
    rows += [row(_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    return b"".join([*rows, row(_RETURN, 0, 0, _REFUSE), row(_RETURN, 0, 0, _ALLOW)])


def _filtered(libc: "_Prctl") -> bool:
    if os.uname().machine != "x86_64":
        return False
    text = libc.bytes(program())
    head = libc.bytes(pack("<Hxxxxxx", len(program()) // 8) + pack("<Q", libc.address(text)))
    return libc(_SECCOMP, _FILTER, libc.address(head)) == 0


class _Prctl:
    """prctl(2) by the C part of ctypes alone: the whole module takes 4 ms to load, this one below 1."""

    def __init__(self) -> None:
        import _ctypes

        self._ctypes = _ctypes
        number = type("number", (_ctypes._SimpleCData,), {"_type_": "i"})
        self._long = type("long", (_ctypes._SimpleCData,), {"_type_": "L"})
        self._char = type("char", (_ctypes._SimpleCData,), {"_type_": "c"})
        kind = {"_flags_": _ctypes.FUNCFLAG_CDECL, "_restype_": number}
        function = type("function", (_ctypes.CFuncPtr,), kind)
        self._prctl = function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"))  # type: ignore[arg-type]

    def __call__(self, option: int, second: int = 0, third: int = 0) -> int:
        long = self._long
        return int(self._prctl(option, long(second), long(third), long(0), long(0)))

    def bytes(self, data: bytes) -> object:
        array = type("room", (self._ctypes.Array,), {"_type_": self._char, "_length_": len(data)})
        return array.from_buffer_copy(data)  # type: ignore[attr-defined]

    def address(self, room: object) -> int:
        return int(self._ctypes.addressof(room))  # type: ignore[arg-type]


def _calls() -> "_Prctl | None":
    try:
        return _Prctl()
    except (ImportError, AttributeError, TypeError, OSError):
        return None
