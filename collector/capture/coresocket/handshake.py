"""The coredump socket's protocol: ``struct coredump_req`` and ``coredump_ack`` (uapi/linux/coredump.h).

On ``@@`` sockets the kernel asks first what it shall do; on ``@`` sockets the core comes at once.
"""

import socket
from struct import Struct

KERNEL, USERSPACE, REJECT, WAIT = 1, 2, 4, 8
_REQUEST, _ACK = Struct("<IIQ"), Struct("<IIQ")
_MOST = 4096  # a page bounds what a later kernel may send
_DONE = 0  # COREDUMP_MARK_REQACK: the acknowledgement was understood


class RefusedError(Exception):
    """The peer is not the kernel, or a kernel that cannot do this."""


def take_core(peer: socket.socket) -> None:
    """Ask for the core, and to be waited for. Raises RefusedError, OSError."""
    size, room, offered = _REQUEST.unpack(_exactly(peer, _REQUEST.size))
    if not _REQUEST.size <= size <= _MOST or room < _ACK.size:
        raise RefusedError(f"a request of {size} bytes")
    _exactly(peer, size - _REQUEST.size)
    if offered & (KERNEL | WAIT) != KERNEL | WAIT:
        raise RefusedError(f"the kernel offers {offered:#x}")
    peer.sendall(_ACK.pack(_ACK.size, 0, KERNEL | WAIT))
    mark = int.from_bytes(_exactly(peer, 4), "little")
    if mark != _DONE:
        raise RefusedError(f"the kernel answered {mark}")


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data), socket.MSG_WAITALL)
        if not part:
            raise RefusedError("the peer is gone")
        data += part
    return data
