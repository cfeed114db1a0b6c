"""What a survey adds up to: the defects its crashes were judged to be, and whether the promises were kept."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.routes import BROKEN, KEPT, RouteTrial
from analyzers.contracts.trials import AFFECTED, BAD, INCONCLUSIVE, SOUND, STRANDED, Finding, Trial
from collector.lab.verify.findings import SURE, counts

PROMISE = "PROMISE"
# Every route, in every state, is answered as the awake server answers it.
ANSWERS = "ANSWERS"
# Share of the trials that must have met their state before silence counts as sound.
ENOUGH = 0.9


def conclude(trials: Sequence[Trial]) -> list[Finding]:
    """A defect only when it was seen: that a survey of single requests saw none bounds nothing."""
    seen = [trial for trial in trials if isinstance(trial, RouteTrial) and not trial.absent]
    bad = [trial for trial in seen if trial.reached and trial.outcome in BAD]
    defects = sorted({name for trial in bad if (name := defect_of(trial))})
    found = [_defect(name, [trial for trial in bad if defect_of(trial) == name], seen) for name in defects]
    return [
        *found,
        _answers([each for each in bad if defect_of(each) is None], seen, defects),
        _promise(seen),
    ]


def defect_of(trial: RouteTrial) -> str | None:
    """The defect of a sure verdict; a request that a sleeping server holds until it is woken is D3 whatever a
    log alone can prove. What is weakly judged is a wrong answer, whatever its cause."""
    judged = trial.judgement
    if judged is not None and judged.defect is not None and judged.confidence in SURE:
        return judged.defect
    return "D3" if trial.outcome == STRANDED else None


def _defect(name: str, shown: list[RouteTrial], seen: list[RouteTrial]) -> Finding:
    where = sorted({f"{trial.route} {trial.state}" for trial in shown})
    count = "1 request" if len(shown) == 1 else f"{len(shown)} requests"
    because = f"{count} showed it: {', '.join(where[:3])}{' …' if len(where) > 3 else ''}"
    return _finding(name, AFFECTED, len(shown), seen, because)


def _answers(strange: list[RouteTrial], seen: list[RouteTrial], defects: list[str]) -> Finding:
    if strange:
        what = sorted({f"{trial.route} {trial.state}: {trial.outcome}" for trial in strange})
        return _finding(ANSWERS, AFFECTED, len(strange), seen, "; ".join(what[:3]))
    silent = sorted({f"{each.route} {each.state}" for each in seen if _silent(each)})
    if silent:
        return _finding(ANSWERS, INCONCLUSIVE, 0, seen, f"never answered: {'; '.join(silent[:3])}")
    apart = f"apart from {', '.join(defects)}, nothing went wrong" if defects else "no answer was wrong"
    return _quiet(ANSWERS, seen, apart)


def _promise(seen: list[RouteTrial]) -> Finding:
    broken = [trial for trial in seen if trial.promise == BROKEN]
    judged = [trial for trial in seen if trial.promise in (BROKEN, KEPT)]
    if broken:
        what = sorted({f"{trial.route} {trial.state}" for trial in broken})
        because = f"promised {broken[0].promised}: {', '.join(what[:3])}{' …' if len(what) > 3 else ''}"
        return _finding(PROMISE, AFFECTED, len(broken), seen, because)
    if not judged:
        return _finding(PROMISE, INCONCLUSIVE, 0, seen, "nothing that the documentation promises was met")
    return _quiet(PROMISE, seen, f"{len(judged)} of {len(judged)} cells under a promise kept it")


def _quiet(name: str, seen: list[RouteTrial], because: str) -> Finding:
    reached = _reached(seen)
    enough = bool(seen) and reached >= ENOUGH * len(seen)
    text = because if enough else f"only {reached} of {len(seen)} requests met their state and said something"
    return _finding(name, SOUND if enough else INCONCLUSIVE, 0, seen, text)


def _finding(name: str, conclusion: str, shown: int, seen: list[RouteTrial], because: str) -> Finding:
    return Finding(
        defect=name,
        conclusion=conclusion,
        shown=shown,
        reached=_reached(seen),
        trials=len(seen),
        because=because,
    )


def _reached(seen: list[RouteTrial]) -> int:
    return sum(counts(trial) for trial in seen)


def _silent(trial: RouteTrial) -> bool:
    """It met its state, and there is no answer to compare: a hang that is no strand, a server that exited."""
    return trial.reached and trial.outcome == INCONCLUSIVE
