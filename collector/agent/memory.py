"""Device memory over the sleep cycle: looked at when a server has fallen asleep, and when it is awake."""

from __future__ import annotations

from analyzers.contracts.evidence import Evidence
from collector.agent.states.model import StateView, Transition
from collector.discovery.model import Found
from collector.sources.follow.devices import device_evidence

AT_REST = ("asleep", "awake")
CYCLE = ("loading", "unloading", "asleep", "waking")  # a request's work changes nothing that a driver tells


def held_memory(found: Found, transition: Transition, view: StateView | None) -> list[Evidence]:
    """What the process holds on each device at this point of its cycle; nothing where no driver tells."""
    if transition.new not in AT_REST or transition.old not in CYCLE:
        return []
    cycle = view.counters.sleeps if view is not None else None
    return device_evidence(found.pid, found.incarnation, phase=transition.new, cycle=cycle)
