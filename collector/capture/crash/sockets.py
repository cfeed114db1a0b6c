"""The dying process's TCP connections with the kernel's figures on each (NETLINK_SOCK_DIAG).

The bytes are collected while it dies and read afterwards. Layouts: ``inet_diag_req_v2``, ``inet_diag_msg``
(linux/inet_diag.h), ``tcp_info`` (linux/tcp.h).
"""

import os
from struct import Struct
from time import monotonic

from collector.capture.crash import limits
from collector.capture.crash.proc import Process

_NETLINK, _SOCK_DIAG, _BY_FAMILY, _DUMP, _TCP = 16, 4, 20, 0x301, 6
_CLONE_NEWNET = 0x40000000
_HEADER, _MESSAGE = Struct("=IHHII"), Struct("=BBBB2s2s16s16sIQIIIII")
_INFO = 2  # INET_DIAG_INFO
_DONE, _ERROR = 3, 2
_FAMILIES = {2: "inet", 10: "inet6"}
_ANSWER_BYTES = 8 << 20  # 300 bytes a connection
_STATES = ("unknown", "established", "syn-sent", "syn-recv", "fin-wait-1", "fin-wait-2", "time-wait")
_STATES += ("close", "close-wait", "last-ack", "listen", "closing", "new-syn-recv")  # type: ignore[assignment]
# Name, offset, bytes in tcp_info. Times are milliseconds ago.
_FIGURES = (
    ("retransmits", 2, 1),
    ("unacked", 24, 4),
    ("lost", 32, 4),
    ("last_data_sent_ms", 44, 4),
    ("last_data_recv_ms", 52, 4),
    ("last_ack_recv_ms", 56, 4),
    ("rtt_us", 68, 4),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("notsent_bytes", 152, 4),
    ("bytes_sent", 200, 8),
)


class Answers:
    """``raw``: netlink messages per family; ``tables``: /proc/PID/net/tcp and tcp6 in their place;
    ``unix``: the table of unix sockets; ``way``: which of the two there is."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.tables: list[bytes] = []
        self.unix = b""
        self.way = "none"


def ask(process: Process) -> Answers:
    """The kernel's answers in the process's network namespace, which this process enters for good."""
    answers = Answers()
    answers.unix = process.read("net/unix", limits.TEXT_BYTES)
    try:
        if process.link("ns/net") != os.readlink("/proc/self/ns/net"):
            _enter(process.open("ns/net"))
        answers.raw = [_dump(family) for family in _FAMILIES]
        answers.way = "sock_diag"
    except OSError:
        answers.tables = [process.read(f"net/{name}", 4 << 20) for name in ("tcp", "tcp6")]
        answers.way = "net/tcp"
    return answers


def _enter(descriptor: int) -> None:
    """setns(2); os.setns came with Python 3.12."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _dump(family: int) -> bytes:
    import _socket

    link = _socket.socket(_NETLINK, 3, _SOCK_DIAG)
    end, parts, held = monotonic() + limits.SOCKETS_SECONDS, [], 0
    try:
        link.settimeout(limits.SOCKETS_SECONDS)
        body = Struct("=BBBBI").pack(family, _TCP, 1 << (_INFO - 1), 0, 0xFFFFFFFF)
        body += bytes(4 + 32 + 4) + b"\xff" * 8
        link.sendto(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _DUMP, 1, 0) + body, (0, 0))
        while held < _ANSWER_BYTES and monotonic() < end:
            part = link.recv(1 << 16)
            parts.append(part)
            held += len(part)
            if _ends(part):
                break
    finally:
        link.close()
    return b"".join(parts)


def _ends(part: bytes) -> bool:
    kind = 0
    for kind, body in messages(part):
        if kind == _ERROR:
            raise OSError(-int.from_bytes(body[:4], "little", signed=True), "sock_diag")
    return kind == _DONE


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """(type, body) of each netlink message; a cut tail is dropped."""
    found, at = [], 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            break
        found.append((kind, data[at + _HEADER.size : at + length]))
        at += length + 3 & ~3
    return found


