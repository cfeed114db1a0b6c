"""Rules for a process that lives and gets nowhere: held from outside, aborting, stuck in its loop or its GPU.

Nothing here is concluded from one look alone that a slow machine could show as well; what is missing is asked
for. A loop is called stuck only with somebody waiting for it.
"""

from __future__ import annotations

from dataclasses import replace

from analyzers.verdict.asks import LOOK_ASK, SNAPSHOT_ASK
from analyzers.verdict.case import Case, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.watch import BUSY_SHARE, DISK_SLEEP, IDLE_SHARE, STOPPED, Watch, unanswered

# A healthy loop that uses no CPU stands in its own wait, for a second at most; inside a task it computes.
# Five seconds are beyond a page fault to a slow disk and beyond the pause of a machine that swaps.
STILL_SECONDS = 5.0
# One batch on a slow device takes seconds (2,048 tokens of a large model partly on the CPU: up to ten).
GPU_STILL_SECONDS = 15.0
# A loop that burns CPU outside a decode: a large grammar takes seconds a token, not half a minute.
SPIN_SECONDS = 30.0
DEBUGGERS = ("gdb", "lldb", "lldb-server", "lldb-mi")  # what ggml_print_backtrace starts (ggml.c)
FATAL = ("ggml-assert", "ggml-abort", "wake-reload", "exception", "terminate", "cuda", "gpu-oom")
COUNTERS = Ask(
    "the counters of a second moment",
    "batches worked off between two readings are progress, whatever it looks like from outside",
    "curl -sm 5 http://HOST:PORT/metrics | grep -E 'n_decode|processing'; sleep 10; (again)",
)


def lives(case: Case, ending: Ending) -> bool:
    """The process was seen alive and no end of it is known."""
    return ending.alive and not ending.known


