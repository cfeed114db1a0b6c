"""Native stacks of a live server: all threads stopped at once for milliseconds, none of its code run.

Registers and stacks are copied in one stop and unwound after the server goes on, so that all frames are of
one moment. Elsewhere than on x86-64 eu-stack attaches to one thread after the other instead: the frames of
two threads are then some milliseconds apart.
"""

from __future__ import annotations

import errno
import os
import platform
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
from collector.actions.standstill import RefusedError, hold, unwind
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
_CAP_SYS_PTRACE = 19
Run = Callable[[list[str], Process, float], Traced]


@dataclass(frozen=True)
class Snapshot:
    """All threads' frames as evidence, then the action itself; ``gaps`` say why there are none.

    ``longest_stop`` is how long the thread that was stopped longest stood still, in seconds.
    """

    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    longest_stop: float = 0.0


def snapshot(pid: int, *, seconds: float = SNAPSHOT_SECONDS, run: Run | None = None) -> Snapshot:
    """Take the stacks of ``pid`` once, within ``seconds``. Never raises for what the process or tool does.

    Refuses its own process, one that is already traced (a second tracer cannot attach, and a debugger is
    not to be disturbed), one that is stopped, and one that dies. ``run``: eu-stack attached to the living
    process by it, as on machines other than x86-64.
    """
    if pid == os.getpid():
        return Snapshot(gaps=(_gap(pid, "a process cannot stop itself and look"),))
    tool = find_tool(TOOL)
    if tool is None:
        install = "apt-get install --no-install-recommends elfutils"
        return Snapshot(gaps=(Gap(what="stacks", why=f"{TOOL} is not installed", command=install),))
    try:
        with Process(pid) as process:
            why = _why_not(process)
            if why is not None:
                return Snapshot(gaps=(_gap(pid, why),))
            if run is None and platform.machine() == "x86_64":
                return _stand_still(process)
            return _take(process, tool, seconds, run or trace)
    except GoneError:
        return Snapshot(gaps=(Gap(what="stacks of the live process", why=f"process {pid} is gone"),))
    except PermissionError:
        return Snapshot(gaps=(_not_permitted(pid),))


def _why_not(process: Process) -> str | None:
    """Why this process is to be left alone."""
    tracer = process.tracer()
    if tracer:
        return f"process {tracer} traces it already"
    if process.state() in "TtZX":
        return "it is stopped or dead"
    if b"CoreDumping:\t1" in process.read("status"):
        return "it is dying, its core is being written"
    return None


def _stand_still(process: Process) -> Snapshot:
    incarnation = process.incarnation()
    try:
        held = hold(process.pid)
    except RefusedError as refused:
        return Snapshot(gaps=(_refused(process, refused.errno),))
    unwound = unwind(process, held)
    gaps = _missed(process.pid, held.missed)
    if not unwound.stacks:
        why = unwound.why or "no frames"
        return Snapshot(gaps=(*gaps, _gap(process.pid, why)), longest_stop=held.stop_seconds)
    stacks = [_named(stack, process) for stack in unwound.stacks]
    source = f"stop of process {process.pid}, unwound by {TOOL}"
    facts = [_stack_evidence(stack, incarnation, source) for stack in stacks]
    stopped = f"all stopped together for {held.stop_seconds * 1000:.1f} ms"
    text = f"snapshot taken: {len(stacks)} threads, {stopped}"
    action = _action_evidence("taken", held.stop_seconds, text, incarnation, source)
    return Snapshot((*facts, action), gaps, held.stop_seconds)


def _missed(pid: int, tids: tuple[int, ...]) -> tuple[Gap, ...]:
    if not tids:
        return ()
    named = ", ".join(str(tid) for tid in tids[:5])
    why = f"{len(tids)} threads did not stop in time ({named}): in a driver's call, perhaps"
    return (
        Gap(what="stacks of some threads", why=why, command=f"sudo cat /proc/{pid}/task/{tids[0]}/stack"),
    )


