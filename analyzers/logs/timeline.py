"""The sleep timeline of one life: what the log says about going to sleep and waking, and what it cannot say.

Log lines come BEFORE the act they name and a crash can lose the last queued ones: the phase read here is
the best reading of text, the core is the stronger witness. ``may_be`` names the readings it cannot exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ActionFact, ExitFact, LogFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.logs.keep import FIRST_KEPT
from analyzers.logs.reading import Life

LOOKALIKE = 0.005  # seconds; a /metrics task of the moment of sleep is cancelled by the same line
STRANDED_START = 0.5  # seconds after the reload within which a task left behind would start
NEXT_TASK = 0.01  # seconds from the end of a task to the start of one that was queued already
SCRAPES = 3  # so many scrapes at least before their period means anything
SCRAPE_ROUTES = frozenset({"/metrics", "/slots"})


@dataclass(frozen=True)
class Stranded:
    """A task that looks left behind: cancelled while asleep (``delay`` seconds after entering), or started
    ahead of a later task right after the wake (``early`` True; weak: two waiting clients look alike)."""

    task_id: int
    evidence_id: str
    delay: float | None = None
    early: bool = False
    lookalike: bool = False  # so close to the entering line that a /metrics task could be meant


@dataclass(frozen=True)
class SleepTimeline:
    """What one life's log says about sleep. Ids are those of the life's evidence; times are log seconds.

    ``sleep_evidence``: at least one trusted entering or exiting line. ``cycles``: times it entered.
    ``phase``: phase id at the end of the log; ``open_requests``: task ids launched and not done.
    """

    life: int
    events: tuple[Evidence, ...] = ()
    sleep_evidence: bool = False
    sleep_ids: tuple[str, ...] = ()
    doubted_ids: tuple[str, ...] = ()  # sleep lines a client could have printed
    cycles: int = 0
    phase: str = "unknown"
    may_be: tuple[str, ...] = ()
    entered_at: float | None = None
    exited_at: float | None = None
    woke: bool = False  # an exiting line stands in this life
    reload_finished: bool = False
    tasks_since_wake: int = 0
    open_requests: tuple[int, ...] = ()
    stranded: tuple[Stranded, ...] = ()
    cancelled_asleep: int = 0
    stop_requested: bool = False
    loaded: bool = False
    failed_reload: bool = False
    scrapes: int = 0
    scrape_period: float | None = None  # median seconds between scrapes
    idle_lines: int = 0
    missing: tuple[Gap, ...] = ()

    def phase_at_end(self) -> str:
        """Phase id at the end of what the log shows; see ``may_be`` for what it cannot exclude."""
        return self.phase

    def never_slept(self, idle_seconds: int | None) -> bool:
        """D4's inputs in one: an idle limit is set, no sleep line is there and scrapes come more often."""
        if idle_seconds is None or idle_seconds <= 0 or self.sleep_evidence or self.scrape_period is None:
            return False
        return self.scrapes >= SCRAPES and self.scrape_period < idle_seconds


def timeline_of(life: Life, outside: Sequence[Evidence] = ()) -> SleepTimeline:
    """The timeline of ``life``; ``outside`` are exit and action facts that may say a stop was asked for."""
    state = SleepTimeline(life=life.index, events=life.evidence, cancelled_asleep=life.cancelled_asleep)
    for item in life.evidence:
        state = _step(state, item)
    state = replace(
        state,
        stranded=_stranded(life.evidence),
        scrapes=sum(_is_scrape(item) for item in life.evidence),
        scrape_period=_period(life.evidence),
        idle_lines=life.counts.get("slots-idle", 0),
        stop_requested=state.stop_requested or any(map(_asks_to_stop, outside)),
        missing=tuple(_missing(life)),
        open_requests=_still_open(state.open_requests, life),
        cycles=_cycles(life, state),
    )
    return _judge_phase(state, life)


def _step(state: SleepTimeline, item: Evidence) -> SleepTimeline:
    fact = fact_of(item, LogFact)
    if fact is None:
        reload_failed = item.kind == "abort" and item.data.get("shape") == "wake-reload"
        return replace(state, failed_reload=True) if reload_failed else state
    if fact.event in ("enter-sleep", "exit-sleep") and item.trust is Trust.CLIENT:
        return replace(state, doubted_ids=(*state.doubted_ids, item.id))
    handler = _STEPS.get(fact.event)
    return handler(state, item, fact) if handler else state


