"""Which of a kernel log's lines are about the server, when no core names its threads.

A kernel log holds the faults of every program on the host, and often several deaths of the same server. A
server's own log carries no thread id, so a fault is joined to it only when there is exactly one candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import ExitFact, KernelFact, StackFact, fact_of
from analyzers.contracts.report import Gap
from analyzers.triage.days import begins_after, went_on_after
from analyzers.triage.lives import CLOCKS, Life
from analyzers.triage.material import Material

FATAL_SHAPES = ("segfault", "gpf", "invalid-opcode", "divide-error")
VICTIM_SHAPES = (
    "oom-kill",
    "gpu-fault",
)  # lines that name whom the kernel killed or whose work broke the GPU
SLACK_S = 1.0  # whole seconds of a stamp, and clocks that drift
OUTLIVED_S = 30.0  # a dead process prints nothing, but a busy journald may take its last lines late
# Objects and programs that are the server's beyond doubt.
SERVER = re.compile(r"llama|ggml|mtmd", re.IGNORECASE)
# Programs that host a server, among many other things: ours only with an object that the server uses.
HOSTS = re.compile(r"^(?:python|uvicorn|gunicorn)", re.IGNORECASE)
# Objects of every program: a fault in them says nothing about whose it was.
SHARED = re.compile(r"^(?:libc|ld|libstdc\+\+|libgcc_s|libm|libpthread)\b", re.IGNORECASE)


def one_fault(materials: Sequence[Material]) -> tuple[list[Material], list[Gap]]:
    """The materials without the kernel lines that cannot be this server's, and the gaps that say so."""
    kept = list(materials)
    gaps: list[Gap] = []
    pids, threads = _known(materials)
    for shapes, choose, what in (
        (FATAL_SHAPES, _choose, "other faults in the kernel log"),
        (VICTIM_SHAPES, _choose_victim, "kernel lines about other processes"),
    ):
        found = [item for material in kept for item in material.evidence if named_in(item, shapes)]
        chosen = choose(found, pids, threads)
        if chosen and not any(_is_named(item, pids, threads) for item in chosen):
            stray, more = _adopted(chosen, kept)
            chosen = [] if stray else chosen
            gaps += more
        dropped = {item.id for item in found} - {item.id for item in chosen}
        if dropped:
            gaps.append(_left_out(len(dropped), what, bool(chosen)))
            kept = [_without(material, dropped) for material in kept]
    return kept, gaps


def _is_named(item: Evidence, pids: set[int], threads: set[int]) -> bool:
    return item.incarnation.pid in pids or _tid(item) in threads


def _adopted(chosen: Sequence[Evidence], materials: Sequence[Material]) -> tuple[bool, list[Gap]]:
    """(True when the line's program or time is not that of any log here, else the gap that asks about it).

    The line stands in no log that could name its process: a text of its own, which the user put beside it.
    """
    line = chosen[-1]
    logs = [one for one in materials if one.lives and not any(item.id == line.id for item in one.evidence)]
    lives = [life for one in logs for life in one.lives]
    if not lives or any(one.lives and line in one.evidence for one in materials):
        return False, []
    nameless = all(life.pid is None and life.carrier is None for life in lives)
    unknown = nameless and not (_is_ours(line) or _hosts_one(line))
    if unknown or all(_other_time(line, life) for life in lives):
        return True, []
    if not nameless:
        return False, []
    told = f"PID or thread {_tid(line)}" if _tid(line) is not None else "a process"
    return False, [
        Gap(
            what=f"whether the kernel's line in {line.source} is about the process of {lives[0].name}",
            why=f"it names {told} and the log none; nothing ties them but that both were given together",
            command="give the core, or: journalctl _PID=PID -o export > server.export",
        )
    ]


def _other_time(line: Evidence, life: Life) -> bool:
    """True when a clock that dates both puts the line before the life's first line, or its last far after."""
    for clock in CLOCKS:
        stamp, began, ended = getattr(line, clock), life.began(clock), life.ended(clock)
        if stamp is not None and began is not None and ended is not None:
            return bool(stamp < began - SLACK_S or ended > stamp + OUTLIVED_S)
    return begins_after(life, line) or went_on_after(life, line)