def _refused(process: Process, number: int) -> Gap:
    if number == errno.EPERM and process.tracer():
        return _gap(process.pid, f"process {process.tracer()} traces it already")
    if number in (errno.EPERM, errno.EACCES):
        return _not_permitted(process.pid)
    if number == errno.ESRCH:
        return Gap(what="stacks of the live process", why=f"process {process.pid} is gone")
    if number == errno.ENOSYS:
        return _gap(process.pid, "a seccomp filter forbids ptrace here (a container's default)")
    what = f"the kernel refuses to stop it ({os.strerror(number)})" if number else "the stop gave no answer"
    return _gap(process.pid, what)


def _take(process: Process, tool: str, seconds: float, run: Run) -> Snapshot:
    incarnation = process.incarnation()
    done = run([tool, "-n", str(_FRAMES), "-m", "-b", "-p", str(process.pid)], process, seconds)
    stacks = [_named(stack, process) for stack in parse_eu_stack(done.output, rung="live")]
    stacks = [stack for stack in stacks if stack.frames]
    gaps = _gaps(process.pid, done, found=bool(stacks))
    if not stacks:
        return Snapshot(gaps=gaps, longest_stop=done.longest_stop)
    source = f"{TOOL} -p {process.pid}"
    facts = [_stack_evidence(stack, incarnation, source) for stack in stacks]
    outcome = "cut-off" if done.cut_off else "taken"
    stopped = f"the longest stop of one seen was {done.longest_stop * 1000:.1f} ms"
    text = f"snapshot {outcome}: {len(stacks)} threads in {done.seconds:.3f} s, {stopped}"
    action = _action_evidence(outcome, done.longest_stop, text, incarnation, source)
    return Snapshot((*facts, action), gaps, done.longest_stop)


def _named(stack: StackFact, process: Process) -> StackFact:
    name = None
    with suppress(GoneError, PermissionError):
        raw = process.read(f"task/{stack.tid}/comm").decode("utf-8", "replace").rstrip("\n")
        name = "".join(char if char.isprintable() else "?" for char in raw)
    return replace(stack, name=name, live=True)


def _stack_evidence(stack: StackFact, incarnation: Incarnation, source: str) -> Evidence:
    top = next((frame.function for frame in stack.frames if frame.function), "no symbols")
    return to_evidence(
        stack,
        id=f"live-stack-{incarnation.pid}-{stack.tid}",
        source=source,
        text=f"thread {stack.tid} ({stack.name or 'unnamed'}): {len(stack.frames)} frames, in {top}",
        trust=Trust.KERNEL,
        wall=time.time(),
        mono=time.monotonic(),
        incarnation=incarnation,
    )


def _action_evidence(
    outcome: str, stopped: float, text: str, incarnation: Incarnation, source: str
) -> Evidence:
    return to_evidence(
        ActionFact(action=ACTION, outcome=outcome, seconds=stopped),
        id=f"{ACTION}-{incarnation.pid}-{int(time.monotonic() * 1000)}",
        source=source,
        text=text,
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
    """The setting, the missing right or the filter that is in the way, in one line."""
    try:
        scope = _YAMA.read_text().strip()
    except OSError:
        scope = ""
    if scope == "3" or (scope in _SCOPES and not _has_right()):
        return _gap(pid, _SCOPES[scope])
    if os.geteuid() == 0 and not _has_right():
        why = "this user is root without CAP_SYS_PTRACE, as in a container: docker run --cap-add SYS_PTRACE"
        return _gap(pid, why)
    if _has_right():
        return _gap(pid, "a seccomp filter, a security module or another user namespace forbids it")
    return _gap(
        pid, "it belongs to another user, runs set-uid or hides itself: root or CAP_SYS_PTRACE is needed"
    )


def _has_right() -> bool:
    """Whether this process has CAP_SYS_PTRACE."""
    try:
        rows = Path("/proc/self/status").read_text().splitlines()
        mask = next(row.split()[1] for row in rows if row.startswith("CapEff:"))
        return bool(int(mask, 16) >> _CAP_SYS_PTRACE & 1)
    except (OSError, StopIteration, ValueError):
        return False


def _gap(pid: int, why: str) -> Gap:
    return Gap(what="stacks of the live process", why=why, command=f"sudo {TOOL} -p {pid}")
