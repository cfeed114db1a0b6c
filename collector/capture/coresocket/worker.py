"""One crash off the socket, in a process of its own: kept, or passed on with the core as standard input."""

import fcntl
import os
import socket

from collector.capture.coresocket import handshake, who
from collector.capture.coresocket.limits import HANDSHAKE_SECONDS
from collector.capture.crash import handling
from collector.capture.crash.kmsg import tell
from collector.capture.crash.proc import Process

_CORE, _OUTPUT, _ERRORS, _PIDFD, _FOLDER = 0, 1, 2, 3, 4


def work(peer: socket.socket, folder: str, asked: bool) -> int:
    """Exit status; does not return when another program takes over. ``asked``: an ``@@`` socket."""
    try:
        peer.settimeout(HANDSHAKE_SECONDS)
        pidfd = who.pidfd_of(peer)
        pid, dumped, signal = who.dump_of(pidfd)
        process = Process(pid)
        if who.dump_of(pidfd)[0] != pid:
            raise who.NoCrashError(f"PID {pid} is another process by now")
        crash = who.crash_of(process, dumped, signal)
        if asked:
            handshake.take_core(peer)
        if not signal:
            crash.values["s"] = who.signal_in(peer)
        peer.settimeout(None)
    except (OSError, ValueError, who.NoCrashError, handshake.RefusedError) as problem:
        tell(f"a connection to the coredump socket was not taken: {problem}")
        return 1
    _arrange(peer, pidfd, process)
    crash.values["F"] = str(_PIDFD)
    return handling.dispose(crash, folder, process)


def _arrange(peer: socket.socket, pidfd: int, process: Process) -> None:
    """Descriptors as the kernel hands them to a program, the core, nothing, nothing, the process; and the
    folder of that process below /proc, which no program inherits."""
    lowest = _FOLDER + 1  # copies above what is replaced
    core, kept, place = (
        fcntl.fcntl(each, fcntl.F_DUPFD, lowest) for each in (peer.fileno(), pidfd, process.folder)
    )
    nothing = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD, lowest)
    last = max(core, nothing, kept, place, peer.fileno(), pidfd, process.folder)
    for source, target in ((core, _CORE), (nothing, _OUTPUT), (nothing, _ERRORS), (kept, _PIDFD)):
        os.dup2(source, target)
    os.dup2(place, _FOLDER, inheritable=False)
    os.closerange(lowest, last + 1)
    process.folder = _FOLDER
    peer.detach()
