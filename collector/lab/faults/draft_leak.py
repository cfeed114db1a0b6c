"""D5 on a real server: a draft model stays in memory while the server sleeps (builds up to b9246)."""

from __future__ import annotations

from dataclasses import replace

from analyzers.contracts.evidence import Evidence
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import HEALTHY, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import asleep_by_props, sleeps
from collector.lab.reference.gguf import ModelSpec, cached_model
from collector.sources.memory import memory

EXPECTED = Expected("SLEEP-LEAK", ("sleep",), ("asleep", "stopping"), "D5")
SOUND = Expected("NO-FAULT", ("unknown", "supervisor"), ("asleep", "stopping", "unknown"))
AFFECTED_VERSION = "2026.5.9093"  # the newest wheel that keeps the draft
DRAFT = ModelSpec(seed=1, padding_mib=8)
IDLE_SECONDS, CYCLES = 1, 3
DEADLINE = 15.0


def provoke(stage: Stage, *, drafting: bool = True, cycles: int = CYCLES) -> tuple[Provoked, list[Evidence]]:
    """``cycles`` sleeps with a look at the memory in each; the twin has no draft, or another build."""
    draft = cached_model(DRAFT) if drafting else None
    server = stage.lab.start(replace(stage.base, idle_seconds=IDLE_SECONDS, draft=draft))
    seen = []
    for cycle in range(1, cycles + 1):
        server.send(touch())
        slept = server.wait_until(sleeps(cycle), DEADLINE) and server.wait_until(asleep_by_props, DEADLINE)
        taken = memory(server.pid, phase="asleep", cycle=cycle) if slept else None
        seen += [taken] if taken is not None else []
    expected = EXPECTED if drafting else SOUND
    return closed("D5", expected, server, HEALTHY, happened=len(seen) == cycles), seen
