"""Long runs: a healthy server through many sleeps, and the demo again and again."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pytest
from e2e_ask import Said, ask, command
from e2e_live import target_of
from e2e_stage import SAID, UNLOAD, Plays, hand_over

from collector.lab.faults.prompts import count_tokens, touch
from collector.lab.faults.provoked import HEALTHY, Expected, closed
from collector.lab.reference import RunningServer
from collector.lab.reference.conditions import ENTERING, asleep
from collector.sources.probes import probe

pytestmark = [pytest.mark.real, pytest.mark.soak]
CYCLES = int(os.environ.get("LLAMA_BLACKBOX_SOAK_CYCLES", "600"))  # about 1.1 s each
DEMOS = int(os.environ.get("LLAMA_BLACKBOX_SOAK_DEMOS", "10"))
SLEEP_DEADLINE = 30.0
# Memory settles within the first dozens of cycles (heap and arenas find their size); later growth over
# hundreds of cycles by more than this share would be a leak of a sleep cycle.
SETTLING = 10  # per cent of the cycles
GROWTH = 1.02


def resident_kib(server: RunningServer) -> int:
    """VmRSS of the server, in KiB."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_a_healthy_server_through_many_sleeps_keeps_its_answers_and_its_memory(
    plays: Plays, tmp_path: Path
) -> None:
    # GIVEN one server, put to sleep by its own timer and woken by a completion, over and over
    server = plays.stage(UNLOAD).start(idle_seconds=1)
    first = server.send(count_tokens())
    sleeping, awake = [], []
    for cycle in range(CYCLES):
        assert server.wait_until(asleep, SLEEP_DEADLINE), f"awake in cycle {cycle}"
        sleeping.append(resident_kib(server))
        assert server.send(touch()).status == 200, f"cycle {cycle}"
        assert server.send(count_tokens()).body == first.body, f"cycle {cycle}"
        awake.append(resident_kib(server))
    # THEN asleep and awake it stays as large as it was
    for sizes in (sleeping, awake):
        early = sizes[CYCLES * SETTLING // 100 : CYCLES // 2]
        SAID.append(f"{CYCLES} cycles: {median(early):.0f} KiB, then {median(sizes[CYCLES // 2 :]):.0f} KiB")
        assert median(sizes[CYCLES // 2 :]) <= median(early) * GROWTH
    # AND the verdict on its long log is that nothing went wrong
    assert server.wait_until(asleep, SLEEP_DEADLINE)
    evidence = probe(target_of(server))
    assert server.transitions(ENTERING) == CYCLES + 1
    expected = Expected("NO-FAULT", ("unknown",), ("asleep",))
    play = hand_over(closed("soak", expected, server, HEALTHY, happened=True), tmp_path, evidence)
    assert ask(*play.inputs).said == Said("NO-FAULT", None, "unknown", "asleep", "strong")


def test_the_demo_again_and_again(tmp_path: Path) -> None:
    for number in range(DEMOS):
        done = command("demo", "--output", tmp_path / "demo")
        assert done.returncode == 0, f"run {number}: {done.stdout[-2000:]}"
