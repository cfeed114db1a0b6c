"""Native stacks of a live server: every thread stopped by turns for a moment, none of its code run.

eu-stack attaches to one thread after the other: the frames of two threads are some milliseconds apart.
That is exact for a server in which nothing moves, such as one that holds a stranded request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ActionFact, StackFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.stacks.confine import find_tool
from analyzers.stacks.eustack import parse_eu_stack
from collector.actions.tracing import Traced, trace
from collector.sources.procfs import GoneError, Process

ACTION = "snapshot"
TOOL = "eu-stack"
SNAPSHOT_SECONDS = 5.0  # 60 ms measured with 12 threads; a server must never stand still for longer than this
_FRAMES = 64  # a route handler's whole stack is 16 to 25 frames
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_SCOPES = {
    "1": "kernel.yama.ptrace_scope = 1 lets only its parent or root look into a process",
    "2": "kernel.yama.ptrace_scope = 2 demands CAP_SYS_PTRACE",
    "3": "kernel.yama.ptrace_scope = 3 forbids looking into processes until the next boot",
}
Run = Callable[[list[str], Process, float], Traced]


@dataclass(frozen=True)
class Snapshot:
    """All threads' frames as evidence, then the action itself; ``gaps`` say why there are none.

    ``longest_stop`` is how long the thread that was stopped longest stood still, in seconds.
    """

    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    longest_stop: float = 0.0


def snapshot(pid: int, *, seconds: float = SNAPSHOT_SECONDS, run: Run = trace) -> Snapshot:
    """Take the stacks of ``pid`` once, within ``seconds``. Never raises for what the process or tool does.

    Refuses its own process, one that is already traced (a second tracer cannot attach, and a debugger is
    not to be disturbed) and one that is stopped.
    """
    if pid == os.getpid():
        return Snapshot(gaps=(_gap(pid, "a process cannot stop itself and look"),))
    tool = find_tool(TOOL)
    if tool is None:
        install = "apt-get install --no-install-recommends elfutils"
        return Snapshot(gaps=(Gap(what="stacks", why=f"{TOOL} is not installed", command=install),))
    try:
        with Process(pid) as process:
            return _take(process, tool, seconds, run)
    except GoneError:
        return Snapshot(gaps=(Gap(what="stacks of the live process", why=f"process {pid} is gone"),))
    except PermissionError:
        return Snapshot(gaps=(_not_permitted(pid),))


def _take(process: Process, tool: str, seconds: float, run: Run) -> Snapshot:
    tracer = process.tracer()
    if tracer:
        return Snapshot(gaps=(_gap(process.pid, f"process {tracer} traces it already"),))
    if process.state() in "TtZX":
        return Snapshot(gaps=(_gap(process.pid, "it is stopped or dead"),))
    incarnation = process.incarnation()
    done = run([tool, "-n", str(_FRAMES), "-m", "-b", "-p", str(process.pid)], process, seconds)
    stacks = [_named(stack, process) for stack in parse_eu_stack(done.output, rung="live")]
    stacks = [stack for stack in stacks if stack.frames]
    gaps = _gaps(process.pid, done, found=bool(stacks))
    if not stacks:
        return Snapshot(gaps=gaps, longest_stop=done.longest_stop)
    facts = [_stack_evidence(stack, incarnation) for stack in stacks]
    action = _action_evidence(done, incarnation, len(stacks))
    return Snapshot((*facts, action), gaps, done.longest_stop)


def _named(stack: StackFact, process: Process) -> StackFact:
    name = None
    with suppress(GoneError, PermissionError):
        raw = process.read(f"task/{stack.tid}/comm").decode("utf-8", "replace").rstrip("\n")
        name = "".join(char if char.isprintable() else "?" for char in raw)
    return replace(stack, name=name, live=True)


def _stack_evidence(stack: StackFact, incarnation: Incarnation) -> Evidence:
    top = next((frame.function for frame in stack.frames if frame.function), "no symbols")
    return to_evidence(
        stack,
        id=f"live-stack-{incarnation.pid}-{stack.tid}",
        source=f"{TOOL} -p {incarnation.pid}",
        text=f"thread {stack.tid} ({stack.name or 'unnamed'}): {len(stack.frames)} frames, in {top}",
        trust=Trust.KERNEL,
        wall=time.time(),
        mono=time.monotonic(),
        incarnation=incarnation,
    )


def _action_evidence(done: Traced, incarnation: Incarnation, threads: int) -> Evidence:
    outcome = "cut-off" if done.cut_off else "taken"
    stopped = f"the longest stop of one seen was {done.longest_stop * 1000:.1f} ms"
    return to_evidence(
        ActionFact(action=ACTION, outcome=outcome, seconds=done.longest_stop),
        id=f"{ACTION}-{incarnation.pid}-{int(time.monotonic() * 1000)}",
        source=f"{TOOL} -p {incarnation.pid}",
        text=f"snapshot {outcome}: {threads} threads in {done.seconds:.3f} s, {stopped}",
        trust=Trust.SUPERVISOR,
        wall=time.time(),
        mono=time.monotonic(),
        incarnation=incarnation,
    )


def _gaps(pid: int, done: Traced, *, found: bool) -> tuple[Gap, ...]:
    if done.cut_off:
        return (_gap(pid, f"{TOOL} was ended at its {done.cut_off} bound"),)
    if found:
        return ()
    if "not permitted" in done.complaint.lower() or "permission denied" in done.complaint.lower():
        return (_not_permitted(pid),)
    return (_gap(pid, f"{TOOL} gave no frames (status {done.status})"),)


def _not_permitted(pid: int) -> Gap:
    try:
        scope = _YAMA.read_text().strip()
    except OSError:
        scope = ""
    own = "it belongs to another user, runs set-uid or hides itself: root or CAP_SYS_PTRACE is needed"
    return _gap(pid, _SCOPES.get(scope, own))


def _gap(pid: int, why: str) -> Gap:
    return Gap(what="stacks of the live process", why=why, command=f"sudo {TOOL} -p {pid}")
