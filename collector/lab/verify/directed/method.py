"""All trials of `verify directed`, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from analyzers.contracts.trials import Finding, Trial
from collector.lab.verify.directed.debugged import find_gdb
from collector.lab.verify.directed.places import explore
from collector.lab.verify.directed.points import Point, usable, wanted_points
from collector.lab.verify.directed.trial import Setting, carry_out, shuffled
from collector.lab.verify.findings import conclude_all
from collector.lab.verify.session import Bench, Method

TRIALS = 5
# A directed trial meets its window by force: affected builds showed their defects in 20 of 20. Five clean
# ones still leave a rate of 45 % possible; the bound is printed, and more trials lower it.
ENOUGH = 5


@dataclass(frozen=True)
class Plan:
    """``defects`` empty: all three; ``points`` empty: all of the defects'. ``trials`` are per defect."""

    defects: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    trials: int = TRIALS

    @property
    def chosen(self) -> list[Point]:
        return wanted_points(self.defects, self.points)

    @property
    def concluded(self) -> list[str]:
        """The defects the run is about, in order."""
        return sorted({point.defect for point in self.chosen})


def directed_trials(plan: Plan) -> Method:
    """The method: raises UserError when the subject cannot be held anywhere, or not traced."""

    def trials(bench: Bench) -> Iterator[Trial]:
        gdb = find_gdb()
        bench.say("starting the server once without a debugger, and reading its symbols")
        places = explore(bench.lab, bench.spec)
        name = bench.chosen.subject.name
        there, missing = usable(plan.chosen, places.found, name, explicit=bool(plan.points))
        for point in missing:
            bench.say(f"skipped {point.name} ({point.defect}): {name} has no symbol for it")
        setting = Setting(bench, places, gdb)
        for number, point in enumerate(order(plan, there, bench), 1):
            yield carry_out(setting, point, number)

    return trials


def order(plan: Plan, points: Sequence[Point], bench: Bench) -> Iterator[Point]:
    """The point of each trial: per defect so many trials, its points in turn."""
    for defect in plan.concluded:
        own = [point for point in points if point.defect == defect]
        yield from islice(cycle(shuffled(own, bench.chance)), plan.trials if own else 0)


def concluding(plan: Plan) -> Callable[[Sequence[Trial]], list[Finding]]:
    """Findings on the defects of the plan, and on those that showed by the way."""
    return lambda trials: conclude_all(trials, plan.concluded, ENOUGH)
