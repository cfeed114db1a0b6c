"""HANG-ABORTING on a real server: a failed assertion, while gdb prints the backtrace the server asked for.

With gdb installed the server stands still for 2 s (hosted) to 5 s (native with symbols, both measured) before
it dies. Nothing of it is faked: whoever probes in those seconds sees a process that answers nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from collector.lab.faults.hang_loop import hanging
from collector.lab.faults.prompts import unknown_trigger
from collector.lab.faults.provoked import DEATH_DEADLINE, Expected, Provoked, Stage
from collector.lab.reference.processes import descendants
from collector.lab.reference.server import RunningServer

EXPECTED = Expected("HANG-ABORTING", ("server",), ("awake", "unknown"))


def provoke(stage: Stage) -> Provoked:
    """A server that is being traced by the debugger it started; it dies by itself within seconds.

    ``happened`` is False where no gdb is installed, or it was too fast to be seen.
    """
    server = stage.start()
    client = server.begin(unknown_trigger())
    seen = shutil.which("gdb") is not None and server.wait_until(_traced_by_child, DEATH_DEADLINE)
    stage.say("the server prints its backtrace" if seen else "no debugger of the server was seen")
    return hanging("HANG-ABORTING", EXPECTED, server, client, happened=seen)


def _traced_by_child(server: RunningServer) -> bool:
    family = {member.pid for member in descendants(server.pid)}
    try:
        status = Path(f"/proc/{server.pid}/status").read_text()
    except OSError:
        return False
    tracer = next((line.split()[1] for line in status.splitlines() if line.startswith("TracerPid:")), "0")
    return int(tracer) in family
