"""The connections of many servers in one question to the kernel, asked again every second."""

from __future__ import annotations

import socket
import struct
from collections.abc import Container, Iterator

from analyzers.errors import UserError
from collector.sources.sockdiag import (
    MAX_CONNECTIONS,
    TCP_ESTABLISHED,
    TcpSample,
    parse_connection,
    split_messages,
)

# Layouts: include/uapi/linux/netlink.h and inet_diag.h of the kernel.
# TCPDIAG_GETSOCK answers for IPv4 and IPv6 in one walk of the kernel's table of connections; the question by
# family takes a walk for each, and a walk is nearly all of the cost (1 ms on an idle machine).
_NETLINK_SOCK_DIAG, _TCPDIAG_GETSOCK, _INET_DIAG_INFO = 4, 18, 2
_NLM_F_REQUEST_DUMP = 0x1 | 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_QUESTION = struct.Struct("=IHHIIBBBB48sII")  # netlink header; family, lengths, extensions; any; states
_SPORT = slice(4, 6)  # of inet_diag_msg, network order
_RECEIVE_SIZE = 1 << 16
_RECEIVE_TIMEOUT = 2.0  # the kernel answers a dump at once; a broken one must not hang the agent
ESTABLISHED = 1 << TCP_ESTABLISHED


class ConnectionDump:
    """One netlink socket kept open. The kernel answers for the network namespace in which it was opened (the
    first ``read``), whichever thread reads later. ``link`` is one that was opened elsewhere."""

    def __init__(self, *, link: socket.socket | None = None) -> None:
        self._link = link
        if link is not None:
            link.settimeout(_RECEIVE_TIMEOUT)

    def read(self, ports: Container[int], *, states: int = ESTABLISHED) -> dict[int, list[TcpSample]]:
        """Connections by LOCAL port, of ``ports``; cut at MAX_CONNECTIONS. Raises UserError when the kernel
        refuses the question."""
        found: dict[int, list[TcpSample]] = {}
        try:
            kept = 0
            for body in self._bodies(states):
                port = int.from_bytes(body[_SPORT], "big")
                sample = parse_connection(body, port) if port in ports else None
                if sample is not None and kept < MAX_CONNECTIONS:
                    kept += 1
                    found.setdefault(port, []).append(sample)
        except OSError as problem:
            self.close()  # an answer still under way would be taken for the next question's
            raise _refused(problem) from None
        return found

    def close(self) -> None:
        """Give the socket back; the next ``read`` opens another, in the namespace where it then runs."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _bodies(self, states: int) -> Iterator[bytes]:
        if self._link is None:
            self._link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._link.settimeout(_RECEIVE_TIMEOUT)
        self._link.sendto(_question(states), (0, 0))
        yield from _answers(self._link)


def _question(states: int) -> bytes:
    wanted = 1 << (_INET_DIAG_INFO - 1)
    head = (_QUESTION.size, _TCPDIAG_GETSOCK, _NLM_F_REQUEST_DUMP, 1, 0)
    anyone = b"\0" * 40 + b"\xff" * 8
    return _QUESTION.pack(*head, socket.AF_INET, 0, 0, wanted, anyone, states, 0)


def _answers(link: socket.socket) -> Iterator[bytes]:
    while True:
        for kind, body in split_messages(link.recv(_RECEIVE_SIZE)):
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                code = -struct.unpack_from("=i", body)[0]
                raise OSError(code, f"error {code}")
            yield body


def _refused(problem: OSError) -> UserError:
    return UserError(
        f"the kernel gives no socket figures ({problem.strerror or problem})",
        where="NETLINK_SOCK_DIAG",
        remedy="load the modules tcp_diag and inet_diag, or allow AF_NETLINK in the service's unit",
    )
