"""Becomes another program after tying itself to its parent: run as a script, never imported.

``launch.py PARENT PROGRAM ARGUMENT…``: asks the kernel for a SIGKILL when the parent's thread ends
(PR_SET_PDEATHSIG, kept across exec), raises the core limit as far as allowed, and execs PROGRAM. A
script of its own instead of a function between fork and exec: that one runs with the locks of all
the parent's other threads frozen and may hang.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _raise_core_limit() -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, unlimited)
    except (OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request was made
        sys.exit(1)
    _raise_core_limit()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would pass that on
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command comes from the lab
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", flush=True)
        sys.exit(127)


if __name__ == "__main__":
    main()
