"""Units asked of their manager, sparingly: what a journal would have told, where none can be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact
from analyzers.logs.text import visible
from collector.gather.tools import Ran, run
from collector.gather.units import DUMPED, EXITED, KILLED, TOOL
from collector.sources.follow.position import decoded, encoded
from collector.sources.follow.quick import quick_evidence
from collector.sources.follow.unit_facts import UnitFact
from collector.sources.procfs import boot_id
from collector.sources.stream import DEFAULT_LIMIT, Batch, StreamHealth

EVERY = 15.0  # seconds: one call of systemctl costs the host some 15 ms of work
MOST = 256  # units of one call; the command line has room for more
PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "Result", "StatusText", "NRestarts", "InvocationID"),
    *("MainPID", "ExecMainPID", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestampMonotonic"),
)
State = dict[str, str]
Ask = Callable[[list[str]], Ran]


class UnitStream:
    """The contract of sources/stream.py over ``systemctl show`` of some units.

    ``user`` asks this user's own manager. The tool runs in a thread of its own: a poll never waits for it.
    """

    def __init__(
        self,
        units: Iterable[str] = (),
        *,
        user: bool = False,
        cursor: str | None = None,
        every: float = EVERY,
        ask: Ask = run,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = "units:user" if user else "units"
        self._command = [TOOL, *(["--user"] if user else []), "show", "--no-pager"]
        self._units = sorted(set(units))
        self._states: dict[str, State] = _stored(cursor)
        self._every, self._ask, self._now = every, ask, now
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="units")
        self._running: Future[Ran] | None = None
        self._asked = float("-inf")
        self._problem: str | None = None
        self._read = self._told = 0

    def watch(self, units: Iterable[str]) -> None:
        """The units that are asked about from now on."""
        self._units = sorted(set(units))[:MOST]

    def soon(self) -> None:
        """Ask at the next poll: a server has just died."""
        self._asked = float("-inf")

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def health(self) -> StreamHealth:
        return StreamHealth(
            "ok" if self._problem is None else "degraded", self._problem, self._read, self._told
        )

    def poll(self, limit: int = DEFAULT_LIMIT) -> Batch:
        """What changed since the last answer of the manager."""
        if self._running is not None and self._running.done():
            answer, self._running = self._running.result(), None
            evidence = self._changes(answer)[:limit]
            self._told += len(evidence)
            return Batch(tuple(evidence), self._cursor())
        if self._running is None and self._units and self._now() - self._asked >= self._every:
            self._asked = self._now()
            argv = [*self._command, f"--property={','.join(PROPERTIES)}", "--", *self._units[:MOST]]
            self._running = self._worker.submit(self._ask, argv)
        return Batch()

    def _cursor(self) -> str:
        kept = {name: [_count(state), _end(state)] for name, state in self._states.items()}
        return encoded({"boot": boot_id(), "units": kept})

    def _changes(self, answer: Ran) -> list[Evidence]:
        self._problem = None if answer.ok else f"systemctl: {answer.why}"
        found: list[Evidence] = []
        for state in states(answer.out.decode("utf-8", "replace")):
            name = state.get("Id", "")
            if state.get("LoadState") in (None, "not-found") or not name:
                continue
            self._read += 1
            before = self._states.get(name)
            self._states[name] = state
            if before is not None:
                found += changes(visible(name), before, state)
        return found


def _stored(cursor: str | None) -> dict[str, State]:
    """What was known when the agent ended; of another boot it is nothing."""
    fields = decoded(cursor)
    units = fields.get("units")
    if fields.get("boot") != boot_id() or not isinstance(units, dict):
        return {}
    known = {}
    for name, kept in list(units.items())[:MOST]:
        if isinstance(kept, list) and len(kept) == 2:
            known[name] = {"NRestarts": str(kept[0]), "ExecMainExitTimestampMonotonic": str(kept[1])}
    return known


def states(text: str) -> list[State]:
    """``systemctl show`` of several units: blocks of NAME=value with an empty line between."""
    blocks: list[State] = [{}]
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not line:
            blocks.append({})
        elif equals and name in PROPERTIES:
            blocks[-1][name] = value
    return [block for block in blocks if block]


def changes(unit: str, before: Mapping[str, str], now: Mapping[str, str]) -> list[Evidence]:
    """Evidence of what is different: an end of the main process, a restart, a failure, a status text."""
    found: list[Evidence] = []
    if _end(now) and _end(now) != _end(before):
        found += _ended(unit, now)
    restarts = _count(now)
    if restarts > _count(before):
        fact = UnitFact("restarted", unit, None, restarts, now.get("InvocationID") or None)
        found.append(_step(fact, f"{unit} was restarted, the {restarts}. time"))
    if now.get("ActiveState") == "failed" and before.get("ActiveState", "failed") != "failed":
        result = now.get("Result") or None
        found.append(_step(UnitFact("failed", unit, result), f"{unit} failed, result {result or 'unknown'}"))
    status = now.get("StatusText", "")
    if status and "StatusText" in before and status != before["StatusText"]:
        found.append(_step(UnitFact("status", unit), visible(f"{unit} says: {status}")))
    return found


def _ended(unit: str, now: Mapping[str, str]) -> list[Evidence]:
    code, status, pid = now.get("ExecMainCode"), now.get("ExecMainStatus", ""), now.get("ExecMainPID", "")
    if code not in (EXITED, KILLED, DUMPED) or not status.isdecimal() or len(status) > 3:
        return []
    signal = int(status) if code != EXITED else None
    result = now.get("Result") or None
    # A restart resets Result to success before the new process exists: then it says nothing about this end.
    result = None if result == "success" and signal is not None else result
    fact = ExitFact(
        by="systemd",
        signal=signal,
        code=int(status) if signal is None else None,
        result=result,
        unit=unit,
        oom=result == "oom-kill",
    )
    number = int(pid) if pid.isdecimal() and 0 < len(pid) < 11 else None
    how = f"signal {signal}" if signal is not None else f"status {status}"
    text = f"main process {number} of {unit} ended with {how}, result {result or 'not kept'}"
    data = {name: value for name, value in asdict(fact).items() if value is not None}
    mono = _end(now) / 1e6
    return [_evidence(f"unit-exit-{number}-{_end(now)}", fact.KIND, text, data, number, mono)]


def _step(fact: UnitFact, text: str) -> Evidence:
    id_ = f"unit-{fact.event}-{fact.unit}-{fact.restarts or int(time.monotonic() * 1000)}"
    return _evidence(id_, fact.KIND, text, fact.data(), None, time.monotonic())


def _evidence(
    id: str, kind: str, text: str, data: Mapping[str, object], pid: int | None, mono: float
) -> Evidence:
    who = Incarnation(pid=pid, boot_id=boot_id())
    wall = time.time() - time.monotonic() + mono
    return quick_evidence(id, kind, "systemctl show", text, Trust.SUPERVISOR, wall, mono, None, who, data)


def _count(state: Mapping[str, str]) -> int:
    text = state.get("NRestarts", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _end(state: Mapping[str, str]) -> int:
    """Microseconds of CLOCK_MONOTONIC at which the main process ended, 0 while it runs."""
    text = state.get("ExecMainExitTimestampMonotonic", "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0
