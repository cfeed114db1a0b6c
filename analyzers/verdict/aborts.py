"""Rules for a process that ended itself: assertion, abort by design, exception, failed reload."""

from __future__ import annotations

import signal

from analyzers.contracts.facts import AbortFact, KernelFact
from analyzers.verdict.case import Case, Seen, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.sleep import SleepStory

SIGABRT, SIGSEGV = int(signal.SIGABRT), int(signal.SIGSEGV)
# Most specific first: a wake reload prints its own text and then dies like any abort.
D8_TEXTS = (("max_blocks_per_sm > 0",), ("invalid argument", "MUL_MAT"))
OVERTAKEN_LINES = 2  # one task's launch and end can still be queued when the text is written
ORDER = ("wake-reload", "gpu-oom", "cuda", "ggml-assert", "exception", "ggml-abort", "terminate", "alloc")
RETRIED = ("gpu-oom", "alloc")  # a load that fails for room is tried again with smaller buffers
FATAL_TEXTS = ("wake-reload", "ggml-assert", "ggml-abort", "exception", "terminate")
CLASS_OF = {
    "gpu-oom": ("GPU-OOM", "gpu"),
    "cuda": ("GPU-RUNTIME", "gpu"),
    "ggml-assert": ("ABRT-ASSERT", "server"),
    "ggml-abort": ("ABRT-ABORT", "server"),
    "exception": ("ABRT-EXCEPTION", "server"),
    "terminate": ("ABRT-EXCEPTION", "server"),
    "alloc": ("ABRT-EXCEPTION", "memory"),
}
NO_MEMORY = "std::bad_alloc"
TEXT_ASK = Ask(
    "the last lines the server printed",
    "an assertion and an abort by design look the same in a stack; the text tells them apart",
    "journalctl -u UNIT -n 200 -o export > server.export",
)
UNOPENED = "failed to open GGUF file"
FILE_TROUBLE = ("missing", "replaced", "cut", "unreadable")


