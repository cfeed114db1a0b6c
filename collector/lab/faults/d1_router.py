"""D1 behind a router: the child dies of the stale capture, and the router calls that "status 1" (b11138)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.lab.faults.d1_stale_capture import EXPECTED, SLEEP_DEADLINE
from collector.lab.faults.kernel import KernelLines, kernel_lines
from collector.lab.faults.prompts import count_tokens
from collector.lab.faults.provoked import DEATH_DEADLINE, Expected, Say
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.router import SLEEPING, ChildProcess, RunningRouter

IDLE_SECONDS = 1
EXITED = "exited with status"


@dataclass(frozen=True)
class RouterDeath:
    """A child's end as its surroundings tell it. ``answer`` is the router's to the deadly request.

    ``happened`` tells whether the child died, asleep before, by the request.
    """

    expected: Expected
    happened: bool
    router: RunningRouter
    child: ChildProcess
    answer: Answer
    core: CoreSearch
    kernel: KernelLines
    notes: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What the router and all its children printed."""
        return self.router.output.path


def provoke(router: RunningRouter, name: str, say: Say = lambda _: None) -> RouterDeath:
    """Load ``name``, let it sleep, and send one token count through the router as the first call.

    The router stays up: whoever started it takes it down. Raises UserError as ``RunningRouter.load``.
    """
    child = router.load(name)
    slept = router.wait_until(lambda: router.statuses().get(name) == SLEEPING, SLEEP_DEADLINE)
    say(f"{name} sleeps on port {child.port}; sending one token count through the router")
    answer = router.send(routed_count(name))
    died = _waits_for_death(router, child, answer)
    core = router.core_of(child.pid) if died else CoreSearch(None, "the child lives")
    tids = router.tids.get(child.pid, set())
    kernel = kernel_lines(router.started_mono, tids) if died else KernelLines()
    notes = () if slept else ("the child did not go to sleep in time",)
    return RouterDeath(EXPECTED, died and slept, router, child, answer, core, kernel, notes)


def routed_count(name: str) -> Request:
    """The token count, with the model's name by which the router finds the child."""
    plain = count_tokens()
    return Request(plain.method, plain.route, {"model": name, **plain.body}, timeout=plain.timeout)


def _waits_for_death(router: RunningRouter, child: ChildProcess, answer: Answer) -> bool:
    """The router answers when the connection breaks, and reports the end up to 50 ms after it."""
    if answer.status == 200:
        return False
    told: Callable[[], bool] = lambda: router.output.count(f"instance name={child.name} {EXITED}") > 0  # noqa: E731
    gone = router.wait_until(told, DEATH_DEADLINE)
    return gone and all(each.pid != child.pid for each in router.children())
