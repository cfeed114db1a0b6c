"""An end for calls that a file system of the dying process's user can hold for ever (FUSE).

A handler that hangs keeps one of core_pipe_limit's places. The alarm's default action ends it, also where it
waits in the kernel.
"""

import _signal  # type: ignore[import-not-found]  # the module signal imports enum: 3 ms


def end_after(seconds: float) -> None:
    """End this process unless it is told otherwise within ``seconds``; 0: no longer. Survives an exec."""
    _signal.setitimer(_signal.ITIMER_REAL, seconds)
