"""Loopback ports for reference servers."""

from __future__ import annotations

import socket

from analyzers.errors import UserError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A loopback TCP port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def choose_port(wanted: int | None) -> int:
    """``wanted`` when it is free, any free port when it is None. Raises UserError when it is taken."""
    if wanted is None:
        return free_port()
    if not 0 < wanted < 65536:
        raise UserError("not a TCP port", where=f"port {wanted}", remedy="choose one from 1 to 65535")
    with socket.socket() as probe:
        # As the server does: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError as error:
            raise UserError(
                f"the port cannot be used ({error.strerror})",
                where=f"{LOOPBACK}:{wanted}",
                remedy="choose another port, or leave it out to get a free one",
            ) from None
    return wanted
