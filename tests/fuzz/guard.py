"""What no reader may do with a hostile input: write elsewhere, start a process, talk to the network.

Python's audit hook sees every such attempt, also one whose exception the reader would swallow.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CPU_SECONDS = 2.0  # for one input of at most 64 KiB; the slowest honest one takes a tenth of a second
ADDRESS_SPACE = 3 << 30  # bytes, this process's whole: instrumented modules and their libraries are 1 GiB
FILE_SIZE = 256 << 20  # bytes of one file; a packed input may unpack to more, and is then refused
STARTS = ("subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.")
TALKS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo")
LOADS = ("pickle.find_class",)
# event -> which of its arguments are paths, and which is a folder's descriptor
CHANGES = {
    "os.mkdir": ((0,), 2), "os.rmdir": ((0,), 1), "os.remove": ((0,), 1), "os.truncate": ((0,), None),
    "os.rename": ((0, 1), 2), "os.link": ((0, 1), 2), "os.symlink": ((1,), 2), "os.chmod": ((0,), 2),
    "os.chown": ((0,), 3), "os.utime": ((0,), 3), "os.setxattr": ((0,), None),
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Line feed and tab may stand in a rendering; everything that steers a terminal or turns text may not.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class ViolationError(BaseException):
    """A promise was broken. Not an Exception: no reader can swallow it."""


class Guard:
    """Watches what happens inside ``watching``; ``folder`` is the only place that may be written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.seen: list[str] = []
        self._armed = False
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises ViolationError at the end for what was attempted, and for time beyond CPU_SECONDS."""
        self.seen.clear()
        begun, self._armed = time.process_time(), True
        try:
            yield
        finally:
            self._armed = False
        spent = time.process_time() - begun
        if self.seen:
            raise ViolationError(self.seen[0])
        if spent > CPU_SECONDS:
            raise ViolationError(f"{spent:.1f} s of CPU for one input")

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._armed:
            return
        if event == "open":
            self._opened(arguments)
        elif event.startswith((*STARTS, *TALKS, *LOADS)):
            self._stop(f"{event} {str(arguments)[:200]}")
        elif event in CHANGES:
            self._changed(event, arguments)

    def _opened(self, arguments: tuple[object, ...]) -> None:
        path, mode, flags = (*arguments, None, None)[:3]
        writes = isinstance(mode, str) and set(mode) & set("wax+")
        writes = writes or (isinstance(flags, int) and bool(flags & WRITING))
        if writes and not isinstance(path, int) and not self._inside(path, None):
            self._stop(f"opened {path!r} for writing")

    def _changed(self, event: str, arguments: tuple[object, ...]) -> None:
        paths, at = CHANGES[event]
        folder = arguments[at] if at is not None and at < len(arguments) else None
        for index in paths:
            if not isinstance(arguments[index], int) and not self._inside(arguments[index], folder):
                self._stop(f"{event} {arguments[index]!r}")

    def _inside(self, path: object, folder: object) -> bool:
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else str(path)
        if isinstance(folder, int) and folder >= 0 and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        text = os.path.join(os.path.realpath(os.path.dirname(text) or "."), os.path.basename(text))
        return text == str(self.folder) or text.startswith(f"{self.folder}{os.sep}") or text == os.devnull

    def _stop(self, what: str) -> None:
        self.seen.append(what)
        raise ViolationError(what)


def bound_this_process() -> None:
    """Kernel limits that hold whatever the code under test does; also no core of our own."""
    for which, value in (
        (resource.RLIMIT_AS, ADDRESS_SPACE),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (value, value))


def inert(text: str) -> None:
    """Raises ViolationError when something in ``text`` could steer a terminal."""
    found = _STEERING.search(text)
    if found:
        at = max(0, found.start() - 40)
        raise ViolationError(f"control character {found[0]!r} in {text[at : found.end() + 40]!r}")


def demand(holds: bool, what: str) -> None:
    """Raises ViolationError with ``what`` when a promise does not hold."""
    if not holds:
        raise ViolationError(what)
