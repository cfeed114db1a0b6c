"""What of root's rights the server gives up once it listens.

Only the capabilities that reading a dying process and writing its user's core file need stay. Where crashes
are passed on to a program, everything stays: the kernel would start that program with all rights, and nobody
knows which it needs.
"""

import ctypes
import resource

# linux/capability.h
_CHOWN = 0  # the capture's folder is the reader's for a while
_DAC_OVERRIDE, _DAC_READ_SEARCH, _KILL, _SETGID, _SETUID = 1, 2, 5, 6, 7
_SYS_CHROOT, _SYS_PTRACE, _SYS_ADMIN, _SYS_RESOURCE = 18, 19, 21, 24
KEPT = (_DAC_OVERRIDE, _DAC_READ_SEARCH, _KILL, _SETGID, _SETUID, _SYS_CHROOT, _SYS_PTRACE, _SYS_ADMIN)
KEPT += (_SYS_RESOURCE, _CHOWN)  # type: ignore[assignment]
_MOST = 63
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_VERSION_3 = 0x20080522


def never_dumped() -> None:
    """A crash of this server makes no core: nobody could take it, and its end would wait for ever."""
    _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def give_up(previous: str) -> bool:
    """Whether rights were given up. Raises nothing: what cannot be given up stays."""
    if previous.startswith("|"):
        return False
    libc, held = _libc(), _permitted()
    for number in range(_MOST + 1):
        if number not in KEPT:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    mask = sum(1 << number for number in KEPT) & held
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    done = libc.capset(header, data) == 0
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(done)


def _permitted() -> int:
    """This process's permitted capabilities: a container may have been given fewer than all."""
    with open("/proc/self/status", "rb") as file:
        rows = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    return int(rows.get(b"CapPrm", b"0"), 16)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
