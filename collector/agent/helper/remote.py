"""The agent's senses by the helper: what its own user may not look at; without an answer its own look."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from collector.agent.helper.link import HelperError, HelperLink, about
from collector.agent.helper.protocol import KMSG, LOG, LOG_FILE, OUTPUTS, SOCKDIAG, WAITS, Request
from collector.agent.states.pulses import main_wait
from collector.agent.states.watch import Dumps, Samples, Senses, real_senses
from collector.discovery.model import Found
from collector.sources.follow.opening import Place
from collector.sources.sockdump import ConnectionDump
from collector.sources.waits import owned_sockets, sockets_being_read

Known = Callable[[int], "Found | None"]


@dataclass(frozen=True)
class HelpedPlace(Place):
    """A log file that the helper opens. ``number`` as in the protocol."""

    link: HelperLink | None = field(default=None, compare=False, repr=False)
    found: Found | None = field(default=None, compare=False, repr=False)
    number: int = LOG_FILE

    def open(self) -> int:
        """A descriptor for reading. Raises OSError."""
        if self.link is None or self.found is None:
            raise OSError("no helper")
        try:
            return self.link.descriptor(about(LOG, self.found, number=self.number))
        except HelperError as problem:
            raise OSError(0, str(problem)) from None


def log_places(link: HelperLink, found: Found) -> list[Place]:
    """The log files that the server itself writes, as the helper sees them; none when it does not answer."""
    try:
        told, descriptors = link.ask(about(OUTPUTS, found))
    except HelperError:
        return []
    for each in descriptors:
        os.close(each)
    numbers = told.get("outputs")
    wanted = [number for number in numbers if number in (0, 1, 2)] if isinstance(numbers, list) else []
    return [_place(link, found, number) for number in wanted]


def _place(link: HelperLink, found: Found, number: int) -> Place:
    if number == LOG_FILE and found.log_file is not None:
        return HelpedPlace(path=Path(found.log_file), root_of=found.pid, link=link, found=found)
    return HelpedPlace(fd_of=found.pid, fd=number, link=link, found=found, number=number)


def kernel_log(link: HelperLink) -> int | None:
    """/dev/kmsg, open for reading without blocking; None where the helper gives none."""
    with suppress(HelperError):
        return link.descriptor(Request(KMSG))
    return None


class HelpedDumps(Dumps):
    """Dumps whose sockets in other network namespaces the helper opens."""

    def __init__(self, link: HelperLink, known: Known) -> None:
        super().__init__()
        self._link, self._known = link, known

    def __call__(self, netns: int | None, pid: int, ports: frozenset[int]) -> Samples:
        if netns is None or netns in self._open:
            return self._read(netns, pid, ports)
        found = self._known(pid)
        if found is None:
            return super().__call__(netns, pid, ports)
        try:
            descriptor = self._link.descriptor(about(SOCKDIAG, found))
        except HelperError as problem:
            raise PermissionError(0, str(problem)) from None
        self._open[netns] = ConnectionDump(link=socket.socket(fileno=descriptor))
        return self._read(netns, pid, ports)

    def _read(self, netns: int | None, pid: int, ports: frozenset[int]) -> Samples:
        try:
            return super().__call__(netns, pid, ports)
        except Exception:
            # It closed its socket, and would open the next one in our own namespace.
            broken = self._open.pop(netns, None)
            if broken is not None:
                broken.close()
            raise


def helped_senses(link: HelperLink, known: Known) -> Senses:
    """The kernel's, looked at by the helper where it answers."""

    def inodes(
        word: str, own: Callable[[int], frozenset[int] | None]
    ) -> Callable[[int], frozenset[int] | None]:
        def look(pid: int) -> frozenset[int] | None:
            found = known(pid)
            if found is not None:
                with suppress(HelperError):
                    told = link.ask(about(WAITS, found, word=word))[0].get("inodes")
                    return _numbers(told) if isinstance(told, list) else None
            return own(pid)

        return look

    def waits(pid: int) -> str | None:
        found = known(pid)
        if found is not None:
            with suppress(HelperError):
                text = link.ask(about(WAITS, found, word="main"))[0].get("text")
                return text if isinstance(text, str) else None
        return main_wait(pid)

    return replace(
        real_senses(),
        dump=HelpedDumps(link, known),
        owned=inodes("owned", owned_sockets),
        being_read=inodes("reading", sockets_being_read),
        main_wait=waits,
    )


def _numbers(told: Sequence[object]) -> frozenset[int]:
    return frozenset(each for each in told if isinstance(each, int))
