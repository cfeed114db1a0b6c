"""Which of the agent's parts the privileged helper stands behind: all that look at others, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.agent.feeds import places_of
from collector.agent.roster import Roster
from collector.agent.states.watch import Senses
from collector.discovery.model import Found
from collector.discovery.watch import Discovery
from collector.sources.follow.opening import Place


@dataclass(frozen=True)
class Help:
    """``senses`` and ``kernel`` None: the agent's own. ``kernel`` is a descriptor of /dev/kmsg."""

    discovery: Discovery
    places: Callable[[Found], list[Place]] = places_of
    senses: Senses | None = None
    kernel: int | None = None


def helped(socket: Path | None, roster: Roster, *, kernel: bool) -> Help:
    """By the helper at ``socket``; without one by the agent itself. Never raises: a helper that is not there
    is told by discovery's health, and taken up when it comes."""
    if socket is None:
        return Help(Discovery())
    from collector.agent.helper.link import HelperLink
    from collector.agent.helper.remote import helped_senses, kernel_log, log_places
    from collector.agent.helper.remote_discovery import RemoteDiscovery

    link = HelperLink(socket)

    def places(found: Found) -> list[Place]:
        return log_places(link, found) or places_of(found)

    return Help(
        RemoteDiscovery(socket),
        places,
        helped_senses(link, roster.by_pid),
        kernel_log(link) if kernel else None,
    )
