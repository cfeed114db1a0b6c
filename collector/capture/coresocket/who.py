"""Whose crash a connection is: what the kernel would have put into a pipe handler's arguments.

The peer's pidfd names the process for certain, and says whether it is dumping core and why
(``struct pidfd_info``, uapi/linux/pidfd.h).
"""

import fcntl
import os
import socket
from select import poll
from struct import Struct
from time import monotonic, time

from collector.capture.crash.decide import DELETED
from collector.capture.crash.proc import Process
from collector.capture.crash.request import UNLIMITED, Crash, file_name

_SO_PEERPIDFD = 77
_INFO = Struct("<QQIIIIIIIIIIIIIIII")  # 80 bytes: mask, cgroup id, ids …, exit code, coredump mask, signal
_GET_INFO = 3 << 30 | 80 << 16 | 0xFF << 8 | 11  # PIDFD_GET_INFO: _IOWR(PIDFS_IOCTL_MAGIC, 11, pidfd_info)
_PID, _COREDUMP, _SIGNAL = 1, 1 << 4, 1 << 6  # PIDFD_INFO_…: what is asked for, and what was answered
_DUMPED, _AS_ROOT = 1, 8  # PIDFD_COREDUMPED, PIDFD_COREDUMP_ROOT
_DUMPING = 0x200  # PF_DUMPCORE in stat's flags
_ORDINARY, _ROOT_MODE = "1", "2"
_CPU_FIELD = 36  # of stat, after the name
_HEADER = 64 + 56  # ELF header and one program header
_SIGNAL_AT = 12 + 8 + 12  # a note's header, its owner CORE, pr_cursig in struct elf_prstatus
_NOTE = _SIGNAL_AT + 2
_PEEK_SECONDS = 1.0
_PEEK_BYTES = 128 << 10  # less than a socket holds; program headers of 2,300 mappings


class NoCrashError(Exception):
    """Whoever connected is not dying."""


def pidfd_of(peer: socket.socket) -> int:
    """A descriptor of the process at the other end. Raises OSError."""
    return int.from_bytes(peer.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), "little")


def dump_of(pidfd: int) -> tuple[int, int, int]:
    """(PID, coredump mask, signal or 0). Raises NoCrashError, OSError where the kernel cannot tell."""
    buffer = bytearray(80)
    Struct("<Q").pack_into(buffer, 0, _PID | _COREDUMP | _SIGNAL)
    fcntl.ioctl(pidfd, _GET_INFO, buffer)
    rows = Struct("<QQI").unpack_from(buffer)
    dumped, signal = Struct("<II").unpack_from(buffer, 64)
    if not rows[0] & _COREDUMP or not dumped & _DUMPED:
        raise NoCrashError(f"PID {rows[2]} connected and is not dumping core")
    return rows[2], dumped, signal if rows[0] & _SIGNAL else 0


def crash_of(process: Process, dumped: int, signal: int) -> Crash:
    """The crash of a process that is held. Raises OSError when it is gone all the same."""
    status = process.read("status")
    tid = crashing_thread(process)
    values = {
        "P": str(process.pid),
        "I": str(tid),
        "p": _last(status, b"NSpid:", process.pid),
        "i": _last(_status(process, tid), b"NSpid:", tid),
        "s": str(signal) if signal else "",
        "t": str(int(time())),
        "d": _ROOT_MODE if dumped & _AS_ROOT else _ORDINARY,
        "c": str(core_limit(process.read("limits"))),
        "u": _first(status, b"Uid:"),
        "g": _first(status, b"Gid:"),
        "C": _cpu(process, tid),
    }
    program = process.link("exe").removesuffix(DELETED)
    thread = process.read(f"task/{tid}/comm", 64).decode("utf-8", "surrogateescape").rstrip("\n")
    values["h"], values["e"] = file_name(os.uname().nodename), file_name(thread)
    values["E"], values["f"] = program.replace("/", "!"), file_name(program.rpartition("/")[2])
    return Crash(values)


def signal_in(peer: socket.socket) -> str:
    """The signal in the first note of the core that comes, which stays unread; empty when it cannot be had.

    Kernels before 6.19 do not tell it by the pidfd.
    """
    until = monotonic() + _PEEK_SECONDS
    room = _HEADER
    while monotonic() < until:
        data = peer.recv(room, socket.MSG_PEEK)
        if not data or data[:4] != b"\x7fELF":
            return ""
        if len(data) >= _HEADER:
            at = int.from_bytes(data[72:80], "little")  # of the first program header, which is the notes'
            room = at + _NOTE
            if len(data) >= room and room <= _PEEK_BYTES:
                return str(int.from_bytes(data[at + _SIGNAL_AT : room], "little"))
            if room > _PEEK_BYTES:
                return ""
        poll().poll(1)
    return ""


def crashing_thread(process: Process) -> int:
    """The thread whose signal it was; the first one where none is marked."""
    for name in process.names("task", 1 << 16):
        try:
            fields = process.read(f"task/{name}/stat", 4096).rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 6 and int(fields[6]) & _DUMPING:
            return int(name)
    return process.pid


def core_limit(text: bytes) -> int:
    """The soft RLIMIT_CORE in /proc/PID/limits, in bytes; 0 when it is not there."""
    for line in text.split(b"\n"):
        if line.startswith(b"Max core file size"):
            word = line[len(b"Max core file size") :].split()[0]
            return UNLIMITED if word == b"unlimited" else int(word)
    return 0


def _status(process: Process, tid: int) -> bytes:
    try:
        return process.read(f"task/{tid}/status")
    except OSError:
        return b""


def _last(status: bytes, name: bytes, default: int) -> str:
    words = _words(status, name)
    return words[-1].decode("ascii") if words else str(default)


def _first(status: bytes, name: bytes) -> str:
    words = _words(status, name)
    return words[0].decode("ascii") if words else ""


def _words(status: bytes, name: bytes) -> list[bytes]:
    return next((line[len(name) :].split() for line in status.split(b"\n") if line.startswith(name)), [])


def _cpu(process: Process, tid: int) -> str:
    try:
        fields = process.read(f"task/{tid}/stat", 4096).rpartition(b")")[2].split()
    except OSError:
        return ""
    return fields[_CPU_FIELD].decode("ascii") if len(fields) > _CPU_FIELD else ""
