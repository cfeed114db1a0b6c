"""TCP connections of one local port straight from the kernel (NETLINK_SOCK_DIAG), without root.

Message layouts: include/uapi/linux/netlink.h, sock_diag.h, inet_diag.h and tcp.h of the kernel.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from analyzers.errors import UserError

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x1 | 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
TCP_ESTABLISHED = 1
_TCP_LISTEN = 10

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
_REQUEST = struct.Struct("=BBBBIH2s16s16sIII")
# family, state, timer, retransmits | ports | addresses | interface | cookie | expires, queues, uid, inode
_ANSWER = struct.Struct("=BBBB2s2s16s16sIQIIIII")
_ATTRIBUTE = struct.Struct("=HH")

# Offsets in struct tcp_info; newer kernels only append. bytes_sent stands in kernels from 4.19 on.
_LAST_DATA_SENT, _LAST_DATA_RECV = 44, 52
_BYTES_ACKED, _BYTES_RECEIVED, _BYTES_SENT = 120, 128, 200

_RECEIVE_SIZE = 1 << 16
_RECEIVE_TIMEOUT = 2.0  # the kernel answers a dump at once; a broken one must not hang the agent
MAX_CONNECTIONS = 20_000  # beyond this a sample is cut: bounds memory on a host under attack


@dataclass(frozen=True)
class TcpSample:
    """One connection, server side. Times are milliseconds before the sample, queues and counts bytes.

    ``cookie`` names the socket for its whole life; ``inode`` matches ``socket:[N]`` in /proc/PID/fd.
    A figure the kernel is too old to give is None.
    """

    cookie: int
    inode: int
    state: int
    peer_address: str
    peer_port: int
    recv_queue: int
    send_queue: int
    bytes_received: int | None = None
    bytes_sent: int | None = None
    last_data_recv_ms: int | None = None
    last_data_sent_ms: int | None = None


def read_connections(port: int, *, states: int = 1 << TCP_ESTABLISHED) -> list[TcpSample]:
    """Every connection whose LOCAL port is ``port``, IPv4 and IPv6; a loopback client's own end is not one.

    ``states`` is a bit set of kernel TCP states. Only the caller's network namespace is seen.
    Raises UserError when the kernel refuses the question.
    """
    found: list[TcpSample] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for sample in _dump(family, port, states):
            found.append(sample)
            if len(found) >= MAX_CONNECTIONS:
                return found
    return found


def read_listening() -> dict[int, tuple[str, int]]:
    """Socket inode to (address, port) of everything that listens in the caller's network namespace.

    Some 0.1 ms, where /proc/net/tcp walks the table of all connections of the machine (7 ms on an idle one).
    Raises UserError as ``read_connections``.
    """
    found: dict[int, tuple[str, int]] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        for body in _bodies(family, 0, 1 << _TCP_LISTEN):
            if len(body) >= _ANSWER.size and len(found) < MAX_CONNECTIONS:
                row = _ANSWER.unpack_from(body)
                found[row[14]] = (_address(row[0], row[6]), int.from_bytes(row[4], "big"))
    return found


def _dump(family: int, port: int, states: int) -> Iterator[TcpSample]:
    for body in _bodies(family, port, states):
        sample = parse_connection(body, port)
        if sample is not None:
            yield sample


def _bodies(family: int, port: int, states: int) -> Iterator[bytes]:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
            link.settimeout(_RECEIVE_TIMEOUT)
            link.sendto(_question(family, port, states), (0, 0))
            yield from _answers(link)
    except OSError as problem:
        if family == socket.AF_INET6:
            return  # a host without IPv6 has no such connections
        raise _refused(problem) from None


def _refused(problem: OSError) -> UserError:
    return UserError(
        f"the kernel gives no socket figures ({problem.strerror or problem})",
        where="NETLINK_SOCK_DIAG",
        remedy="load the modules tcp_diag and inet_diag, or allow AF_NETLINK in the service's unit",
    )


def _question(family: int, port: int, states: int) -> bytes:
    wanted = 1 << (_INET_DIAG_INFO - 1)
    address, cookie = b"", 0xFFFFFFFF  # any
    head = (family, socket.IPPROTO_TCP, wanted, 0, states)
    body = _REQUEST.pack(*head, socket.htons(port), b"", address, address, 0, cookie, cookie)
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 1, 0) + body


def _answers(link: socket.socket) -> Iterator[bytes]:
    while True:
        for kind, body in split_messages(link.recv(_RECEIVE_SIZE)):
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                code = -struct.unpack_from("=i", body)[0]
                raise OSError(code, f"error {code}")
            yield body


def split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, body) of each netlink message; a cut tail is dropped."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def parse_connection(body: bytes, port: int) -> TcpSample | None:
    """One inet_diag_msg with its attributes; None when it is cut or its local port is another."""
    if len(body) < _ANSWER.size:
        return None
    row = _ANSWER.unpack_from(body)
    family, state, _, _, sport, dport, _, peer, _, cookie, _, rqueue, wqueue, _, inode = row
    if int.from_bytes(sport, "big") != port:
        return None
    figures = _tcp_info(_attribute(body[_ANSWER.size :], _INET_DIAG_INFO))
    return TcpSample(
        cookie=cookie,
        inode=inode,
        state=state,
        peer_address=_address(family, peer),
        peer_port=int.from_bytes(dport, "big"),
        recv_queue=rqueue,
        send_queue=wqueue,
        **figures,
    )


def _attribute(data: bytes, wanted: int) -> bytes:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            break
        if kind == wanted:
            return data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return b""


def _tcp_info(info: bytes) -> dict[str, int | None]:
    sent = _number("=Q", info, _BYTES_SENT)
    return {
        "bytes_received": _number("=Q", info, _BYTES_RECEIVED),
        "bytes_sent": sent if sent is not None else _number("=Q", info, _BYTES_ACKED),
        "last_data_recv_ms": _number("=I", info, _LAST_DATA_RECV),
        "last_data_sent_ms": _number("=I", info, _LAST_DATA_SENT),
    }


def _number(form: str, data: bytes, at: int) -> int | None:
    if at + struct.calcsize(form) > len(data):
        return None
    value: int = struct.unpack_from(form, data, at)[0]
    return value


def _address(family: int, raw: bytes) -> str:
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(raw[:4]))
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)
