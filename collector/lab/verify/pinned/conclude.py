"""What pinned trials add up to: each defect's finding, how well the sleep was placed, how soon it showed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from analyzers.contracts.trials import BAD, SOUND, Finding, Trial
from collector.lab.verify.findings import CRASHING, conclude_all, counts, nameless, shows, unfinished
from collector.lab.verify.pinned.placement import placement

# A clean result needs most of the trials that were asked for: one that misses its window now and then is
# the machine's jitter, many that do are a subject that was not tested.
ENOUGH_SHARE = 0.75
# However few are asked for: one clean trial leaves a rate of 95 % possible, five leave 45 %.
FEWEST = 5
# The same token count to a sleeping b11063 was answered rightly 4 times of 4 when nothing was poisoned.
UNPOISONED = "freed memory was left as it is, so that a right answer may have been read from it"


def conclude(
    trials: Sequence[Trial], defects: Sequence[str], planned: int, *, unpoisoned: bool = False
) -> list[Finding]:
    """One finding for each asked defect, and for any other that was met. ``planned``: trials per defect.

    Nothing that reads freed memory is called sound where that memory was not poisoned.
    """
    enough = max(FEWEST, ceil(planned * ENOUGH_SHARE))
    placed = [_placed(finding, trials) for finding in conclude_all(trials, defects, enough)]
    return [_without_poison(finding) for finding in placed] if unpoisoned else placed


def _without_poison(finding: Finding) -> Finding:
    clean = finding.conclusion == SOUND and finding.defect in CRASHING
    return unfinished([finding], UNPOISONED)[0] if clean else finding


def _placed(finding: Finding, trials: Sequence[Trial]) -> Finding:
    own = [trial for trial in trials if trial.defect == finding.defect]
    where = placement(errors(own))
    said = ", ".join(filter(None, (finding.because, remarks(finding.defect, own))))
    return finding.model_copy(
        update={
            "because": said,
            "other": sum(not nameless(trial) for trial in others(finding.defect, own)),
            "placement_error": round(where.median, 6) if where else None,
            "seconds_to_show": seconds_to_show(finding.defect, own),
        }
    )


def summary(defect: str, trials: Sequence[Trial]) -> str:
    """One line for the terminal when a defect's trials are over."""
    shown = sum(counts(trial) and shows(defect, trial) for trial in trials)
    reached = sum(counts(trial) for trial in trials)
    return ", ".join(filter(None, (f"{shown} of {reached} showed it", remarks(defect, trials))))


def remarks(defect: str, trials: Sequence[Trial]) -> str:
    """Isolation, placement and time, as far as there is anything to say of them."""
    where = placement(errors(trials))
    seconds = seconds_to_show(defect, trials)
    strange = others(defect, trials)
    lost = sum(nameless(trial) for trial in strange)
    other = len(strange) - lost
    parts = (
        f"{other} ended in another defect" if other else "",
        f"crashed without a name: {lost}" if lost else "",
        str(where) if where else "",
        f"first shown after {seconds:.1f} s of trials" if seconds is not None else "",
    )
    return ", ".join(filter(None, parts))


def others(defect: str, trials: Sequence[Trial]) -> list[Trial]:
    """Trials made for ``defect`` that ended badly, but not in it (or not provably): isolation that failed."""
    return [trial for trial in trials if counts(trial) and trial.outcome in BAD and not shows(defect, trial)]


def errors(trials: Sequence[Trial]) -> list[float]:
    """Placement errors, seconds, of the trials in which one could be measured."""
    return [trial.placement_error for trial in trials if trial.placement_error is not None]


def seconds_to_show(defect: str, trials: Sequence[Trial]) -> float | None:
    """Wall seconds of this defect's trials, calibration included, to the end of the first that showed it."""
    total = 0.0
    for trial in trials:
        total += trial.trial_seconds or 0.0
        if counts(trial) and shows(defect, trial):
            return round(total, 3)
    return None
