"""Two looks at a living server: probes, clients, /proc and native stacks, then the same again.

One look cannot tell a hang from slow work. The second one is taken ``seconds`` later; nothing wakes the
server or resets its idle timer, except /metrics where the operator opted in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from collector.actions.snapshot import snapshot
from collector.sources.looks import look
from collector.sources.probes import probe
from collector.sources.procfs import read_incarnation
from collector.sources.sockets import sample_sockets
from collector.sources.target import Target

# A blocked loop is called stuck after five seconds, a GPU after fifteen: this shows both with room for the
# probes' own time-outs, and an operator still waits for it.
BETWEEN_SECONDS = 16.0


@dataclass(frozen=True)
class Looked:
    """Everything seen in both looks, in order, and what could not be seen."""

    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()


def look_twice(
    target: Target,
    *,
    seconds: float = BETWEEN_SECONDS,
    metrics: bool = False,
    stacks: bool = True,
    timeout: float = 2.0,
    pause: Callable[[float], None] = time.sleep,
) -> Looked:
    """Look, wait ``seconds``, look again. Never raises for what the server does; needs ``target.pid``.

    ``timeout`` seconds for each probe; ``stacks`` stops each thread for milliseconds (eu-stack).
    """
    first = _look(target, metrics, stacks, timeout)
    pause(seconds)
    second = _look(target, metrics, stacks, timeout)
    gaps = {(gap.what, gap.why): gap for gap in (*first.gaps, *second.gaps)}
    return Looked((*first.evidence, *second.evidence), tuple(gaps.values()))


def _look(target: Target, metrics: bool, stacks: bool, timeout: float) -> Looked:
    who = read_incarnation(target.pid) if target.pid is not None else None
    seen = look(target.pid) if target.pid is not None else None
    # Stacks first: a probe that times out must not let a transition pass unseen.
    taken = snapshot(target.pid) if stacks and target.pid is not None else None
    probes = probe(target, metrics=metrics, timeout=timeout, incarnation=who)
    clients, gaps = _clients(target)
    found = [*([seen] if seen else []), *(taken.evidence if taken else ()), *probes, *clients]
    gaps += list(taken.gaps) if taken else []
    return Looked(tuple(found), tuple(gaps))


def _clients(target: Target) -> tuple[list[Evidence], list[Gap]]:
    who = read_incarnation(target.pid) if target.pid is not None else None
    try:
        return sample_sockets(target, incarnation=who), []
    except UserError as refused:
        return [], [Gap(what="the server's clients", why=refused.what, command=refused.remedy)]
