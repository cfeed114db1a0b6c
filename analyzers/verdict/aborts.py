"""Rules for a process that ended itself: assertion, abort by design, exception, failed reload."""

from __future__ import annotations

import signal

from analyzers.contracts.facts import AbortFact
from analyzers.verdict.case import Case, Seen, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.sleep import SleepStory

SIGABRT = int(signal.SIGABRT)
# Most specific first: a wake reload prints its own text and then dies like any abort.
ORDER = ("wake-reload", "gpu-oom", "cuda", "ggml-assert", "exception", "ggml-abort", "terminate", "alloc")
CLASS_OF = {
    "gpu-oom": ("GPU-OOM", "gpu"),
    "cuda": ("GPU-RUNTIME", "gpu"),
    "ggml-assert": ("ABRT-ASSERT", "server"),
    "ggml-abort": ("ABRT-ABORT", "server"),
    "exception": ("ABRT-EXCEPTION", "server"),
    "terminate": ("ABRT-EXCEPTION", "server"),
    "alloc": ("ABRT-EXCEPTION", "memory"),
}
TEXT_ASK = Ask(
    "the last lines the server printed",
    "an assertion and an abort by design look the same in a stack; the text tells them apart",
    "journalctl -u UNIT -n 200 -o export > server.export",
)
FILE_TROUBLE = ("missing", "replaced", "cut", "unreadable")


def pid_one(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """abort() as a container's first process faults on the hlt inside libc and exits 139."""
    for seen in case.kernel:
        fact = seen.fact
        if fact.shape == "gpf" and fact.tid == 1 and "libc" in (fact.object or ""):
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
    if ending.alive or (ending.signal not in (None, SIGABRT)):
        return None
    text = _most_specific(case)
    if text is not None:
        return (
            _wake_reload(case, ending, story, text)
            if text.fact.shape == "wake-reload"
            else _plain(case, ending, story, text)
        )
    return _from_stack(case, ending, story) if ending.signal == SIGABRT else None


def _most_specific(case: Case) -> Seen[AbortFact] | None:
    trusted = [seen for seen in case.aborts if not seen.forgeable and seen.fact.shape in ORDER]
    return min(trusted, key=lambda seen: ORDER.index(seen.fact.shape), default=None)


def _plain(case: Case, ending: Ending, story: SleepStory, text: Seen[AbortFact]) -> Finding:
    class_, cause = CLASS_OF[text.fact.shape]
    crash = case.crash
    said = _said(case, text)
    phase = _phase(case, story)
    return Finding(
        class_,
        cause,
        phase,
        "strong" if ending.signal == SIGABRT else "weak",
        _SUMMARIES[class_],
        handler=crash.handler if crash else None,
        reasons=(f"the server itself printed: {said}", _sleep_remark(story)),
        witnesses=(text.id, *ending.witnesses, *((crash.id,) if crash else ())),
    )


def _said(case: Case, text: Seen[AbortFact]) -> str:
    """The text's own words; the line before it names the exception whose what() is client text."""
    facts = [text.fact, *(seen.fact for seen in case.aborts if not seen.forgeable)]
    words = (word for fact in facts for word in (fact.message, fact.exception))
    return next((word for word in words if word), text.fact.shape)


_SUMMARIES = {
    "GPU-OOM": "Device memory ran out and the server aborted.",
    "GPU-RUNTIME": "A GPU runtime call failed and the server aborted.",
    "ABRT-ASSERT": "A check inside ggml failed and the server aborted.",
    "ABRT-ABORT": "The server aborted by design.",
    "ABRT-EXCEPTION": "An exception that nobody caught ended the server.",
}


def _wake_reload(case: Case, ending: Ending, story: SleepStory, text: Seen[AbortFact] | None) -> Finding:
    files = [seen for seen in case.model_files if seen.fact.state in FILE_TROUBLE]
    alloc = [seen for seen in case.aborts if seen.fact.shape in ("gpu-oom", "alloc")]
    failed = [seen for seen in case.events("load-failed") if not seen.forgeable]
    cause = "model-file" if files else "memory" if alloc else "wake"
    why = {
        "model-file": f"the model file is {files[0].fact.state}" if files else "",
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
        if files or alloc
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
