"""What trials add up to, and the exit status that says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from analyzers.contracts.trials import (
    AFFECTED,
    BAD,
    CRASHED,
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_SOUND,
    INCONCLUSIVE,
    LEAKED,
    REFUSED,
    SOUND,
    STRANDED,
    Finding,
    Trial,
)
from collector.lab.faults.provoked import CORE_SIGNALS
from collector.lab.reference.allocator import SANITIZER
from collector.lab.reference.output import printable

# 95 %: the largest rate p for which n clean trials still have a chance of 5 %: 1 - 0.05 ** (1 / n).
MISSED_CHANCE = 0.05
# Defects that read freed memory.
CRASHING = ("D1", "D2")
# Outcomes that are one defect and no other.
OWN_OUTCOME = {STRANDED: "D3", LEAKED: "D5"}
SURE = ("proven", "strong")
# What a crash without a named frame lacks, and what would name it.
NAMELESS = "the frames have no names (test a build that is not stripped)"
NOTE_LENGTH = 150
NO_SUCH_ROUTE = 404


def conclude_all(trials: Sequence[Trial], defects: Sequence[str], enough: int) -> list[Finding]:
    """One finding for each of ``defects``, then one for each other defect that a trial showed by the way."""
    asked = list(dict.fromkeys(defects))
    other = sorted({found for trial in trials if (found := shown_by_the_way(trial)) and found not in asked})
    return [conclude(defect, trials, enough) for defect in asked] + [
        conclude(defect, trials, enough).model_copy(update={"asked": False}) for defect in other
    ]


def conclude(defect: str, trials: Sequence[Trial], enough: int) -> Finding:
    """The finding on ``defect``. ``enough``: how many reached trials a clean result needs, at least one.

    From the trials made for it, and those made for another that showed it all the same. A crash counts
    only when it was triaged to this defect.
    """
    own = [trial for trial in trials if trial.defect == defect]
    met = [trial for trial in trials if trial.defect != defect and shown_by_the_way(trial) == defect]
    reached = [*filter(counts, own), *met]
    shown = [trial for trial in reached if trial in met or shows(defect, trial)]
    strange = [trial for trial in reached if trial.outcome in BAD and trial not in shown]
    said = {"defect": defect, "shown": len(shown), "reached": len(reached), "trials": len(own) + len(met)}
    if shown:
        return Finding(conclusion=AFFECTED, because=_showed(shown, reached, met), **said)
    if strange:
        return Finding(conclusion=INCONCLUSIVE, because=_otherwise(strange), **said)
    if len(reached) < max(1, enough):
        return Finding(conclusion=INCONCLUSIVE, because=_too_few(own, len(reached), max(1, enough)), **said)
    bound = upper_bound(len(reached))
    return Finding(conclusion=SOUND, upper_bound=bound, because=f"0 of {len(reached)} showed it", **said)


def _showed(shown: Sequence[Trial], reached: Sequence[Trial], met: Sequence[Trial]) -> str:
    others = sorted({trial.defect for trial in met if trial.defect})
    also = f"; {len(met)} of them made for {', '.join(others)}" if others else ""
    return f"{len(shown)} of {len(reached)} showed it{also}"


def _otherwise(strange: Sequence[Trial]) -> str:
    """Bad ends that are not the defect: those that are another one, and crashes that can be named nothing."""
    known = [trial for trial in strange if not nameless(trial)]
    lost = len(strange) - len(known)
    what = sorted({_named(trial) for trial in known})
    parts = (
        f"{len(known)} ended otherwise: {', '.join(what)}" if known else "",
        f"{lost} crashed and cannot be attributed: {NAMELESS}" if lost else "",
    )
    return "; ".join(filter(None, parts))


def nameless(trial: Trial) -> bool:
    """It crashed, and no frame of the crash has a name: it is this defect or another one, nobody can say."""
    judged = trial.judgement
    return trial.outcome == CRASHED and judged is not None and judged.defect is None and not judged.named


def _too_few(own: Sequence[Trial], reached: int, enough: int) -> str:
    """Why it is not sound, and what helps: more trials, or what the trials that say nothing complain of."""
    if own and all(_no_route(trial) for trial in own):
        return "the route does not exist in this build (404)"
    if not own:
        return "no trial could be made for it"
    missed = [trial for trial in own if not counts(trial)]
    if not missed:
        return (
            f"0 of {reached} showed it, but {enough} clean trials are needed: give --trials {enough} or more"
        )
    few = f"only {reached} of {len(own)} trials reached the window and could be judged, {enough} are needed"
    if len(own) < enough:
        advice = f"; give --trials {enough} or more"
    else:
        advice = f"; give --trials {2 * len(own)}, or a machine that is less busy" if reached else ""
    return f"{few} ({_commonest(missed)}){advice}"


def _commonest(missed: Sequence[Trial]) -> str:
    """What most of the trials that say nothing said of themselves."""
    notes = Counter(trial.notes[0] if trial.notes else trial.outcome for trial in missed)
    return printable(notes.most_common(1)[0][0], NOTE_LENGTH)


def counts(trial: Trial) -> bool:
    """The trial says something: it reached its window, and nobody else ended the server.

    A route that does not exist reads no model, so its 404 is no clean trial; a 503 is: the server refused.
    """
    return (
        trial.reached
        and trial.outcome != INCONCLUSIVE
        and not _no_route(trial)
        and not ended_from_outside(trial)
    )


def ended_from_outside(trial: Trial) -> bool:
    """The server died of a signal that no fault of its own raises: out of memory, or another process."""
    return trial.outcome == CRASHED and trial.signal is not None and trial.signal not in CORE_SIGNALS


def _no_route(trial: Trial) -> bool:
    return trial.outcome == REFUSED and trial.status == NO_SUCH_ROUTE


def shows(defect: str, trial: Trial) -> bool:
    """The trial, made for ``defect``, is an instance of it. D3 is a stranded request, D5 held memory, D1
    and D2 are everything else bad, but a crash is theirs only where it was judged to be."""
    if trial.outcome not in BAD or ended_from_outside(trial):
        return False
    if trial.judgement is not None and trial.judgement.defect is not None:
        return trial.judgement.defect == defect
    if trial.outcome == CRASHED:
        return False
    if trial.outcome in OWN_OUTCOME:
        return OWN_OUTCOME[trial.outcome] == defect
    return defect not in OWN_OUTCOME.values()


def shown_by_the_way(trial: Trial) -> str | None:
    """A defect other than the one the trial was made for, when what happened can be nothing else."""
    if not counts(trial) or trial.outcome not in BAD:
        return None
    judged = trial.judgement
    if judged is not None and judged.defect is not None:
        sure = judged.confidence in SURE or trial.outcome == STRANDED
        return judged.defect if sure and judged.defect != trial.defect else None
    return "D3" if trial.outcome == STRANDED and trial.defect != "D3" else None


def upper_bound(clean: int) -> float:
    """The rate that ``clean`` trials without an event leave possible, at 95 %. Exact binomial bound."""
    return 1.0 if clean < 1 else float(1.0 - MISSED_CHANCE ** (1.0 / clean))


def unfinished(findings: Iterable[Finding], why: str) -> list[Finding]:
    """The findings of a run that was cut short: what was shown stays shown, nothing is sound."""
    return [
        finding.model_copy(
            update={
                "conclusion": INCONCLUSIVE,
                "upper_bound": None,
                "because": f"{finding.because}, but {why}",
            }
        )
        if finding.conclusion == SOUND
        else finding
        for finding in findings
    ]


def unfilled(findings: Iterable[Finding], allocators: Iterable[str]) -> list[Finding]:
    """``findings`` of servers that used ``allocators``, none of them glibc's: freed memory was not filled
    there, so that D1 and D2 are not sound. AddressSanitizer is the better witness and takes nothing."""
    foreign = sorted(set(allocators) - {SANITIZER})
    why = f"the server's malloc was {', '.join(foreign)}, which does not fill freed memory"
    return [unfinished([each], why)[0] if foreign and each.defect in CRASHING else each for each in findings]


def exit_status(findings: Iterable[Finding]) -> int:
    """1 when a defect that was asked about was found, 0 when all are sound, else 125: for ``git bisect run``.

    A defect met by the way is no answer about the one that is bisected, and it leaves nothing sound.
    """
    seen = list(findings)
    if any(finding.conclusion == AFFECTED and finding.asked for finding in seen):
        return EXIT_DEFECT
    return EXIT_SOUND if seen and all(each.conclusion == SOUND for each in seen) else EXIT_INCONCLUSIVE


def _named(trial: Trial) -> str:
    judged = trial.judgement
    if judged is None:
        return trial.outcome
    by_oracle = bool(trial.oracle) and judged.defect is None
    kind = judged.summary.partition(";")[0] if by_oracle else judged.defect or judged.class_
    return f"{trial.outcome} ({printable(kind, NOTE_LENGTH)})"
