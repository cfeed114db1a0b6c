"""Living servers that do not answer, looked at twice and handed over as a host would."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

from e2e_stage import UNLOAD, Play, Scene, hand_over

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import AnswerFact, to_evidence
from collector.actions.twice import Looked, look_twice
from collector.lab.faults import draft_leak, hang_aborting, hang_http, hang_loop, slow_work
from collector.lab.faults.provoked import CRASH, HEALTHY, Expected, Provoked, Stage, closed
from collector.lab.reference import RunningServer
from collector.lab.reference.conditions import asleep
from collector.sources.probes import probe
from collector.sources.procfs import read_incarnation
from collector.sources.target import Target

STILL = 5.5  # seconds between the looks that may call a loop stuck; the rule demands five
SHORT = 0.3  # enough to see a load or a batch move
TIMEOUT = 0.5
GONE = 60.0  # a debugger that prints a trace on a busy machine


def looks(
    server: RunningServer,
    seconds: float = SHORT,
    *,
    stacks: bool = True,
    metrics: bool = True,
    timeout: float = TIMEOUT,
) -> Looked:
    target = Target(server.port, pid=server.pid)
    return look_twice(target, seconds=seconds, metrics=metrics, stacks=stacks, timeout=timeout)


def shown(provoked: Provoked, folder: Path, seen: Looked) -> Play:
    """The hand-over, and the server taken down."""
    play = hand_over(provoked, folder, seen.evidence, seen.gaps)
    provoked.server.take_down()
    return play


def loop(stage: Stage, folder: Path) -> Play:
    provoked = hang_loop.provoke(stage)
    seen = looks(provoked.server, STILL)
    hang_loop.unblock(stage)
    return shown(provoked, folder, seen)


def loop_one_look(stage: Stage, folder: Path) -> Play:
    """The same hang, and nobody waited to look again."""
    provoked = hang_loop.provoke(stage)
    seen = looks(provoked.server, 0.0)
    hang_loop.unblock(stage)
    return shown(provoked, folder, seen)


def http(stage: Stage, folder: Path, *, files: int | None = hang_http.FILES) -> Play:
    with hang_http.provoked(stage, files=files) as provoked:
        return shown(provoked, folder, looks(provoked.server))


def aborting(stage: Stage, folder: Path) -> Play:
    provoked = hang_aborting.provoke(stage)
    return shown(provoked, folder, looks(provoked.server, 0.0, metrics=False))


def load(stage: Stage, folder: Path) -> Play:
    with slow_work.loading(stage) as provoked:
        return shown(provoked, folder, looks(provoked.server, 0.1, stacks=False, metrics=False))


def prefill(stage: Stage, folder: Path) -> Play:
    provoked = slow_work.prefill(stage)
    return shown(provoked, folder, looks(provoked.server))


def waking(stage: Stage, folder: Path) -> Play:
    """Both looks within a third of a second: the reload takes one, and must not be over in the second."""
    provoked = slow_work.waking(stage)
    seen = looks(provoked.server, 0.05, stacks=False, metrics=False, timeout=0.1)
    return shown(provoked, folder, seen)


def stopped(stage: Stage, folder: Path) -> Play:
    """SIGSTOP: it answers nothing at all, and nothing is wrong with it."""
    server = stage.start()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        expected = Expected("UNDETERMINED", ("unknown",), ("awake",))
        client = server.begin(slow_work.touch())
        provoked = hang_loop.hanging("stopped", expected, server, client, happened=True)
        return hand_over(provoked, folder, looks(server).evidence)
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.take_down()


def idle(stage: Stage, folder: Path) -> Play:
    """A healthy server with nothing to do, looked at like the hanging ones."""
    server = stage.start()
    server.send(slow_work.touch())
    seen = looks(server, STILL)
    expected = Expected("NO-FAULT", ("unknown",), ("awake",))
    return hand_over(closed("idle", expected, server, HEALTHY, happened=True), folder, seen.evidence)


def aborted(stage: Stage, folder: Path) -> Play:
    """The twin of aborting: the same assertion when the server is gone."""
    provoked = hang_aborting.provoke(stage)
    provoked.server.wait_until(lambda each: each.finished, GONE)
    gone = closed("aborted", provoked.expected, provoked.server, CRASH, happened=provoked.happened)
    return hand_over(gone, folder)


def draft(stage: Stage, folder: Path, *, drafting: bool = True) -> Play:
    """Memory looked at in each of three sleeps, with a draft model or without."""
    provoked, seen = draft_leak.provoke(stage, drafting=drafting)
    return hand_over(provoked, folder, seen)


def cold_cache(stage: Stage, folder: Path) -> Play:
    """Equal requests before a sleep and after it: the first one after the wake pays, the others do not."""
    server = stage.start(idle_seconds=2)
    timed = [_timed(server, 0, None) for _ in range(3)]
    slept = server.wait_until(asleep, GONE)
    timed += [_timed(server, 1, number) for number in range(1, 5)]
    target = Target(server.port, pid=server.pid)
    timed += probe(target, incarnation=read_incarnation(server.pid))
    expected = Expected("NO-FAULT", ("unknown",), ("awake",))
    return hand_over(closed("cold-cache", expected, server, HEALTHY, happened=slept), folder, timed)


def _timed(server: RunningServer, cycle: int, since_wake: int | None) -> Evidence:
    answer = server.send(slow_work.touch())
    seconds = answer.ended - answer.sent
    return to_evidence(
        AnswerFact(
            route=answer.route, status=answer.status, seconds=seconds, cycle=cycle, since_wake=since_wake
        ),
        id=f"timed-{cycle}-{since_wake}-{answer.ended}",
        source="the lab's client",
        text=f"{answer.route}: HTTP {answer.status} in {seconds:.3f} s",
        trust=Trust.SUPERVISOR,
        mono=answer.ended,
        incarnation=read_incarnation(server.pid),
    )


HANGS = {
    # A loop blocked in one task. Twins: nobody looked again; a healthy idle server looked at alike.
    "hang-loop": Scene(UNLOAD, loop),
    "hang-loop-one-look": Scene(UNLOAD, loop_one_look),
    "looked-idle": Scene(UNLOAD, idle),
    # No thread takes a request. Twin: stopped by a signal, which answers nothing either.
    "hang-http": Scene(UNLOAD, http),
    "hang-http-pool": Scene(UNLOAD, partial(http, files=None)),
    "stopped": Scene(UNLOAD, stopped),
    # A failed assertion while gdb prints its trace. Twin: the same when the server is gone.
    "hang-aborting": Scene(UNLOAD, aborting),
    "aborted": Scene(UNLOAD, aborted),
    # Slow, and moving.
    "load-slow": Scene(UNLOAD, load),
    "prefill": Scene(UNLOAD, prefill),
    "waking": Scene(UNLOAD, waking),
    # D5. Twins: a build after the fix with the same draft; the affected build without a draft.
    "draft-kept": Scene(draft_leak.AFFECTED_VERSION, draft),
    "draft-freed": Scene(UNLOAD, draft),
    "no-draft": Scene(draft_leak.AFFECTED_VERSION, partial(draft, drafting=False)),
    "cold-cache": Scene(UNLOAD, cold_cache),
}
