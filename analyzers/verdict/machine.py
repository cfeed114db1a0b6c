"""Rule for a server that ended or fell silent with its whole machine."""

from __future__ import annotations

import signal

from analyzers.contracts.evidence import Evidence
from analyzers.verdict.case import Case, ids_of
from analyzers.verdict.ending import KERNEL_SIGNALS, Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.plain import GPU_WINDOW_S
from analyzers.verdict.sleep import SleepStory

SIGBUS = int(signal.SIGBUS)
WINDOW_S = GPU_WINDOW_S  # like a driver's report: half a minute around the end
ENDS_ALL = ("panic", "lockup")
MEMORY = ("machine-check", "memory-corruption")
WORDS = {
    "panic": "the kernel panicked",
    "lockup": "the kernel reports a processor that hangs",
    "machine-check": "the processor reports a hardware error",
    "memory-corruption": "the kernel found broken memory in the process and killed it",
}
BOOT_ASK = Ask(
    "the end of the log of the boot in which the server ran",
    "a machine that loses power writes nothing; its last lines say what it can",
    "journalctl --list-boots; journalctl -k -b -1 -n 200",
)


def host_failed(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The machine rebooted, failed or was suspended under the server; no stop had been asked for."""
    if ending.requested or story.stop is not None or ending.code == 0:
        return None
    return _broken(case, ending, story) or _rebooted(case, ending, story) or _suspended(case, ending, story)


def _broken(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    reports = [seen for seen in case.kernel if seen.fact.shape in (*ENDS_ALL, *MEMORY)]
    ends = [seen.evidence for seen in case.exits]
    ends += [seen.evidence for seen in case.kernel if seen.fact.shape in KERNEL_SIGNALS]
    deaths = [end.mono for end in ends if end.mono is not None]
    near = [r for r in reports if any(_near(r.evidence.mono, at) for at in deaths)]
    # Panic and lock-up take everything along: the server's own end is then not on record.
    silent = not ending.known and not ending.alive
    fatal = [r for r in reports if r.fact.shape in ENDS_ALL and silent and not _outlived(case, r.evidence)]
    # Without a time of the end its signal must do: this line says that the kernel sends it.
    undated = [r for r in reports if r.fact.shape == "memory-corruption" and not deaths]
    sent = undated if ending.signal == SIGBUS else []
    chosen = (near if ending.known else []) or sent or fatal
    if not chosen:
        return None
    own = chosen[0].fact.shape == "memory-corruption" and ending.signal == SIGBUS
    return _failed(
        story,
        "strong" if own or chosen[0].fact.shape == "panic" else "weak",
        "The machine failed, and the server with it.",
        (WORDS[chosen[0].fact.shape], "what the server did at that moment does not matter then"),
        (*ids_of(chosen[:1]), *ending.witnesses),
    )


def _outlived(case: Case, report: Evidence) -> bool:
    """The server printed on well after the report, by the wall clock of both."""
    last = [seen.evidence.wall for seen in case.log if seen.evidence.wall is not None]
    return bool(last) and report.wall is not None and max(last) > report.wall + WINDOW_S


def _near(report: float | None, death: float) -> bool:
    return report is not None and abs(report - death) <= WINDOW_S


def _rebooted(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    if ending.known or ending.alive or ending.router_only or case.aborts:
        return None
    told = [seen for seen in case.hosts if seen.fact.event == "rebooted"]
    booted = [seen for seen in case.kernel if seen.fact.shape == "boot" and _after(case, seen.evidence)]
    boots = ids_of(told[-1:], booted[-1:])
    if not boots:
        return None
    own = {s.evidence.incarnation.boot_id for s in case.log} - {None}
    # A boot some time after the last line of a log is no proof: the log may just end there.
    sure = bool(own and told) and told[-1].fact.boot_id not in (None, *own)
    return _failed(
        story,
        "strong" if sure else "weak",
        "The machine went down under the server and booted again.",
        (
            "another boot follows the server's last line, and nothing tells of an end of its own",
            "no stop was asked for before: an orderly shutdown would have stopped the server first",
        ),
        (*boots, *(seen.id for seen in case.log[-1:])),
    )


def _after(case: Case, boot: Evidence) -> bool:
    """The boot came after the last line of the server, by the wall clock of both."""
    last = [seen.evidence.wall for seen in case.log if seen.evidence.wall is not None]
    return bool(last) and boot.wall is not None and boot.wall > max(last)


def _suspended(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    marks = [s for s in case.kernel if s.fact.shape in ("suspend", "resume")]
    if ending.known or not marks or marks[-1].fact.shape != "suspend" or ending.alive:
        return None
    return _failed(
        story,
        "weak",
        "The machine was suspended; nothing shows that it came back.",
        ("a suspended machine answers nothing, and its idle timers stand still",),
        ids_of(marks[-1:]),
    )


def _failed(
    story: SleepStory, confidence: str, summary: str, reasons: tuple[str, ...], witnesses: tuple[str, ...]
) -> Finding:
    return Finding(
        "HOST-FAILURE",
        "host",
        story.phase,
        confidence,
        summary,
        reasons=reasons,
        witnesses=witnesses,
        asks=(BOOT_ASK,),
    )
