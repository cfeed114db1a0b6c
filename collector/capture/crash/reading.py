"""The reader: reads the core and writes the capture's files, as a user that can do nothing else.

Everything that the dying process determines, its notes, its memory, its names, is looked at here.
"""

import os

from collector.capture.crash import limits
from collector.capture.crash.dropping import drop, keep_only
from collector.capture.crash.gather import Gathered, examine
from collector.capture.crash.parts import Parts
from collector.capture.crash.settings import FULL
from collector.capture.crash.store import Folder
from collector.capture.crash.stream import Stream, widen
from collector.capture.crash.writing import FULL_CORE, Account, write_capture

MESSAGE = 500  # bytes of what the reader and the keeper say


class Ends:
    """``core``: where it comes from; ``go``: a byte once the breadcrumb is synced; ``done``: the stages, for
    the watcher; ``words``: what went wrong, for the keeper; ``room``: bytes a full core may take."""

    def __init__(self, core: int, go: int, done: int, words: int, room: int) -> None:
        self.core, self.go, self.done, self.words, self.room = core, go, done, words, room


def read_alone(
    user: int, keeper: int, found: Gathered, parts: Parts, account: Account, folder: Folder, ends: Ends
) -> int:
    """The reader's exit status, in a process of its own that has no rights from here on."""
    try:
        held = [descriptor for _, descriptor in found.held]
        wanted = (ends.core, ends.go, ends.done, ends.words, folder.descriptor, found.memory, found.program)
        keep_only(*(each for each in (*wanted, *held) if each is not None))
        parts.gaps += [("confinement", why) for why in drop(user, keeper)]
        _capture(found, parts, account, folder, ends)
    except BaseException as problem:  # noqa: BLE001  whatever it is, the keeper has to be told
        say(ends.words, f"{type(problem).__name__}: {problem}"[:MESSAGE])
        return 3
    return 0


def _capture(found: Gathered, parts: Parts, account: Account, folder: Folder, ends: Ends) -> None:
    stream = Stream(ends.core)
    parts.last()
    say(ends.done, "reading")
    examine(found, stream, parts)
    account.moment("examined")
    if account.mode == FULL and stream.notes:
        _await(ends.go)
        say(ends.done, "streaming")
        _stream_full(folder, stream, parts, account, found, ends.room)
    os.close(ends.core)
    account.moment("released")
    _await(ends.go)
    say(ends.done, "writing")
    write_capture(folder, found, stream, parts, account)


def _await(go: int) -> None:
    """Until the breadcrumb is on the disk."""
    try:
        told = os.read(go, 1)
        os.close(go)
    except OSError:
        return  # asked before
    if not told:
        raise OSError("the keeper is gone")


def _stream_full(
    folder: Folder, stream: Stream, parts: Parts, account: Account, found: Gathered, limit: int
) -> None:
    widen(stream.descriptor)
    descriptor = folder.create(FULL_CORE)
    try:
        size, written, whole = stream.drain_to(descriptor, limit)
    except OSError as problem:
        folder.remove(FULL_CORE)
        parts.gaps.append((FULL_CORE, f"{problem.strerror}: the full core was given up"))
        return
    finally:
        account.moment("streamed")
        os.close(descriptor)
    if not whole and written + limits.PIPE_BYTES > limit:
        folder.remove(FULL_CORE)
        parts.gaps.append((FULL_CORE, f"it needs more than the {limit} bytes it may have"))
        return
    if not whole:
        found.streamed = "the kernel's core ended early"
    account.full = {"file": FULL_CORE, "size": size, "written": written, "whole": whole}


def say(descriptor: int, text: str) -> None:
    """A line for whoever listens; silence when nobody does."""
    try:
        os.write(descriptor, text.encode("utf-8", "replace") + b"\n")
    except OSError:
        return