def _entered(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    twin = state.phase == "asleep"
    return replace(
        state,
        phase="asleep",
        sleep_evidence=True,
        sleep_ids=(*state.sleep_ids, item.id),
        cycles=state.cycles + (not twin),
        entered_at=state.entered_at if twin else item.elapsed,
        exited_at=None,
        reload_finished=False,
        tasks_since_wake=0,
    )


def _exited(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    return replace(
        state,
        phase="waking",
        sleep_evidence=True,
        sleep_ids=(*state.sleep_ids, item.id),
        exited_at=item.elapsed if state.exited_at is None else state.exited_at,
        woke=True,
        reload_finished=False,
        tasks_since_wake=0,
    )


def _loading(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    return replace(state, phase="loading") if state.phase == "unknown" else state


def _loaded(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    if state.phase == "waking":
        return replace(state, reload_finished=True)
    first = state.phase in ("loading", "unknown") and item.text.endswith("model loaded")
    return replace(state, phase="awake", loaded=True) if first else state


def _listening(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    loaded = state.phase == "unknown" and state.loaded
    return replace(state, phase="awake") if loaded else state


def _launched(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    tasks = state.open_requests if fact.task_id is None else (*state.open_requests, fact.task_id)
    state = replace(state, open_requests=tasks, loaded=True)
    if state.phase in ("unknown", "loading"):
        return replace(state, phase="awake")
    if state.phase in ("waking", "first-request-after-wake"):
        since = state.tasks_since_wake + 1
        return replace(state, phase="first-request-after-wake", tasks_since_wake=since, reload_finished=True)
    if state.phase == "awake" and state.woke:
        return replace(state, tasks_since_wake=state.tasks_since_wake + 1)
    return state


def _done(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    left = tuple(task for task in state.open_requests if task != fact.task_id)
    done = replace(state, open_requests=left)
    if state.phase in ("first-request-after-wake", "unknown"):
        return replace(done, phase="awake")
    return done


def _cancelled(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    return replace(state, open_requests=tuple(task for task in state.open_requests if task != fact.task_id))


def _idle(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    state = replace(state, open_requests=())
    return replace(state, phase="awake", loaded=True) if state.phase in ("unknown", "loading") else state


def _stopping(state: SleepTimeline, item: Evidence, fact: LogFact) -> SleepTimeline:
    """``cleaning up`` is printed at a stop, and also after a load that failed: only the first is one."""
    asked = state.loaded or fact.event == "stopping"
    return replace(state, phase="stopping", stop_requested=True) if asked else state


_STEPS = {
    "enter-sleep": _entered,
    "exit-sleep": _exited,
    "loading": _loading,
    "loaded": _loaded,
    "listening": _listening,
    "task-launched": _launched,
    "task-done": _done,
    "task-cancelled": _cancelled,
    "slots-idle": _idle,
    "stopping": _stopping,
    "cleaning-up": _stopping,
}


_TASK_STEPS = frozenset({"task-launched", "task-done", "task-cancelled", "slots-idle", "request"})


def _judge_phase(state: SleepTimeline, life: Life) -> SleepTimeline:
    """Turn the last step into the phase at the end, with what it cannot exclude."""
    if state.phase == "waking" and state.reload_finished:
        return replace(state, phase="first-request-after-wake", may_be=("waking", "awake"))
    if state.phase == "waking":
        return replace(state, may_be=("asleep",) if life.skipped == 0 else ())
    if state.phase == "asleep":
        settled = any(_later(item, state.entered_at) for item in life.evidence)
        return replace(state, may_be=() if settled else ("unloading",))
    if state.phase == "awake":
        return replace(state, may_be=("unloading", "asleep") if state.cycles else ())
    return state


def _later(item: Evidence, entered: float | None) -> bool:
    """A line of other threads well after the entering line: the unload, done under a lock, is over."""
    if entered is None or item.elapsed is None or item.data.get("event") == "enter-sleep":
        return False
    return item.elapsed > entered + STRANDED_START


def _still_open(tasks: Sequence[int], life: Life) -> tuple[int, ...]:
    """Open tasks; where lines in the middle were not kept, the end of an early task may be among them."""
    if not life.skipped:
        return tuple(tasks)
    told = [item.data.get("task_id") for item in life.evidence if item.data.get("event") in _TASK_STEPS]
    return tuple(task for task in tasks if task not in told[:FIRST_KEPT])


def _cycles(life: Life, state: SleepTimeline) -> int:
    """Cycles of the whole life: counted from all lines when not every line was kept."""
    lines = life.counts.get("enter-sleep", 0) - len(state.doubted_ids)
    twins = sum(
        "handle_sleep" in item.text for item in life.evidence if item.data.get("event") == "enter-sleep"
    )
    return max(state.cycles, lines // 2 if twins else lines) if life.skipped else state.cycles


def _stranded(events: Sequence[Evidence]) -> tuple[Stranded, ...]:
    return (*_cancelled_asleep(events), *_early_tasks(events))


def _cancelled_asleep(events: Sequence[Evidence]) -> list[Stranded]:
    """``cancel task`` lines after an entering and before an exiting line."""
    found, entered = [], None
    for item in events:
        event, task = item.data.get("event"), item.data.get("task_id")
        if event in ("enter-sleep", "exit-sleep") and item.trust is not Trust.CLIENT:
            entered = None if event == "exit-sleep" else entered or item
        elif event == "task-cancelled" and entered is not None and isinstance(task, int):
            delay = _between(entered, item)
            found.append(Stranded(task, item.id, delay, lookalike=delay is not None and delay < LOOKALIKE))
    return found


def _between(before: Evidence, after: Evidence) -> float | None:
    if before.elapsed is None or after.elapsed is None:
        return None
    return round(after.elapsed - before.elapsed, 6)


def _early_tasks(events: Sequence[Evidence]) -> list[Stranded]:
    """Tasks that start right after a wake ahead of one with a higher id: the higher may be the waker's.

    Both must have been queued at one time: a client that sends its next request when it has its answer
    leaves a gap between the end of one task and the start of the next.
    """
    found: dict[str, Stranded] = {}
    burst: _Burst | None = None
    for item in events:
        event = item.data.get("event")
        if event == "exit-sleep" and item.trust is not Trust.CLIENT:
            burst = _Burst(item)
        elif event == "enter-sleep":
            burst = None
        elif burst is not None and event == "loaded":
            burst = _Burst(item)
        elif burst is not None:
            found.update((early.evidence_id, early) for early in burst.take(item))
    return list(found.values())


class _Burst:
    """The tasks that started right after one wake, each with its end where that is known."""

    def __init__(self, woke: Evidence) -> None:
        self._woke = woke
        self._ended: dict[int, Evidence | None] = {}
        self._began: dict[int, Evidence] = {}

    def take(self, item: Evidence) -> list[Stranded]:
        """Note a start or an end; returns the tasks that this start shows to have been ahead of it."""
        event, task = item.data.get("event"), item.data.get("task_id")
        if not isinstance(task, int):
            return []
        if event == "task-done" and task in self._began:
            self._ended[task] = item
        if event != "task-launched" or (_between(self._woke, item) or 0.0) > STRANDED_START:
            return []
        ahead = [other for other in self._began if other < task and self._queued_with(other, item)]
        self._began[task], self._ended[task] = item, None
        return [Stranded(other, self._began[other].id, early=True) for other in ahead]

    def _queued_with(self, other: int, item: Evidence) -> bool:
        end = self._ended[other]
        return end is None or (_between(end, item) or 0.0) <= NEXT_TASK


def _is_scrape(item: Evidence) -> bool:
    return item.data.get("event") == "request" and item.data.get("route") in SCRAPE_ROUTES


def _period(events: Sequence[Evidence]) -> float | None:
    times = [item.elapsed if item.elapsed is not None else item.wall for item in events if _is_scrape(item)]
    known = [time for time in times if time is not None]
    steps = sorted(after - before for before, after in pairwise(known) if after >= before)
    return steps[len(steps) // 2] if len(steps) + 1 >= SCRAPES else None


def _asks_to_stop(item: Evidence) -> bool:
    ended = fact_of(item, ExitFact)
    acted = fact_of(item, ActionFact)
    return bool(ended and ended.requested) or bool(acted and acted.action in ("stop", "terminate"))


def _missing(life: Life) -> list[Gap]:
    """Why a sleep line of this life could be missing from the text."""
    gaps = [
        Gap(
            what="the last log lines",
            why="the server's logger is a queue: a crash can lose its last lines, an entering line included",
            command="read the core: llama-blackbox triage CORE",
        )
    ]
    if life.head_lost:
        gaps.append(Gap(what="earlier lines", why="no start line of this process is in the log"))
    if life.verbosity is not None and life.verbosity < 3:
        gaps.append(Gap(what="sleep lines", why=f"verbosity {life.verbosity} prints none", command="-lv 3"))
    if life.skipped:
        gaps.append(
            Gap(what="events in the middle", why=f"{life.skipped} telling lines were counted, not kept")
        )
    return gaps
