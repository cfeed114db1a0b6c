"""The kernel's own word on processes that start, dump and end (NETLINK_CONNECTOR, CN_IDX_PROC).

Layouts: include/uapi/linux/connector.h and cn_proc.h. Only executions, dumps and ends of whole processes
reach this process: a socket filter drops forks and threads in the kernel, and from 6.6 on the connector
itself does. Only in the initial namespaces; older kernels want CAP_NET_ADMIN, 6.18 told any user.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass

NETLINK_CONNECTOR = 11
_IDX_PROC = _VAL_PROC = 1
_LISTEN, _IGNORE = 1, 2
_NONE, EXEC, COREDUMP, EXIT = 0x0, 0x2, 0x40000000, 0x80000000
_NLMSG = struct.Struct("=IHHII")
_CN = struct.Struct("=IIIIHH")
_EVENT = struct.Struct("=IIQ")  # what, cpu, nanoseconds of CLOCK_MONOTONIC
_IDS = struct.Struct("=IIII")  # PID (a thread's), TGID, exit code, exit signal
_EVENT_AT = _NLMSG.size + _CN.size
_IDS_AT = _EVENT_AT + _EVENT.size
_DUMPED = 0x80  # of a wait status: a core was written
# Bursts of thousands of executions must fit between two polls; forced beyond rmem_max where we may.
BUFFER_BYTES = 4 << 20
_RECEIVE = 512  # bytes of one message; they have 76
_SO_RCVBUFFORCE, _SO_ATTACH_FILTER = 33, 26
NO_RIGHTS = (
    "the kernel tells no process events here, so servers are looked for once a second and the end of one "
    "has no exit code: give the agent CAP_NET_ADMIN in the host's own namespaces"
)


@dataclass(frozen=True)
class ProcessEvent:
    """``kind`` EXEC, COREDUMP or EXIT of process ``pid``; ``mono`` seconds of CLOCK_MONOTONIC, the kernel's.

    ``status`` is a wait status, of an EXIT only; ``whole`` False when it is one thread's that dumped.
    """

    kind: int
    pid: int
    mono: float
    status: int = 0
    whole: bool = True

    @property
    def wall(self) -> float:
        """Unix seconds of the event, by the clocks' present distance."""
        return time.time() - (time.monotonic() - self.mono)

    @property
    def signal(self) -> int | None:
        return self.status & 0x7F or None

    @property
    def code(self) -> int | None:
        return None if self.signal else self.status >> 8 & 0xFF

    @property
    def dumped(self) -> bool:
        return bool(self.status & _DUMPED)


class Connector:
    """A subscription. ``take`` gives what has come. Raises OSError when the kernel gives none."""

    def __init__(self) -> None:
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, NETLINK_CONNECTOR)
        self.received = 0
        try:
            self._enlarge()
            self._filter()
            self._socket.bind((0, _IDX_PROC))
            self._subscribe()
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self, limit: int) -> tuple[list[ProcessEvent], bool]:
        """(up to ``limit`` events, whether some were lost before them). Never blocks."""
        found: list[ProcessEvent] = []
        lost = False
        while len(found) < limit:
            try:
                data, sender = self._socket.recvfrom(_RECEIVE)
            except BlockingIOError:
                break
            except OSError as problem:
                if problem.errno != 105:  # ENOBUFS
                    raise
                lost = True
                continue
            self.received += 1
            event = parse(data) if sender[0] == 0 else None  # anybody may send to a netlink socket
            if event is not None:
                found.append(event)
        return found, lost

    def close(self) -> None:
        with suppress(OSError):
            self._socket.send(_message(struct.pack("=I", _IGNORE)))
        self._socket.close()

    def _enlarge(self) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        except OSError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)

    def _filter(self) -> None:
        code = b"".join(struct.pack("=HBBI", *row) for row in _PROGRAM)
        held = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(_PROGRAM), ctypes.addressof(held))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def _subscribe(self) -> None:
        """The kernel answers within the call; where it does not, nobody is listening there."""
        self._socket.send(_message(struct.pack("=I", _LISTEN)))
        code = self._answer()
        if code != 0:
            raise PermissionError(code or 95, "no process events")
        wanted = EXEC | COREDUMP | EXIT
        # Kernels before 6.6 do not know this form, and pay no heed to it. It has no answer.
        self._socket.send(_message(struct.pack("=II", _LISTEN, wanted)))

    def _answer(self) -> int | None:
        while True:
            try:
                data, sender = self._socket.recvfrom(_RECEIVE)
            except (BlockingIOError, InterruptedError):
                return None
            if sender[0] == 0 and len(data) >= _IDS_AT + 4:
                what, _, _ = _EVENT.unpack_from(data, _EVENT_AT)
                if what == _NONE:
                    code: int = struct.unpack_from("=i", data, _IDS_AT)[0]
                    return abs(code)


def parse(data: bytes) -> ProcessEvent | None:
    """One message; None when it is cut, of another connector, or tells of nothing wanted."""
    if len(data) < _IDS_AT + 8:
        return None
    index, value, _, _, _, _ = _CN.unpack_from(data, _NLMSG.size)
    what, _, nanoseconds = _EVENT.unpack_from(data, _EVENT_AT)
    if (index, value) != (_IDX_PROC, _VAL_PROC) or what not in (EXEC, COREDUMP, EXIT):
        return None
    thread, pid, status, _ = _IDS.unpack(data[_IDS_AT : _IDS_AT + _IDS.size].ljust(_IDS.size, b"\0"))
    return ProcessEvent(what, pid, nanoseconds / 1e9, status if what == EXIT else 0, thread == pid)


def _message(body: bytes) -> bytes:
    inner = _CN.pack(_IDX_PROC, _VAL_PROC, 0, 0, len(body), 0) + body
    return _NLMSG.pack(_NLMSG.size + len(inner), 3, 0, 0, 0) + inner


def _word(value: int) -> int:
    """A host-order word of the message as the filter's loads (big-endian) see it."""
    return socket.htonl(value)


# A classic BPF program over the message: load, compare, keep or drop (linux/filter.h, bpf_common.h).
_LOAD, _EQUAL, _ANY_BIT, _TO_X, _EQUAL_X, _RETURN = 0x20, 0x15, 0x45, 0x07, 0x1D, 0x06
_WHOLE = 0xFFFFFFFF
_PROGRAM = (
    (_LOAD, 0, 0, _EVENT_AT),
    (_EQUAL, 9, 0, _word(_NONE)),
    (_EQUAL, 8, 0, _word(EXEC)),
    (_EQUAL, 7, 0, _word(COREDUMP)),
    (_EQUAL, 0, 7, _word(EXIT)),
    (_LOAD, 0, 0, _IDS_AT + 8),
    (_ANY_BIT, 4, 0, _word(_DUMPED)),  # the thread that wrote the core says so, the others do not
    (_LOAD, 0, 0, _IDS_AT),
    (_TO_X, 0, 0, 0),
    (_LOAD, 0, 0, _IDS_AT + 4),
    (_EQUAL_X, 0, 1, 0),
    (_RETURN, 0, 0, _WHOLE),
    (_RETURN, 0, 0, 0),
)
