"""What trials add up to, and the exit status that says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analyzers.contracts.trials import (
    AFFECTED,
    BAD,
    CRASHED,
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_SOUND,
    INCONCLUSIVE,
    SOUND,
    Finding,
    Trial,
)

# 95 %: the largest rate p for which n clean trials still have a chance of 5 %: 1 - 0.05 ** (1 / n).
MISSED_CHANCE = 0.05


def conclude(defect: str, trials: Sequence[Trial], enough: int) -> Finding:
    """The finding on ``defect`` from the trials made for it. ``enough``: reached trials a clean result needs.

    A crash counts only when it was triaged to this defect, or could not be triaged to anything else.
    """
    own = [trial for trial in trials if trial.defect == defect]
    reached = [trial for trial in own if trial.reached and trial.outcome != INCONCLUSIVE]
    shown = [trial for trial in reached if shows(defect, trial)]
    strange = [trial for trial in reached if trial.outcome in BAD and trial not in shown]
    said = {"defect": defect, "shown": len(shown), "reached": len(reached), "trials": len(own)}
    if shown:
        return Finding(conclusion=AFFECTED, because=f"{len(shown)} of {len(reached)} showed it", **said)
    if strange:
        what = sorted({_named(trial) for trial in strange})
        return Finding(
            conclusion=INCONCLUSIVE, because=f"{len(strange)} ended otherwise: {', '.join(what)}", **said
        )
    if len(reached) < enough:
        why = f"only {len(reached)} of {len(own)} trials reached the window, {enough} are needed"
        return Finding(conclusion=INCONCLUSIVE, because=why, **said)
    bound = upper_bound(len(reached))
    return Finding(conclusion=SOUND, upper_bound=bound, because=f"0 of {len(reached)} showed it", **said)


def shows(defect: str, trial: Trial) -> bool:
    """The trial is an instance of ``defect``. D3 is a stranded request; D1 and D2 are everything else bad."""
    if trial.outcome not in BAD:
        return False
    if trial.judgement is not None and trial.judgement.defect is not None:
        return trial.judgement.defect == defect
    if trial.outcome == CRASHED:
        return trial.judgement is None and defect in ("D1", "D2")
    return (trial.outcome == "stranded") == (defect == "D3")


def upper_bound(clean: int) -> float:
    """The rate that ``clean`` trials without an event leave possible, at 95 %. Exact binomial bound."""
    return 1.0 if clean < 1 else float(1.0 - MISSED_CHANCE ** (1.0 / clean))


def exit_status(findings: Iterable[Finding]) -> int:
    """1 when a defect was found, else 125 when anything stayed open, else 0. For ``git bisect run``."""
    seen = {finding.conclusion for finding in findings}
    if AFFECTED in seen:
        return EXIT_DEFECT
    return EXIT_SOUND if seen == {SOUND} else EXIT_INCONCLUSIVE


def _named(trial: Trial) -> str:
    judged = trial.judgement
    return f"{trial.outcome} ({judged.defect or judged.class_})" if judged else trial.outcome
