"""Rules for ends that sleep does not explain: faults, kills, exits."""

from __future__ import annotations

import signal

from analyzers.verdict.asks import CORE_ASK, LOG_ASK
from analyzers.verdict.case import Case, ids_of
from analyzers.verdict.ending import HOST_SHAPES, STOP_SIGNALS, Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.own import sleep_off
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.stale import FITS_D1, fits_stale

SIGSEGV, SIGBUS = int(signal.SIGSEGV), int(signal.SIGBUS)
SIGKILL, SIGABRT = int(signal.SIGKILL), int(signal.SIGABRT)
SIGILL, SIGFPE = int(signal.SIGILL), int(signal.SIGFPE)
MODEL_GONE = ("unloading", "asleep", "waking")
GPU_WINDOW_S = 30.0  # a driver's report this close to the death outranks the application's own text
EXIT_ASK = Ask(
    "how the process ended",
    "a memory fault prints nothing, so a log alone cannot tell a crash from a kill or a healthy server",
    "systemctl show UNIT -p Result,ExecMainCode,ExecMainStatus; journalctl -k | grep -E 'segfault|traps|oom'",
)


SENDER_ASK = Ask(
    "who sent it",
    "a core does not hold the sender's name",
    "journalctl --since '-1 hour' | grep -Ei 'kill|signal|watchdog'",
)