def connections(answers: Answers, inodes: dict[int, int]) -> list[dict[str, object]]:
    """The process's own sockets. ``inodes``: socket inode → descriptor number."""
    found = [row for raw in answers.raw for _, body in messages(raw) if (row := _connection(body, inodes))]
    found += [row for at, table in enumerate(answers.tables) for row in _table(table, at, inodes)]
    found += _unix(answers.unix, inodes)
    return found[: limits.SOCKETS]


def _connection(body: bytes, inodes: dict[int, int]) -> dict[str, object] | None:
    if len(body) < _MESSAGE.size:
        return None
    row = _MESSAGE.unpack_from(body)
    family, state, inode = row[0], row[1], row[14]
    if inode not in inodes:
        return None
    found: dict[str, object] = {"fd": inodes[inode], "inode": inode, "family": _FAMILIES.get(family, "other")}
    found["state"] = _STATES[state] if state < len(_STATES) else str(state)
    found["local"], found["peer"] = _address(family, row[6], row[4]), _address(family, row[7], row[5])
    found.update(recv_queue=row[11], send_queue=row[12])
    found.update(_figures(_attribute(body[_MESSAGE.size :], _INFO)))
    return found


def _figures(info: bytes) -> dict[str, int]:
    rows = ((name, info[at : at + size]) for name, at, size in _FIGURES if at + size <= len(info))
    return {name: int.from_bytes(data, "little") for name, data in rows}


def _attribute(data: bytes, wanted: int) -> bytes:
    at, head = 0, Struct("=HH")
    while at + head.size <= len(data):
        length, kind = head.unpack_from(data, at)
        if length < head.size or at + length > len(data):
            break
        if kind == wanted:
            return data[at + head.size : at + length]
        at += length + 3 & ~3
    return b""


def _address(family: int, raw: bytes, port: bytes) -> str:
    import ipaddress

    number = int.from_bytes(port, "big")
    if family == 2:
        return f"{ipaddress.IPv4Address(raw[:4])}:{number}"
    address = ipaddress.IPv6Address(raw)
    return f"[{address.ipv4_mapped or address}]:{number}"


def _table(table: bytes, at: int, inodes: dict[int, int]) -> list[dict[str, object]]:
    """Rows of /proc/PID/net/tcp: addresses as 32-bit words in the host's order."""
    found: list[dict[str, object]] = []
    for line in table.split(b"\n")[1:]:
        fields = line.split()
        if len(fields) < 10 or not fields[9].isdigit() or int(fields[9]) not in inodes:
            continue
        state, queues = int(fields[3], 16), fields[4].partition(b":")
        found.append(
            {
                "fd": inodes[int(fields[9])],
                "inode": int(fields[9]),
                "family": "inet6" if at else "inet",
                "state": _STATES[state] if state < len(_STATES) else str(state),
                "local": _hex_address(fields[1], at),
                "peer": _hex_address(fields[2], at),
                "send_queue": int(queues[0], 16),
                "recv_queue": int(queues[2], 16),
            }
        )
    return found


def _hex_address(text: bytes, at: int) -> str:
    address, _, port = text.decode("ascii").partition(":")
    words = bytes.fromhex(address)
    raw = b"".join(words[word : word + 4][::-1] for word in range(0, len(words), 4))
    return _address(10 if at else 2, raw, int(port, 16).to_bytes(2, "big"))


def _unix(table: bytes, inodes: dict[int, int]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for line in table.split(b"\n")[1:]:
        fields = line.split(None, 7)
        if len(fields) > 6 and fields[6].isdigit() and int(fields[6]) in inodes:
            path = fields[7].decode("utf-8", "replace") if len(fields) > 7 else ""
            inode = int(fields[6])
            found.append({"fd": inodes[inode], "inode": inode, "family": "unix", "path": path})
    return found