def aborting(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The process has failed and waits for the debugger that prints its backtrace."""
    last = case.looks[-1].fact if case.looks else None
    if not lives(case, ending) or (last is not None and last.dumping):
        return None
    # The debugger lets go before the server ends: a look at any moment of it tells as much as the last one.
    traced = [seen for seen in case.looks if seen.fact.tracer_is_child and seen.fact.tracer in DEBUGGERS]
    own_tracer = bool(traced)
    helper = own_tracer or (last is not None and any(child in DEBUGGERS for child in last.children))
    printing = [r for r in case.readings if r.stack.live and (r.aborts or r.exception)]
    texts = [s for s in case.aborts if not s.forgeable and s.fact.shape in FATAL]
    if not (own_tracer or printing or (helper and texts)):
        return None
    signs = sum(map(bool, (own_tracer, printing, texts, helper)))
    said = next((seen.fact.message for seen in texts if seen.fact.message), None)
    return Finding(
        "HANG-ABORTING",
        "server",
        story.phase,
        "proven" if own_tracer and texts else "strong" if signs > 1 else "weak",
        "The server has already failed and is busy printing its own backtrace; it will end by itself.",
        reasons=tuple(
            filter(
                None,
                (
                    "a debugger that the server itself started traced it" if own_tracer else "",
                    "a debugger runs as its child" if helper and not own_tracer else "",
                    "a thread waits inside the abort routine" if printing else "",
                    f"the server printed: {said}"
                    if said
                    else "its abort text is in the log"
                    if texts
                    else "",
                ),
            )
        ),
        witnesses=(*ids_of(traced[-1:] or case.looks[-1:], texts), *(r.id for r in printing)),
    )


def held(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """Stopped by a signal or a debugger, or already dying: it answers nothing, and it does not hang."""
    last = case.looks[-1].fact if case.looks else None
    if last is None or not lives(case, ending):
        return None
    steps: Steps
    pid = str(case.looks[-1].evidence.incarnation.pid or "PID")
    if last.dumping:
        what, how, steps = "It is dying: the kernel is writing its core.", CORE_WAIT, DYING_STEPS
    elif last.tracer and not last.tracer_is_child and last.state in ("t", STOPPED):
        what, how, steps = f"It is held by {last.tracer}, which somebody attached.", TRACER, TRACED_STEPS
    elif last.state == STOPPED:
        what, how, steps = "It is stopped by a signal and runs nothing.", CONTINUE, STOPPED_STEPS
    else:
        return None
    return Finding(
        "UNDETERMINED",
        "unknown",
        story.phase,
        "undetermined",
        f"{what} That says nothing about the server itself.",
        reasons=("the kernel's own state of the process says so; a process held like that answers nothing",),
        witnesses=ids_of(case.looks[-1:]),
        asks=(replace(how, command=_of(pid, how.command)),),
        steps=tuple((text, _of(pid, command)) for text, command in steps),
    )


def _of(pid: str, command: str | None) -> str | None:
    return command.replace("PID", pid) if command is not None else None


Steps = tuple[tuple[str, str | None], ...]
AGAIN = "llama-blackbox collect --live --pid PID"
DYING_STEPS: Steps = (("Wait until the process is gone, then give its core to triage.", "coredumpctl list"),)
TRACED_STEPS: Steps = (
    (
        "Ask whoever attached the debugger to let it go, and look again.",
        "ps -o pid,user,args -p $(awk '/TracerPid/{print $2}' /proc/PID/status)",
    ),
    ("When it runs and still hangs: look at it while it does.", AGAIN),
)
STOPPED_STEPS: Steps = (
    ("Let it run on; nothing of it is lost, and waiting requests go on.", "kill -CONT PID"),
    (
        "Find out who stopped it, or it happens again: Ctrl-Z in a shell that started it, a debugger or "
        "profiler that left it so, a script that sends SIGSTOP, docker pause or a frozen cgroup beside it.",
        "ps -o pid,ppid,tty,stat,lstart,args -p PID; grep -h . /proc/PID/cgroup",
    ),
    ("When it runs and still hangs: look at it while it does.", AGAIN),
)
CORE_WAIT = Ask(
    "the core", "the process is being written down; it is whole when the process is gone", "coredumpctl list"
)
TRACER = Ask(
    "a look without the debugger", "whoever attached it holds every thread", "grep TracerPid /proc/PID/status"
)
CONTINUE = Ask(
    "a look after it runs again", "SIGSTOP or job control stopped it; nothing of it is lost", "kill -CONT PID"
)


def gpu_stuck(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The loop waits for the GPU, in two snapshots with nothing worked off between them."""
    watch = Watch(case)
    if not lives(case, ending) or not watch.in_gpu_wait or watch.decodes or watch.streams:
        return None
    faults = [seen for seen in case.kernel if seen.fact.shape == "gpu-fault"]
    twice = watch.loop_in_same_task and watch.loop_span >= GPU_STILL_SECONDS
    sure = bool(watch.waiting) and (twice or bool(faults))
    return Finding(
        "HANG-GPU",
        "gpu",
        _loop_phase(watch, story),
        "strong" if sure else "weak",
        "The queue loop waits for the GPU, and the GPU does not finish.",
        reasons=(
            f"the loop stands in {watch.loop_place}, a wait of the GPU runtime"
            + (f", in two snapshots {watch.loop_span:.0f} s apart" if len(watch.loops) > 1 else ""),
            "the driver reports a fault of the device" if faults else _waiters(watch),
        ),
        witnesses=(*watch.look_ids, *ids_of(faults), *watch.waiting),
        asks=() if sure else (SNAPSHOT_ASK, COUNTERS),
    )


def loop_stuck(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The loop is inside a task, somebody waits, and nothing moves: blocked, or turning in a circle."""
    watch = Watch(case)
    if not lives(case, ending) or not watch.loop_at_work or not watch.loop_in_same_task:
        return None
    share = watch.loop_cpu_share
    if watch.decodes or watch.streams or watch.bytes_moved or not watch.waiting or share is None:
        return None
    if _is_blocked(watch):
        return _blocked(watch, story)
    if watch.remote and min(watch.span, watch.loop_span) >= SPIN_SECONDS:
        return _remote(watch, story)
    circling = share >= BUSY_SHARE and min(watch.span, watch.loop_span) >= SPIN_SECONDS
    return _circling(watch, story) if circling and not (watch.computing or watch.compiling) else None


def _is_blocked(watch: Watch) -> bool:
    """No CPU time at one place for long; not while worker threads or another machine compute for the loop."""
    helped = watch.remote or (watch.computing and (watch.cpu_share or 0.0) >= BUSY_SHARE)
    still = watch.loop_stood and (watch.loop_cpu_share or 0.0) <= IDLE_SHARE
    return still and not helped and min(watch.span, watch.loop_span) >= STILL_SECONDS


def _remote(watch: Watch, story: SleepStory) -> Finding:
    return Finding(
        "HANG-LOOP",
        "host",
        _loop_phase(watch, story),
        "weak",
        "The queue loop waits for another machine that computes for it, and nothing comes back.",
        reasons=(
            f"the loop waits in {watch.loop_place} in two snapshots {watch.loop_span:.0f} s apart",
            "a very slow machine at the other end looks alike: look there",
        ),
        witnesses=(*watch.look_ids, *watch.waiting),
        asks=(LOOK_ASK,),
    )


def _blocked(watch: Watch, story: SleepStory) -> Finding:
    disk = watch.loop_state == DISK_SLEEP
    used = (watch.loop_cpu_share or 0.0) * watch.span
    return Finding(
        "HANG-LOOP",
        "host" if disk else "unknown",
        _loop_phase(watch, story),
        "strong",
        "The queue loop is blocked inside one task; everything behind it waits.",
        reasons=(
            f"the loop stood in {watch.loop_place} in two snapshots {watch.loop_span:.0f} s apart",
            f"its thread used {used:.2f} s of CPU in {watch.span:.0f} s",
            "the kernel holds it in a wait for storage" if disk else _waiters(watch),
        ),
        witnesses=(*watch.look_ids, *watch.waiting),
    )


def _circling(watch: Watch, story: SleepStory) -> Finding:
    return Finding(
        "HANG-LOOP",
        "request" if watch.in_grammar else "unknown",
        _loop_phase(watch, story),
        "weak",
        "The queue loop computes without end outside any batch; everything behind it waits.",
        reasons=(
            f"the loop computed in {watch.loop_place} in two snapshots {watch.loop_span:.0f} s apart",
            "no batch was worked off between them" if watch.decodes == 0 else _waiters(watch),
            "a very slow step of one task looks alike; a third look much later tells them apart",
        ),
        witnesses=(*watch.look_ids, *watch.waiting),
        asks=(LOOK_ASK,),
    )


def _waiters(watch: Watch) -> str:
    silent = [s for s in watch.case.probes if s.fact.route != "/health" and unanswered(s.fact)]
    if silent:
        return f"{silent[-1].fact.route} got no answer: it waits for the loop as well"
    return "a client or another thread waits for its result"


def _loop_phase(watch: Watch, story: SleepStory) -> str:
    phases = watch.loops[-1][1].phases() if watch.loops else frozenset()
    one = next(iter(phases)) if len(phases) == 1 else story.phase
    return "awake" if one == "just-woken" else one