def pid_one(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """abort() as a container's first process faults on the hlt inside libc and exits 139.

    A kernel line seen inside the container names PID 1; the host's log names another thread id, and then
    only the server's own text tells an abort from a wild pointer inside libc (see ``_as_pid_one``).
    """
    for seen in case.kernel:
        if _gpf_in_libc(seen.fact) and seen.fact.tid == 1:
            return Finding(
                "ABRT-PID1",
                "server",
                story.phase,
                "strong",
                "The server called abort as its container's first process; exit 139 here is no wild pointer.",
                reasons=("a general protection fault inside libc in PID 1 is abort's last resort",),
                witnesses=(seen.id, *ending.witnesses),
                asks=(TEXT_ASK,),
            )
    return None


def _gpf_in_libc(fact: KernelFact) -> bool:
    return fact.shape == "gpf" and "libc" in (fact.object or "")


def _as_pid_one(case: Case, ending: Ending) -> bool:
    """SIGSEGV that fits an abort in PID 1: no core, and no kernel line but a protection fault in libc."""
    faults = [seen.fact for seen in case.kernel if seen.fact.shape in ("segfault", "gpf")]
    return ending.signal == SIGSEGV and not case.cores and all(_gpf_in_libc(fact) for fact in faults)


def shutdown(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """An abort after a stop was asked for."""
    if ending.signal != SIGABRT or not (ending.requested or story.stop):
        return None
    stop = (story.stop.id,) if story.stop else ()
    return Finding(
        "SHUTDOWN-ABORT",
        "supervisor",
        "stopping",
        "strong",
        "The server was told to stop and aborted on its way out; no request was lost to it.",
        reasons=("a stop was asked for before the abort",),
        witnesses=(*ending.witnesses, *stop),
    )


def aborted(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The server printed why it ends, or its stack shows that it ended itself."""
    if ending.alive or ending.code == 0 or ending.supervisor == "watchdog":
        return None
    text = _last_words(case)
    if text is not None and text.fact.shape == "alloc" and ending.signal is None:
        return None  # a failed allocation is an error to the server, which exits or tries again
    printed = _printed_its_abort(case)
    fatal = printed or (text is not None and text.fact.shape in FATAL_TEXTS)
    first_process = fatal and _as_pid_one(case, ending)
    if ending.signal not in (None, SIGABRT) and not first_process:
        return None
    if text is not None:
        make = _wake_reload if text.fact.shape == "wake-reload" else _plain
        return make(case, ending, story, text)
    return _from_stack(case, ending, story) if ending.signal == SIGABRT or printed else None


def _printed_its_abort(case: Case) -> bool:
    """The process printed the stack of its own abort; a debugger that somebody ran is no sign of one."""
    crash = case.crash
    own = crash is not None and crash.stack.rung == "self-trace" and not crash.forgeable
    return crash is not None and own and (crash.aborts or crash.exception)


def _last_words(case: Case) -> Seen[AbortFact] | None:
    """The most telling of the texts that the server did not outlive."""
    trusted = [seen for seen in case.aborts if not seen.forgeable and seen.fact.shape in ORDER]
    final = [seen for seen in trusted if not _outlived(case, seen)]
    return min(final, key=lambda seen: ORDER.index(seen.fact.shape), default=None)


def _outlived(case: Case, text: Seen[AbortFact]) -> bool:
    """Work went on after it. Abort text overtakes queued log lines, so one task more does not count."""
    at = case.position(text.id)
    if text.fact.shape in RETRIED and any(case.position(s.id) > at for s in case.events("listening")):
        return True
    later = [seen for seen in case.events("task-launched", "task-done") if case.position(seen.id) > at]
    return len(later) > OVERTAKEN_LINES


def _plain(case: Case, ending: Ending, story: SleepStory, text: Seen[AbortFact]) -> Finding:
    class_, cause = CLASS_OF[text.fact.shape]
    cause = "memory" if NO_MEMORY in (text.fact.message, _said(case, text)) else cause
    crash = case.crash
    lost = _lost_cuda_state(story, text)
    return Finding(
        class_,
        "wake" if lost else cause,
        "first-request-after-wake" if lost else _phase(case, story),
        "strong" if ending.signal is not None else "weak",
        _SUMMARIES[class_],
        "D8" if lost else None,
        handler=crash.handler if crash else None,
        reasons=(
            f"the server itself printed: {_said(case, text)}",
            "it is the first work after a wake, and this text is what lost CUDA state gives"
            if lost
            else _sleep_remark(story),
        ),
        witnesses=(text.id, *ending.witnesses, *((crash.id,) if crash else ())),
    )


def _lost_cuda_state(story: SleepStory, text: Seen[AbortFact]) -> bool:
    """D8's texts have twins without sleep: a wake just before, in the same process, is demanded."""
    said = text.fact.message or ""
    awakened = story.slept and (story.just_woken or story.tasks_after_wake == 1)
    return awakened and any(all(part in said for part in parts) for parts in D8_TEXTS)


def _said(case: Case, text: Seen[AbortFact]) -> str:
    """The text's own words; the line before it names the exception whose what() is client text."""
    facts = [text.fact, *(seen.fact for seen in case.aborts if not seen.forgeable)]
    words = (word for fact in facts for word in (fact.message, fact.exception))
    return next((word for word in words if word), text.fact.shape)


_SUMMARIES = {
    "GPU-OOM": "Device memory ran out, and that ended the server.",
    "GPU-RUNTIME": "A GPU runtime call failed and the server aborted.",
    "ABRT-ASSERT": "A check inside ggml failed and the server aborted.",
    "ABRT-ABORT": "The server aborted by design.",
    "ABRT-EXCEPTION": "An exception that nobody caught ended the server.",
}


def _wake_reload(case: Case, ending: Ending, story: SleepStory, text: Seen[AbortFact] | None) -> Finding:
    files = [seen for seen in case.model_files if seen.fact.state in FILE_TROUBLE]
    alloc = [seen for seen in case.aborts if seen.fact.shape in ("gpu-oom", "alloc")]
    failed = [seen for seen in case.events("load-failed") if not seen.forgeable]
    unopened = [seen for seen in failed if UNOPENED in seen.evidence.text]
    cause = "model-file" if files or unopened else "memory" if alloc else "wake"
    why = {
        "model-file": f"the model file is {files[0].fact.state}" if files else "the file could not be opened",
        "memory": "an allocation failed during the reload",
        "wake": "nothing here says why the reload failed",
    }[cause]
    witnesses = ids_of(files, alloc, failed)
    return Finding(
        "ABRT-WAKE-RELOAD",
        cause,
        "waking",
        "strong" if text else "weak",
        "The server woke, could not load its model again, and aborted by design.",
        "D7",
        reasons=(
            "the server printed that it failed to reload the model after sleeping"
            if text
            else "the queue loop aborted inside the wake callback",
            why,
        ),
        witnesses=tuple(
            dict.fromkeys((*((text.id,) if text else ()), *ending.witnesses, *witnesses, *story.witnesses))
        ),
        asks=()
        if files or unopened or alloc
        else (
            Ask(
                "the state of the model file and of memory at the wake",
                "it decides between a file and a memory cause",
                "ls -l MODEL.gguf; free -m",
            ),
        ),
    )


def _from_stack(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    crash = case.crash
    if crash is None:
        return Finding(
            "ABRT-ABORT",
            "unknown",
            _phase(case, story),
            "weak",
            "The process called abort; its text is missing.",
            reasons=("the process ended by SIGABRT", _sleep_remark(story)),
            witnesses=ending.witnesses,
            asks=(TEXT_ASK,),
        )
    if crash.aborts and crash.reloading:
        return _wake_reload(case, ending, story, None)
    class_ = "ABRT-EXCEPTION" if crash.exception else "ABRT-ABORT"
    return Finding(
        class_,
        "server",
        _phase(case, story),
        "strong" if crash.exception else "weak",
        _SUMMARIES[class_],
        handler=crash.handler,
        reasons=("the stack shows how the process ended itself", _sleep_remark(story)),
        witnesses=(crash.id, *ending.witnesses),
        asks=(TEXT_ASK,),
    )


def _phase(case: Case, story: SleepStory) -> str:
    loop = case.loop
    if loop is not None and loop.fact.phase != "just-woken":
        return loop.fact.phase
    return story.phase


def _sleep_remark(story: SleepStory) -> str:
    if story.slept:
        return "this process had slept before, but nothing here ties the abort to it"
    return "no sleep transition of this process is in the evidence"
