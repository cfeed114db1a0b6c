"""What the cycles add up to: memory held at every sleep, or more of it at each."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.trials import (
    AFFECTED,
    INCONCLUSIVE,
    LEAKED,
    SOUND,
    Finding,
    Trial,
)
from collector.lab.verify.findings import upper_bound
from collector.lab.verify.leak.slope import Slope, slope_of

WARM_UP = 2  # cycles: first uses fill caches of both servers (0.1 to 0.4 MiB each until the third)
ENOUGH = 5  # sleeps that were measured; fewer leave the slope unbounded
GROWTH_SHARE = 0.1  # of the draft's size per sleep: a leaked cache is half of it, noise a hundredth


def conclude_leak(trials: Sequence[Trial]) -> list[Finding]:
    """One finding, on D5: the draft's memory is kept while asleep, or grows from sleep to sleep."""
    reached = [trial for trial in trials if trial.reached]
    kept = sum(trial.outcome == LEAKED for trial in reached)
    rows = [trial.model_dump() for trial in reached]
    slope = slope_of([row["kept_mib"] for row in rows[WARM_UP:]])
    conclusion, because = _judge(rows, kept, slope)
    clean = conclusion == SOUND
    return [
        Finding(
            defect="D5",
            conclusion=conclusion,
            shown=kept,
            reached=len(reached),
            trials=len(trials),
            upper_bound=upper_bound(len(reached)) if clean else None,
            because=because,
        )
    ]


def _judge(rows: Sequence[dict[str, float]], kept: int, slope: Slope | None) -> tuple[str, str]:
    if len(rows) < ENOUGH or slope is None:
        return INCONCLUSIVE, f"only {len(rows)} sleeps were measured, {max(ENOUGH, WARM_UP + 4)} are needed"
    size, last = rows[-1]["draft_mib"], rows[-1]["kept_mib"]
    figures = f"{last:.1f} of {size:.1f} MiB held while asleep, growth {slope} MiB a sleep (95 %)"
    if kept == len(rows) or slope.low >= GROWTH_SHARE * size:
        return AFFECTED, f"the draft stays in memory in {kept} of {len(rows)} sleeps: {figures}"
    if kept:
        return INCONCLUSIVE, f"held in {kept} of {len(rows)} sleeps only: {figures}"
    if slope.high >= GROWTH_SHARE * size:
        return INCONCLUSIVE, f"the growth is not bounded: {figures}"
    return SOUND, f"0 of {len(rows)} sleeps kept it: {figures}"