def named_in(item: Evidence, shapes: Sequence[str] = (*FATAL_SHAPES, *VICTIM_SHAPES)) -> KernelFact | None:
    """The kernel fact of one of ``shapes`` that names a thread; None for everything else."""
    fact = fact_of(item, KernelFact)
    told = fact is not None and fact.shape in shapes and (fact.tid is not None or fact.shape in FATAL_SHAPES)
    return fact if told else None


def _left_out(number: int, what: str, some_kept: bool) -> Gap:
    return Gap(
        what=f"{number} {what}",
        why="they are another program's or another process's"
        if some_kept
        else "they are other programs', or several fit and none names this server's process",
        command="give the core, or journal entries: both name the process",
    )


def _known(materials: Sequence[Material]) -> tuple[set[int], set[int]]:
    """PIDs that evidence of the server names, and those together with the threads of its stacks."""
    items = [item for material in materials for item in material.evidence]
    named = [
        item.incarnation.pid for item in items if item.kind != KernelFact.KIND and not foreign_record(item)
    ]
    pids = {pid for pid in (*named, *(m.process.pid for m in materials)) if pid is not None}
    stacks = (fact_of(item, StackFact) for item in items)
    return pids, pids | {stack.tid for stack in stacks if stack is not None and stack.tid is not None}


def foreign_record(item: Evidence) -> bool:
    """True for a core record whose program is no server and hosts none."""
    fact = fact_of(item, ExitFact)
    name = fact.name if fact is not None else None
    return name is not None and not (SERVER.search(name) or HOSTS.search(name))


def _choose(faults: Sequence[Evidence], pids: set[int], threads: set[int]) -> list[Evidence]:
    named = [item for item in faults if item.incarnation.pid in pids or _tid(item) in threads]
    if named:
        return named[-1:]
    ours = _only(faults, _is_ours)
    return ours or (list(faults) if len(faults) == 1 and _may_be_ours(faults[0]) else [])


def _choose_victim(lines: Sequence[Evidence], pids: set[int], threads: set[int]) -> list[Evidence]:
    """The kernel writes several lines about one victim: they count as one."""
    named = [item for item in lines if _tid(item) in threads]
    if named or pids:
        return named
    ours = [item for item in lines if _has_server_name(item)]
    return ours if len({_tid(item) for item in ours}) == 1 else []


def _only(faults: Sequence[Evidence], test: Callable[[Evidence], bool]) -> list[Evidence]:
    fitting = [item for item in faults if test(item)]
    return fitting if len(fitting) == 1 else []


def _has_server_name(item: Evidence) -> bool:
    fact = named_in(item)
    return fact is not None and SERVER.search(fact.name or "") is not None


def _is_ours(item: Evidence) -> bool:
    fact = named_in(item)
    if fact is None:
        return False
    name, object_ = fact.name or "", fact.object or ""
    if SERVER.search(object_) or SERVER.search(name):
        return True
    return HOSTS.search(name) is not None and SHARED.search(object_) is not None


def server_fault(item: Evidence) -> int | None:
    """The thread of a fatal fault that is a server's by its name or object; None for everything else."""
    fact = named_in(item, FATAL_SHAPES)
    return fact.tid if fact is not None and _is_ours(item) else None


def _may_be_ours(item: Evidence) -> bool:
    """A thread may carry any name and fault in anybody's library, but not in another program's own code."""
    fact = named_in(item)
    if fact is None:
        return False
    return SHARED.search(fact.object or "") is not None or (
        fact.object is None and HOSTS.search(fact.name or "") is not None
    )


def _hosts_one(item: Evidence) -> bool:
    fact = named_in(item)
    return fact is not None and HOSTS.search(fact.name or "") is not None


def _tid(item: Evidence) -> int | None:
    fact = named_in(item)
    return fact.tid if fact is not None else None


def _without(material: Material, dropped: set[str]) -> Material:
    return replace(material, evidence=tuple(item for item in material.evidence if item.id not in dropped))
