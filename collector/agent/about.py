"""What is known of a server as evidence and as a row of the outbox: for triage, and for people."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import MarkFact, ProbeFact, SettingsFact, fact_of, to_evidence
from analyzers.contracts.outbox import ServerRow
from analyzers.contracts.watched import LookFact
from collector.agent.states.model import StateView
from collector.discovery.model import Found
from collector.sources.process import sleep_words

STREAM = "discovery"
MAX_SETTINGS = 60  # of one server, shown
MAX_NOTES = 8


def key_of(who: Incarnation) -> str:
    """The name of one life in the outbox."""
    started = "" if who.start_time is None else f"{who.start_time:.2f}"
    return f"{(who.boot_id or '').replace('-', '')}-{who.pid}-{started}"


def facts_of(found: Found) -> list[Evidence]:
    """Settings and build as evidence, so that a death is judged with them."""
    wall, mono, who = time.time(), time.monotonic(), found.incarnation
    settings = SettingsFact(
        sleep_idle_seconds=found.sleep_idle_seconds,
        args=found.args,
        model=found.model,
        role=found.role,
        metrics=found.metrics,
        memory_poisoned=None,
    )
    common: dict[str, Any] = {"wall": wall, "mono": mono, "incarnation": who}
    told = [
        to_evidence(
            settings,
            id=f"settings-{key_of(who)}",
            source=f"/proc/{who.pid}",
            text=f"process {who.pid}: {found.role}, {sleep_words(found.sleep_idle_seconds)}",
            trust=Trust.SUPERVISOR,
            **common,
        )
    ]
    if found.build is not None or found.build_id is not None:
        build, identity = found.build or "unknown", found.build_id or "unknown"
        told.append(
            to_evidence(
                MarkFact(mark="build", build=found.build, build_id=found.build_id),
                id=f"build-{key_of(who)}",
                source=found.exe,
                text=f"the program is build {build}, build-id {identity}",
                trust=Trust.KERNEL,
                **common,
            )
        )
    return told


def dump_fact(found: Found, wall: float, mono: float) -> Evidence:
    """The kernel has begun to write the server's core."""
    return to_evidence(
        LookFact(dumping=True),
        id=f"dumping-{key_of(found.incarnation)}",
        source=f"process {found.pid}",
        text=f"the kernel writes the core of process {found.pid}",
        trust=Trust.KERNEL,
        wall=wall,
        mono=mono,
        incarnation=found.incarnation,
    )


def row_of(found: Found, view: StateView | None, wall: float, notes: Sequence[str] = ()) -> ServerRow:
    """The server as `status` and panels show it; ``about`` is JSON, free of keys."""
    state = view.state if view is not None else "down"
    return ServerRow(
        key=key_of(found.incarnation),
        state=state,
        wall=view.since_wall if view is not None else wall,
        mono=view.since_mono if view is not None else None,
        about=json.dumps(_about(found, view, notes)),
    )


def _about(found: Found, view: StateView | None, notes: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "pid": found.pid,
        "start_time": found.incarnation.start_time,
        "boot_id": found.incarnation.boot_id,
        "role": found.role,
        "hosted": found.hosted,
        "model": found.model,
        "port": found.port,
        "socket": next((one.socket for one in found.listening if one.socket), None),
        "unit": found.place.unit,
        "container": found.place.container,
        "parent": found.parent.pid if found.parent is not None else None,
        "build": found.build,
        "build_id": found.build_id,
        "defects": list(found.defects),
        "sleep_idle_seconds": found.sleep_idle_seconds,
        "settings": [[one.name, one.value, one.origin] for one in found.settings[:MAX_SETTINGS]],
        "problems": list(found.problems[:MAX_NOTES]),
        "notes": list(notes[:MAX_NOTES]),
    }
    if view is not None:
        told |= _viewed(view)
    return told


def _viewed(view: StateView) -> dict[str, Any]:
    counters = view.counters
    return {
        "reason": view.reason,
        "evidence": list(view.evidence[:MAX_NOTES]),
        "state_notes": list(view.notes[:MAX_NOTES]),
        "sleeps": counters.sleeps,
        "wakes": counters.wakes,
        "asleep_seconds": round(counters.asleep_seconds, 1),
        "unload_seconds": counters.last_unload.seconds if counters.last_unload else None,
        "wake_seconds": counters.last_wake.seconds if counters.last_wake else None,
        "stranded": [{"peer": one.peer, "seconds": round(one.quiet, 1)} for one in view.stranded[:MAX_NOTES]],
    }


def worth_keeping(evidence: Evidence) -> bool:
    """Answers that say something: what a healthy server says every ten seconds would fill the ring."""
    probe = fact_of(evidence, ProbeFact)
    return probe is not None and (probe.outcome != "answered" or probe.is_sleeping is True)
