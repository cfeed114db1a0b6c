"""The scenes by name: every fault of the lab, and beside each the twin that must come out different."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import e2e_live as live
import pytest
from e2e_ask import ask
from e2e_stage import STALE, UNLOAD, Play, Scene, hand_over

from collector.lab.demo.scenes import with_core
from collector.lab.faults import bus_error, content, d1_stale_capture, exception, harmless, wake_reload
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults.kernel import NO_LINE
from collector.lab.faults.provoked import CRASH, Provoked, Stage
from collector.lab.reference.conditions import EXITING

# The kernel prints ten such lines in five seconds for all processes: under load one may be left out.
EVIDENCE_TRIES = 3
# Left to itself between none and nine of ten unpoisoned crashes are one, from hour to hour. With freed nodes
# in the ordinary bins instead of the fast ones, whose links glibc scrambles, 20 of 20 were; nothing is
# poisoned. The counts of the full run leave the allocator as it is.
PLAIN_BINS = {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0"}
RECURSION_TRIES = 4
DEEP = 200


def crash(provoke: Callable[[Stage], Provoked], *, quiet: bool = True) -> Callable[[Stage, Path], Play]:
    """Play one of the lab's faults. ``quiet``: the server prints no backtrace of its own, which takes a
    debugger seconds and is a matter of its own."""

    def play(stage: Stage, folder: Path) -> Play:
        silent = {"GGML_NO_BACKTRACE": "1"} if quiet else {}
        stage = replace(stage, base=replace(stage.base, environment=silent))
        return hand_over(with_core(provoke, stage), folder)

    return play


def ended(provoke: Callable[[Stage], Provoked]) -> Callable[[Stage, Path], Play]:
    """Play an end that leaves no core, so that none is sought under a debugger."""
    return lambda stage, folder: hand_over(provoke(stage), folder)


def stale_capture(stage: Stage) -> Provoked:
    """D1 with all its evidence: again while the kernel's rate limit swallows its line, without which nothing
    can be proven, or the crash the log's last ones."""
    for _ in range(EVIDENCE_TRIES):
        provoked = d1_stale_capture.provoke(stage)
        told = EXITING.encode() in provoked.log.read_bytes()
        if told and (provoked.kernel.note != NO_LINE or stage.under_gdb):
            break
    return provoked


def endless_recursion(stage: Stage, folder: Path) -> Play:
    """D2 over memory that was freed and not poisoned, until the reader recurses without end."""
    stage = replace(stage, base=replace(stage.base, environment=PLAIN_BINS))
    seen: list[str] = []
    for number in range(RECURSION_TRIES):
        shape = (d2.TOKENIZE_UNPOISONED, d2.COMPLETION_UNPOISONED)[number % 2]
        provoked = with_core(partial(d2.attempt, shape=shape), stage)
        if provoked.outcome == CRASH and provoked.core.path is not None:
            play = hand_over(replace(provoked, happened=True), folder / str(number))
            depth = recursion_depth(play)
            if depth >= DEEP:
                return play
            provoked.core.path.unlink()
        seen.append(provoked.outcome)
    pytest.skip(f"no endless recursion in {RECURSION_TRIES} tries: {', '.join(seen)}")


def recursion_depth(play: Play) -> int:
    """How often the most repeated frame stands on the stack that died."""
    crashed = [thread for thread in ask(play.core).report.threads if thread.crashed]
    return max((frame.repeat for thread in crashed for frame in thread.frames), default=0)


SCENES = {
    # A sleeping server is asked to count tokens (D1). Twins: awake; and a reader of its own that dies awake.
    "d1": Scene(STALE, crash(stale_capture)),
    "d1-awake": Scene(STALE, ended(d1_stale_capture.provoke_twin)),
    "d1-overflow": Scene(
        STALE, crash(partial(content.provoke, content=content.OVERFLOW_COUNT, slept_before=True))
    ),
    # Sleep falls into a request that reads the model (D2). Twins: far from sleep; dying of its own content.
    "d2-completion": Scene(UNLOAD, crash(partial(d2.provoke, shape=d2.COMPLETION))),
    "d2-tokenize": Scene(UNLOAD, crash(partial(d2.provoke, shape=d2.TOKENIZE))),
    "d2-recursion": Scene(UNLOAD, endless_recursion),
    "d2-far": Scene(UNLOAD, live.far_from_sleep),
    "overflow": Scene(UNLOAD, crash(content.provoke)),
    "overflow-tokenize": Scene(UNLOAD, crash(partial(content.provoke, content=content.OVERFLOW_TOKENIZE))),
    "overflow-grammar": Scene(UNLOAD, crash(partial(content.provoke, content=content.OVERFLOW_GRAMMAR))),
    "overflow-slept": Scene(UNLOAD, crash(partial(content.provoke, slept_before=True))),
    # A request posted to a loop that sleeps (D3). Twins: clients that want nothing; giving up while awake.
    "d3": Scene(UNLOAD, live.strand_and_release),
    "d3-idle": Scene(UNLOAD, live.idle_client),
    "d3-gave-up": Scene(UNLOAD, live.give_up_asleep),
    "gave-up-awake": Scene(UNLOAD, live.give_up_awake),
    # Aborts. Twins: the same damage under an awake mapping; an abort that was asked for; a caught throw.
    "d7": Scene(UNLOAD, crash(wake_reload.provoke)),
    "d7-cut": Scene(UNLOAD, crash(partial(wake_reload.provoke, damage=wake_reload.cut))),
    "d7-self-trace": Scene(UNLOAD, crash(wake_reload.provoke, quiet=False)),
    "assertion": Scene(UNLOAD, crash(partial(content.provoke, content=content.ASSERTION))),
    "assertion-slept": Scene(
        UNLOAD, crash(partial(content.provoke, content=content.ASSERTION, slept_before=True))
    ),
    "exception": Scene(UNLOAD, crash(exception.provoke)),
    "refused": Scene(UNLOAD, live.refused),
    "bus": Scene(UNLOAD, crash(bus_error.provoke)),
    "bus-signal": Scene(UNLOAD, partial(live.signalled, number=signal.SIGBUS)),
    "abort-signal": Scene(UNLOAD, partial(live.signalled, number=signal.SIGABRT)),
    "abort-stopping": Scene(UNLOAD, partial(live.signalled, number=signal.SIGABRT, stopping=True)),
    # Ends and lives without a fault.
    "stop": Scene(UNLOAD, ended(harmless.stop)),
    "kill": Scene(UNLOAD, ended(harmless.kill)),
    "kill-asleep": Scene(UNLOAD, live.killed_asleep),
    "sleepers": Scene(UNLOAD, live.sleepers),
}
