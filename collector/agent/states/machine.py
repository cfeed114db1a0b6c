"""The state of one incarnation of one server. Pure: everything it knows it was told, clocks included."""

from __future__ import annotations

from collections import OrderedDict, deque

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ExitFact, LogFact, ProbeFact, fact_of
from analyzers.contracts.watched import LookFact
from collector.agent.states.deciding import Ending, Told, decide
from collector.agent.states.model import (
    MAX_TRANSITIONS,
    SETTLED_SECONDS,
    Counters,
    Crowd,
    Knobs,
    Now,
    Pulse,
    StateView,
    Transition,
    Waiting,
)
from collector.agent.states.phase import Phase
from collector.agent.states.progress import Progress

MAX_TASKS = 4096  # tasks under way that are remembered: slots are tens
# After this long without an end, words on a stop were forged, or the stop was taken back.
ASKED_SECONDS = 120.0
PROPS_SECONDS = 30.0  # three rounds of probes at their default interval
_ASKING = ("stopping", "cleaning-up")


class ServerState:
    """Told by ``note``, ``pulse``, ``crowd``, ``loop_waits``, ``planned`` and ``ended``; ``decide`` draws the
    conclusion of what was told so far and hands out the transition, if there is one."""

    def __init__(self, now: Now, *, knobs: Knobs | None = None) -> None:
        self.knobs = knobs or Knobs()
        self.phase = Phase()
        self.progress = Progress(last=now.mono)
        self._told = Told(phase=self.phase, progress=self.progress, knobs=self.knobs)
        self._tasks: OrderedDict[int, float] = OrderedDict()
        self._health: tuple[int | None, float] | None = None
        self._props: float | None = None
        self._ring: deque[Transition] = deque(maxlen=MAX_TRANSITIONS)
        self._state: Transition | None = None
        self._decided_notes: tuple[str, ...] = ()

    def note(self, evidence: Evidence, now: Now) -> None:
        """Fold one fact of this incarnation in; kinds that say nothing of a state are no matter."""
        at = min(evidence.mono, now.mono) if evidence.mono is not None else now.mono
        if (log := fact_of(evidence, LogFact)) is not None:
            self._log(log, evidence, at)
        elif (probe := fact_of(evidence, ProbeFact)) is not None:
            self._probe(probe, evidence, at)
        elif (look := fact_of(evidence, LookFact)) is not None and look.dumping:
            self._told.dumping, self._told.dump_evidence = True, (evidence.id,)
        elif (end := fact_of(evidence, ExitFact)) is not None:
            self._exit(end, evidence, at)

    def pulse(self, pulse: Pulse) -> None:
        """A cheap look at the process."""
        self.progress.pulse(pulse)
        self._told.dumping = self._told.dumping or pulse.dumping
        self._told.zombie = pulse.state in ("Z", "X")
        self.phase.calm(self.progress.calm(pulse.mono), pulse.mono)

    def crowd(self, crowd: Crowd) -> None:
        """A look at the clients."""
        if crowd.moved:
            self.progress.moved(crowd.mono, "bytes went to or from a client")
        self._told.crowd = crowd

    def loop_waits(self, asleep: bool | None, at: float) -> None:
        """How the main thread of a native server has been waiting for some seconds; None: neither way."""
        if asleep is not None:
            self.phase.kernel(asleep, at)

    def planned(self, evidence: Evidence, now: Now) -> None:
        """The supervisor stops or restarts it on purpose."""
        self._told.asked = (evidence.id, now.mono, True)

    def ended(self, fault: bool | None, now: Now, text: str, evidence: tuple[str, ...] = ()) -> None:
        """The process is gone. ``fault`` None: how it ended is not known."""
        self._told.ending = Ending(fault, text, evidence)

    def reset_timers(self, now: Now, why: str) -> None:
        """The machine slept or the agent did: nothing is held against a server for that time."""
        self.progress.reset(now.mono, why)
        self._told.crowd = Crowd(now.mono)

    def decide(self, now: Now) -> Transition | None:
        """The new state, when it is another one."""
        self._told.tasks = len(self._tasks)
        asked = self._told.asked
        if asked is not None and not asked[2] and now.mono - asked[1] > ASKED_SECONDS:
            self._told.asked = None
            self._told.say(f"a line told of a stop {ASKED_SECONDS:.0f} s ago and it lives on")
        found = decide(self._told, now)
        self._decided_notes = found.notes
        old = self._state
        if old is not None and old.new == found.state:
            return None
        since = max(found.since, old.mono if old is not None else found.since)
        wall = now.wall - (now.mono - since)
        made = Transition(old.new if old else None, found.state, wall, since, found.reason, found.evidence)
        self._state = made
        self._ring.append(made)
        return made

    def view(self, now: Now) -> StateView:
        """The state as it was decided last."""
        last = self._state or Transition(None, "loading", now.wall, now.mono, "nothing is known of it yet")
        stuck = self._told.crowd.stuck if last.new == "stranded" else ()
        return StateView(
            last.new,
            last.wall,
            last.mono,
            last.reason,
            last.evidence,
            tuple(self._ring),
            self._counters(now),
            (*self._decided_notes, *self.phase.conflicts),
            stuck,
        )

    @property
    def state(self) -> str | None:
        """The id decided last."""
        return self._state.new if self._state else None

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """Clients that wait for an answer at the last look."""
        return self._told.crowd.waiting

    def told_by_props(self, now: Now) -> bool:
        """/props said lately where the model is."""
        return self._props is not None and now.mono - self._props < PROPS_SECONDS

    def _counters(self, now: Now) -> Counters:
        phase = self.phase
        return Counters(
            phase.sleeps,
            phase.wakes,
            round(phase.asleep_seconds(now.mono), 3),
            phase.last_unload,
            phase.last_wake,
        )

    def _log(self, fact: LogFact, evidence: Evidence, at: float) -> None:
        self.phase.log(fact, evidence, at)
        if evidence.trust is Trust.CLIENT:
            return
        if fact.event != "request":  # a hung loop's HTTP threads still answer health checks
            self.progress.moved(at, "a line of its log")
        if fact.event in _ASKING and (self._told.asked is None or not self._told.asked[2]):
            self._told.asked = (evidence.id, at, False)
        elif fact.event == "restart-in-place":
            self._told.asked = None
        self._count_tasks(fact, at)

    def _count_tasks(self, fact: LogFact, at: float) -> None:
        if fact.event in ("slots-idle", "enter-sleep", "restart-in-place"):
            self._tasks.clear()
        elif fact.task_id is None:
            return
        elif fact.event == "task-launched":
            self._tasks[fact.task_id] = at
            while len(self._tasks) > MAX_TASKS:
                self._tasks.popitem(last=False)
        elif fact.event in ("task-done", "task-cancelled"):
            self._tasks.pop(fact.task_id, None)

    def _probe(self, fact: ProbeFact, evidence: Evidence, at: float) -> None:
        asked = at - (fact.seconds or 0.0)
        if fact.route == "/health":
            self._health = (fact.status, at)
            self._told.health = (fact.outcome, evidence.id)
            self.phase.health(fact.status, evidence, asked)
        elif fact.route == "/props":
            self._told.refused = fact.status == 401
            self._props = at if fact.is_sleeping is not None else self._props
            self.phase.props(fact, evidence, asked, self._healthy(at))
        elif fact.route == "/metrics" and fact.requests_processing is not None:
            self._told.gauges = fact.requests_processing + (fact.requests_deferred or 0)
            if fact.decodes is not None:
                self.progress.decodes(fact.decodes, at)

    def _healthy(self, at: float) -> bool:
        """/health answered about when /props did not."""
        return (
            self._health is not None
            and self._health[0] == 200
            and at - self._health[1] < 5 * SETTLED_SECONDS  # one round of probes, its time-outs included
        )

    def _exit(self, fact: ExitFact, evidence: Evidence, at: float) -> None:
        if fact.requested and (fact.signal, fact.code) == (None, None):
            self._told.asked = (evidence.id, at, evidence.trust.rank <= Trust.SUPERVISOR.rank)
