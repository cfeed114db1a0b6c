"""What a host did not allow when a stack tool was to be confined, as a gap."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.report import Gap

WORDS = {
    "network": "cutting it off from the network",
    "user": "running it as a user without rights",
    "capabilities": "taking its capabilities away",
    "new-privileges": "forbidding it new privileges",
}


def loose_gap(tool: str, loose: Sequence[str]) -> tuple[Gap, ...]:
    """One gap that names the confinements in ``loose`` (see ``confine.Finished``); none when it is empty."""
    if not loose:
        return ()
    why = f"this host did not allow: {', '.join(WORDS.get(word, word) for word in loose)}"
    return (Gap(what=f"the whole confinement of {tool}", why=why),)
