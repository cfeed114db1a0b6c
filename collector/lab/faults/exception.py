"""An exception nobody catches, on a real server: its listener cannot start one more HTTP thread.

The pool of HTTP threads grows with the connections. Where the address space is limited (a container,
``ulimit -v``) the next thread's stack does not fit, std::thread throws std::system_error in the
listener, and nothing there catches it. Only the limit is set from outside; the throw is the server's.
"""

from __future__ import annotations

import resource
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import ANSWERED, CRASH, DEATH_DEADLINE, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import exited
from collector.lab.reference.ports import LOOPBACK
from collector.lab.reference.server import RunningServer

EXPECTED = Expected("ABRT-EXCEPTION", ("server", "memory", "host", "unknown"), ("awake", "unknown"))
# Less than a thread's stack of 8 MB, more than throwing the exception itself needs.
ROOM = 4 << 20
CONNECTIONS = 200
# Connections must not come in one burst: the pool grows only when a new one finds no thread idle.
PACE = 0.01
UNFINISHED = b"POST /completion HTTP/1.1\r\nHost: lab\r\nContent-Length: 100\r\n\r\n{"
PAGE = resource.getpagesize()


def provoke(stage: Stage) -> Provoked:
    """Freeze the server's address space, then occupy its HTTP threads one by one until it dies."""
    server = stage.start()
    answer = server.send(touch())
    used = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0]) * PAGE
    resource.prlimit(server.pid, resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    stage.say("no room for another thread; opening connections")
    opened = _occupy(server)
    server.wait_until(exited, DEATH_DEADLINE if _broken(server) else 2.0)
    crashed = server.ending is not None
    return closed(
        "exception",
        EXPECTED,
        server,
        CRASH if crashed else ANSWERED,
        happened=crashed and server.output.count("terminate called") > 0,
        answers=(answer,),
        notes=(f"{opened} connections opened",),
    )


def _occupy(server: RunningServer) -> int:
    """Open connections with unfinished requests until the server is gone; how many it took."""
    opened = 0
    with ExitStack() as stack, suppress(OSError):
        while opened < CONNECTIONS and not server.finished and not _broken(server):
            connection = stack.enter_context(socket.create_connection((LOOPBACK, server.port), timeout=5))
            connection.sendall(UNFINISHED)
            opened += 1
            time.sleep(PACE)
    return opened


def _broken(server: RunningServer) -> bool:
    return server.output.count("terminate called") > 0
