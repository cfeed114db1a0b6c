"""Which server a process is over its restarts: the same unit, container, router and model, or address."""

from __future__ import annotations

from analyzers.contracts.incident import ServerName
from collector.discovery.model import Found


def identity_of(found: Found) -> str:
    """A name that a restarted server has in common with the one before it."""
    place = found.place
    home = place.unit or (f"container {place.container}" if place.container else None)
    if found.role == "child":
        parent = found.parent.pid if found.parent is not None else None
        return f"child of {home or parent}: {found.model or found.port}"
    if home is not None:
        # Several servers may share a unit (a script that starts two): their addresses tell them apart.
        return f"{home}: {found.port or found.model or ''}"
    return f"{found.exe} on {found.port or found.model or ' '.join(found.args)}"


def name_of(found: Found, host: str | None) -> ServerName:
    """The server as an incident's record names it."""
    return ServerName(
        host=host,
        unit=found.place.unit,
        container=found.place.container,
        model=found.model,
        port=found.port,
        role=found.role,
        build=found.build,
        incarnation=found.incarnation,
        parent=found.parent,
    )