def gpu_fault(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A driver's own report within half a minute of a death that nobody asked for."""
    reports = [seen for seen in case.kernel if seen.fact.shape == "gpu-fault"]
    if not reports or not (ending.known or case.aborts) or ending.requested or ending.code == 0:
        return None
    deaths = _death_times(case)
    near = [r for r in reports if any(_within(r.evidence.mono, at) for at in deaths)]
    if deaths and not near:
        return None
    return Finding(
        "GPU-FAULT",
        "gpu",
        story.phase,
        "strong" if near else "weak",
        "The GPU driver reported a fault next to the server's end.",
        reasons=(
            "the driver's own line outranks what the application printed afterwards"
            if near
            else "nothing here says when the server died, so the driver's line may be of another moment",
        ),
        witnesses=((near or reports)[0].id, *ending.witnesses),
        asks=() if near else (EXIT_ASK,),
    )


def _death_times(case: Case) -> list[float]:
    no_end = ("gpu-fault", *HOST_SHAPES)
    lines = [seen.evidence.mono for seen in case.kernel if seen.fact.shape not in no_end]
    stamps = [*lines, *(seen.evidence.mono for seen in case.exits)]
    return [stamp for stamp in stamps if stamp is not None]


def _within(report: float | None, death: float) -> bool:
    return report is not None and abs(report - death) <= GPU_WINDOW_S


def sent(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A fault's signal that a process sent: nothing faulted."""
    if not ending.sent or ending.signal is None:
        return None
    name = signal.Signals(ending.signal).name
    return Finding(
        "KILLED",
        "unknown",
        _phase(case, story),
        "strong",
        f"Something sent {name} to the process; nothing in it faulted.",
        reasons=("the kernel's own record says that the signal was sent by a process (si_code)",),
        witnesses=ending.witnesses,
        asks=(SENDER_ASK,),
    )


def stack_overflow(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A stack overflow on a server that was awake, or whose recursion is not over the model."""
    overflow = case.overflowed
    crash = case.crash
    deep = crash is not None and bool(crash.recursion)
    if ending.signal != SIGSEGV or not (overflow or deep):
        return None
    request = crash is not None and crash.handler is not None and deep
    reasons = [
        "the fault lies just below the thread's stack pointer"
        if overflow
        else "one function calls itself without end"
    ]
    if crash is not None and crash.recursion:
        reasons.append(f"{crash.recursion} stands {crash.depth:,} times on the stack")
    freed = _reader_without_model(case)
    reasons.append(
        "but it reads the model while the loop has none, and the request that ran is not on what is left of "
        "the stack: a use after unloading fits as well"
        if freed
        else _not_sleep(case, story)
    )
    asks = [] if crash is not None and case.loop else [CORE_ASK]
    asks += [] if case.log else [LOG_ASK]
    return Finding(
        "SEGV-STACK",
        "request" if request else "unknown",
        _phase(case, story),
        "strong" if deep and (case.loop or story.started) and not freed else "weak",
        "A thread ran out of stack" + (" on the content of a request." if request else "."),
        handler=crash.handler if crash else None,
        reasons=tuple(reasons),
        witnesses=(*ending.witnesses, *((crash.id,) if crash else ())),
        asks=tuple(asks),
    )


def _reader_without_model(case: Case) -> bool:
    """A reader of the model recurses, with no handler in sight, while the model is gone or on its way."""
    crash, loop = case.crash, case.loop
    if crash is None or loop is None or crash.handler is not None or crash.recursion_reads != "model":
        return False
    return loop.fact.sleeping is True or loop.fact.phase in MODEL_GONE


STORAGE_FAILED = "A mapped file could not be read, and the kernel reports errors of the storage."


def bus_error(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """SIGBUS: a mapping whose file shrank."""
    if ending.signal != SIGBUS:
        return None
    cut = [seen for seen in case.model_files if seen.fact.state in ("cut", "replaced", "missing")]
    mapped = [s for s in case.cores if (s.fact.fault_file or "").endswith(".gguf")]
    storage = [seen for seen in case.kernel if seen.fact.shape == "storage-error"]
    known = bool(cut or mapped)
    reasons = ["the process ended by SIGBUS: memory that a file backs could not be read"]
    if mapped:
        reasons.append("the fault address lies inside the mapping of the model file")
    if storage:
        reasons.append("the kernel reports errors of the storage; it may be what lies under the mapping")
    if cut:
        reasons.append(f"the model file is {cut[0].fact.state}")
    return Finding(
        "BUS",
        "host" if storage and not cut else "model-file" if known else "unknown",
        _phase(case, story),
        "strong" if known else "weak",
        STORAGE_FAILED
        if storage and not cut
        else "The model file changed while the server had it mapped."
        if known
        else "A mapped file could not be read.",
        handler=case.crash.handler if case.crash else None,
        reasons=tuple(reasons),
        witnesses=(*ending.witnesses, *ids_of(cut, mapped, storage)),
        asks=()
        if known
        else (
            Ask(
                "the model file's size and time against those at load",
                "a file cut under a mapping gives SIGBUS",
                "ls -l --time-style=full-iso MODEL.gguf",
            ),
        ),
    )


_SIMPLE = {
    SIGILL: ("ILL", "host", "The server ran an instruction that this CPU does not have."),
    SIGFPE: ("FPE", "server", "An arithmetic fault ended the server."),
    SIGSEGV: ("SEGV", "unknown", "A memory fault that nothing here ties to a sleep transition."),
}


def simple_fault(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """SIGILL, SIGFPE and what is left of SIGSEGV."""
    if ending.signal not in _SIMPLE:
        return None
    class_, cause, summary = _SIMPLE[ending.signal]
    crash = case.crash
    sure = class_ == "FPE" and crash is not None
    if class_ == "ILL":
        sure = any(s.fact.shape == "invalid-opcode" for s in case.kernel) and not (crash and crash.aborts)
        cause, summary = (cause, summary) if sure else ("unknown", "An illegal instruction ended the server.")
    asks = [] if crash else [CORE_ASK]
    asks += [] if case.log else [LOG_ASK]
    reasons = [f"the process ended by {signal.Signals(ending.signal).name}"]
    suspect = "D1" if class_ == "SEGV" and fits_stale(case, story) else None
    if suspect:
        summary = FITS_D1
    if class_ == "SEGV":
        reasons.append(_not_sleep(case, story))
    return Finding(
        class_,
        cause,
        _phase(case, story),
        "strong" if sure else "weak",
        summary,
        handler=crash.handler if crash else None,
        reasons=tuple(reasons),
        witnesses=(*ending.witnesses, *((crash.id,) if crash else ())),
        asks=tuple(asks),
        suspect=suspect,
    )


def killed(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """SIGKILL: memory, supervisor, or somebody else."""
    by_supervisor = ending.signal == SIGABRT and ending.supervisor == "watchdog"
    if ending.signal != SIGKILL and not by_supervisor:
        return None
    if ending.oom and not by_supervisor:
        class_, cause, summary = "HOST-OOM", "memory", "The kernel killed the server because memory ran out."
    elif ending.supervisor:
        class_, cause, summary = (
            "KILLED-BY-SUPERVISOR",
            "supervisor",
            f"The supervisor killed the server ({ending.supervisor}).",
        )
    else:
        class_, cause, summary = "KILLED", "unknown", "Something sent SIGKILL to the server."
    sure = class_ != "KILLED"
    return Finding(
        class_,
        cause,
        _phase(case, story),
        "strong" if sure and not _strays(case) else "weak",
        summary,
        reasons=(f"the process ended by {signal.Signals(ending.signal or SIGKILL).name}",),
        witnesses=ending.witnesses,
        asks=()
        if sure
        else (
            Ask(
                "the kernel log around that time",
                "an out-of-memory kill looks like any SIGKILL",
                "journalctl -k | grep -i oom",
            ),
        ),
    )


def _strays(case: Case) -> bool:
    """The kernel line stands beside a log that names no process: another one of that name may have died."""
    if not case.kernel or not case.log or case.exits or case.cores:
        return False
    return all(seen.evidence.incarnation.pid is None for seen in case.log)


def planned(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A stop that was asked for, or a clean exit."""
    asked = ending.signal in STOP_SIGNALS or ending.requested or story.stop is not None
    clean = ending.code == 0 and ending.signal is None
    silent = ending.signal is None and ending.code is None and story.stop is not None and not ending.alive
    if not (
        (asked and ending.signal in (None, *STOP_SIGNALS) and ending.code in (None, 0, 130, 143)) or clean
    ):
        return None
    if not (ending.known or silent):
        return None
    stop = (story.stop.id,) if story.stop else ()
    return Finding(
        "NO-FAULT",
        "supervisor",
        "stopping",
        "strong" if ending.known else "weak",
        "The server was told to stop" + (" and stopped." if ending.known else "; its log ends there."),
        reasons=("the end was asked for" if asked else "the process exited by itself with status 0",),
        witnesses=(*ending.witnesses, *stop),
        asks=() if ending.known else (EXIT_ASK,),
    )


START_CAUSES = {
    "load-failed": ("model-file", "the model could not be loaded"),
    "bind-failed": ("configuration", "the server could not listen on its port"),
    "context-failed": ("memory", "the context could not be made"),
    "bad-argument": ("configuration", "an argument was refused"),
}


GAVE_UP = "exiting due to"  # what the server prints right before it returns its error status


def exit_error(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """An error status, before or after the server was ready; or its own word that it leaves before that."""
    failed = [seen for seen in case.events(*START_CAUSES) if not seen.forgeable]
    said = any(GAVE_UP in seen.evidence.text for seen in failed) and not (story.started or ending.alive)
    if ending.signal is not None or ending.code == 0 or (ending.code is None and not said):
        return None
    cause, why = START_CAUSES[failed[0].fact.event] if failed else ("unknown", "")
    room = [seen for seen in case.aborts if seen.fact.shape == "alloc" and not seen.forgeable]
    if room and cause == "model-file":
        cause, why = "memory", "the memory for the model could not be had"
    start = not story.started or cause == "configuration"
    return Finding(
        "START-FAIL" if start else "EXIT-ERROR",
        cause,
        "loading" if start else story.phase,
        "strong" if (start and failed and ending.code is not None) else "weak",
        "The server never became ready." if start else "The server ended itself with an error status.",
        reasons=(
            f"exit status {ending.code}" if ending.code is not None else "the server printed that it exits",
            why or ("the log shows no listening line" if start else "the server had been ready"),
        ),
        witnesses=(*ending.witnesses, *ids_of(failed, room)),
        asks=() if failed else (LOG_ASK,),
    )


def _phase(case: Case, story: SleepStory) -> str:
    loop = case.loop
    if loop is not None and loop.fact.phase != "unknown":
        return "awake" if loop.fact.phase == "just-woken" else loop.fact.phase
    return story.phase


def _not_sleep(case: Case, story: SleepStory) -> str:
    crash = case.crash
    if crash is not None and crash.regex:
        return (
            "the frames are the regex splitter's: the request's own text, not the model, drives the recursion"
        )
    reading = crash is not None and crash.reads_model_under_handler
    if sleep_off(case) is not None:
        return "this process was started with sleep off, so no sleep and no wake is to blame"
    if not story.slept and reading and crash is not None and crash.stale_signature:
        return "it fits D1 if this process had slept and just woken; without a sign of sleep none is blamed"
    if case.loop and case.loop.fact.phase == "awake":
        return "the queue loop was awake in the same core, so no unload was under way"
    if not story.slept:
        return "no sleep transition of this process is in the evidence, so sleep is not blamed"
    if reading:
        return "the server had worked on since its last sleep, so that sleep is not blamed"
    return "no request was seen reading the model at the fault, so sleep is not blamed"
