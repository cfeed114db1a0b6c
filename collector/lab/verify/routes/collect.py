"""Turns a run's trials into one build's part of the route matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analyzers.contracts.routes import STATES, RouteBuild, RouteCell, RouteMatrix, RouteRow, RouteTrial
from analyzers.contracts.trials import BAD, INCONCLUSIVE, TrialRun
from collector.lab.verify.routes.survey import Survey
from collector.lab.verify.routes.wheels import numbered, released

NOTE_LENGTH = 120


def build_of(run: TrialRun, survey: Survey) -> RouteBuild:
    """``run``'s trials as rows, in the order of the table, with what the survey learnt besides."""
    trials = [trial for trial in run.trials if isinstance(trial, RouteTrial)]
    promise = survey.promise
    return RouteBuild(
        subject=numbered(run.subject),
        released=released(run.subject),
        sleeps=survey.sleeps,
        note=survey.note,
        promise_text=promise.text if promise else None,
        promise_source=promise.source if promise else None,
        width=survey.width(),
        seconds=round(run.seconds, 1),
        interrupted=run.interrupted,
        findings=run.findings,
        rows=[row_of(own, survey.states) for own in _grouped(survey, trials)],
    )


def matrix_of(builds: Iterable[RouteBuild], run: TrialRun) -> RouteMatrix:
    """The document of several builds, oldest first; day, seed and host are those of ``run``, the last one."""
    made = sorted(builds, key=lambda build: (build.subject.build or 0, build.released or ""))
    return RouteMatrix(
        tool=run.tool,
        date=run.date,
        seed=run.seed,
        host=run.host,
        options=run.options,
        states=list(run.options.get("states") or STATES),
        builds=made,
    )


def _grouped(survey: Survey, trials: list[RouteTrial]) -> list[list[RouteTrial]]:
    groups = ([trial for trial in trials if trial.route == route.name] for route in survey.routes)
    return [group for group in groups if group]


def row_of(own: Sequence[RouteTrial], states: Sequence[str]) -> RouteRow:
    """One route's trials as a row, in the order of ``states``."""
    first = own[0]
    cells = sorted(
        (cell_of(each) for each in own if not each.absent), key=lambda c: list(states).index(c.state)
    )
    return RouteRow(
        route=first.route,
        handler=first.handler,
        absent=first.absent,
        status=first.awake_status,
        promised=first.promised,
        cells=cells,
    )


def cell_of(trial: RouteTrial) -> RouteCell:
    """What a dashboard needs of a trial. Notes stay only where something was missed or went badly."""
    judged = trial.judgement
    telling = trial.notes and (not trial.reached or trial.outcome in (*BAD, INCONCLUSIVE))
    return RouteCell(
        state=trial.state or "",
        outcome=trial.outcome,
        reached=trial.reached,
        status=trial.status,
        right=trial.right,
        wakes=trial.wakes,
        resets=trial.resets,
        ms=round(trial.seconds * 1000, 1) if trial.seconds is not None else None,
        promise=trial.promise,
        tries=trial.tries,
        signal=trial.signal,
        defect=trial.defect or (judged.defect if judged else None),
        class_=judged.class_ if judged else None,
        note=trial.notes[0][:NOTE_LENGTH] if telling else None,
    )
