"""HANG-HTTP on a real server: clients hold all that it can take, and even /health gets no answer.

The pool of HTTP threads grows to 1,024 beyond its base (measured on b9093 and b11549), so a small
``--threads-http`` alone holds nothing up. What runs out first in life is the limit on open files: the
listener then cannot take the next connection and tries again for ever.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from collector.lab.faults.exception import UNFINISHED
from collector.lab.faults.hang_loop import PATIENCE, hanging
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import Expected, Provoked, Stage
from collector.lab.reference.client import Request
from collector.lab.reference.ports import LOOPBACK
from collector.lab.reference.server import RunningServer

EXPECTED = Expected("HANG-HTTP", ("configuration",), ("awake",))
FILES = 64  # the server's own take about a dozen
POOL_LIMIT = 1024  # threads that httplib's pool adds to its base
# Connections must not come in one burst: the pool grows only when a new one finds no thread idle.
PACE = 0.003
SILENT = 1.0  # seconds in which an idle server has long answered /health


@contextmanager
def provoked(stage: Stage, *, files: int | None = FILES) -> Iterator[Provoked]:
    """Unfinished uploads until /health is silent, held while the context lasts.

    ``files`` limits the server's open files; None fills the pool's own limit instead, which takes more than
    a thousand connections and as many open files of our own.
    """
    server = stage.start(http_threads=2)
    server.send(touch())
    if files is not None:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (files, files))
    with ExitStack() as stack:
        number = files if files is not None else POOL_LIMIT + 100
        for _ in range(number):
            _hold(server, stack)
        silent = server.get("/health", timeout=SILENT).status is None
        stage.say(f"{number} unfinished uploads; /health is {'silent' if silent else 'answered'}")
        client = server.begin(Request("GET", "/health", timeout=PATIENCE))
        yield hanging("HANG-HTTP", EXPECTED, server, client, happened=silent)


def _hold(server: RunningServer, stack: ExitStack) -> None:
    with suppress(OSError):
        connection = stack.enter_context(socket.create_connection((LOOPBACK, server.port), timeout=5))
        connection.sendall(UNFINISHED)
    time.sleep(PACE)
