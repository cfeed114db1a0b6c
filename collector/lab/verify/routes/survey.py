"""The method: every route in every state on one build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from threading import Event, Lock

from analyzers.contracts.routes import ABSENT, ASLEEP, AWAKE, TWO_WAKERS, UNLOADING, WAKING, RouteTrial, Width
from analyzers.contracts.trials import REFUSED, Trial
from analyzers.errors import UserError
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.routes import shots, timer
from collector.lab.verify.routes.lanes import Job, work
from collector.lab.verify.routes.promises import Promise, promise_of
from collector.lab.verify.routes.rightness import Baseline
from collector.lab.verify.routes.seat import Seat, baselines, spec_with
from collector.lab.verify.routes.table import Route
from collector.lab.verify.routes.trials import Workshop, attempt
from collector.lab.verify.routes.wheels import build_number
from collector.lab.verify.routes.wide import NAME, Widths, wide_model
from collector.lab.verify.session import Bench
from collector.lab.verify.subject import NO_SLEEP_MODE


@dataclass(frozen=True)
class Group:
    """States that are met on the same servers: their idle limit (s), how many at once, and the model.

    Timing is nearly all waiting; waking the wide model is nearly all work.
    """

    states: tuple[str, ...]
    idle: int
    lanes: int
    wide: bool = False


GROUPS = (
    Group((AWAKE,), timer.IDLE_SECONDS, lanes=8),
    Group((ASLEEP,), shots.IDLE_SECONDS, lanes=3),
    # over in milliseconds with the tiny model
    Group((UNLOADING, WAKING, TWO_WAKERS), shots.IDLE_SECONDS, lanes=3, wide=True),
)


@dataclass
class Survey:
    """One build's survey; callable as a method of the verifier. What it learns besides trials stands here."""

    routes: tuple[Route, ...]
    states: tuple[str, ...]
    keep: bool = False
    lanes: int | None = None
    sample: int | None = None
    own_model: bool = False
    sleeps: bool = True
    note: str | None = None
    promise: Promise | None = None
    widths: Widths = field(default_factory=Widths)

    def __call__(self, bench: Bench) -> Iterator[Trial]:
        """Trials as they are finished. A build without sleep mode gives none, and says so in ``note``."""
        numbers = count(1)
        for trial in self._trials(bench):
            yield trial.model_copy(update={"number": next(numbers)})

    def width(self) -> Width:
        return self.widths.summary() if self.widths.unloads or self.widths.reloads else Width(model=NAME)

    def _trials(self, bench: Bench) -> Iterator[RouteTrial]:
        self.promise = promise_of(build_number(bench.chosen.subject))
        spec = spec_with(bench.spec)
        try:
            bench.lab.start(replace(spec, idle_seconds=shots.IDLE_SECONDS)).take_down()
        except UserError as error:
            if NO_SLEEP_MODE.search(str(error)) is None:
                raise
            self._no_sleep(bench)
            return
        # A lab of its own below the run's: several servers work at once, and the run clears the cores of its
        # own folder after each trial.
        with ReferenceServer(bench.lab.folder / "routes") as lab:
            yield from self._states(replace(bench, lab=lab), spec)

    def _no_sleep(self, bench: Bench) -> None:
        self.sleeps, self.note = False, "no sleep mode: this build does not know the idle limit"
        bench.say(self.note)

    def _states(self, bench: Bench, spec: ServerSpec) -> Iterator[RouteTrial]:
        workshop = Workshop(self.promise, self.widths, self.keep)
        bench.say(f"asking {counted(len(self.routes), 'route')} twice on an awake server")
        awake = baselines(bench.lab, spec, self.routes)
        present = tuple(route for route in self.routes if not awake[route.name].absent)
        yield from (_absent(route, awake[route.name]) for route in self.routes if route not in present)
        jobs = self._jobs(present, bench)
        bench.say(f"{len(present)} of {len(self.routes)} there; {counted(len(jobs), 'request')} to send")
        for group in GROUPS:
            own = [job for job in jobs if job.state in group.states]
            if own:
                yield from self._group(bench, workshop, spec, group, own, awake)

    def _jobs(self, present: Sequence[Route], bench: Bench) -> list[Job]:
        """In an order drawn from the seed: what one route leaves behind is not always met by the same one."""
        jobs = [Job(route, state) for route in present for state in self.states]
        bench.chance.shuffle(jobs)
        return jobs[: self.sample]

    def _group(
        self,
        bench: Bench,
        workshop: Workshop,
        spec: ServerSpec,
        group: Group,
        jobs: list[Job],
        awake: dict[str, Baseline],
    ) -> Iterator[RouteTrial]:
        if group.wide and not self.own_model:
            bench.say(f"with the model that widens unloading and waking: {NAME}")
            spec = replace(spec, model=wide_model())
            asked = {job.route.name: job.route for job in jobs}
            awake = baselines(bench.lab, spec, tuple(asked.values()))
        lanes = min(self.lanes or group.lanes, len(jobs))
        seats = self._seats(bench, replace(spec, idle_seconds=group.idle), awake, lanes)
        yield from work(seats, jobs, partial(attempt, workshop))
        if group.wide:
            width = self.width()
            bench.say(f"unloading lasted {width.unload_ms} ms, waking {width.reload_ms} ms (medians)")

    def _seats(self, bench: Bench, spec: ServerSpec, awake: dict[str, Baseline], lanes: int) -> list[Seat]:
        stop, starting = Event(), Lock()
        return [Seat(bench.lab, spec, stop, starting, awake=awake) for _ in range(lanes)]


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _absent(route: Route, awake: Baseline) -> RouteTrial:
    return RouteTrial(
        number=0,
        route=route.name,
        handler=route.handler,
        state=AWAKE,
        outcome=REFUSED,
        status=awake.answer.status,
        awake_status=awake.answer.status,
        absent=True,
        notes=[f"{ABSENT}: this build has no such route"],
    )
