"""Which facts speak of a process's end, and what each of them says of it."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import (
    AbortFact,
    CoreFact,
    ExitFact,
    KernelFact,
    LogFact,
    fact_of,
    to_evidence,
)
from analyzers.contracts.watched import LookFact
from collector.discovery.model import Ended
from collector.sources.follow.unit_facts import UnitFact

# Signals by which people and supervisors ask a process to end; none of them is a fault.
ASKING = frozenset({signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGQUIT})
# Container runtimes and shells report a signal death as 128 + its number.
ASKED_CODES = frozenset(128 + number for number in ASKING)
_KERNEL_SIGNALS = {
    "segfault": signals.SIGSEGV,
    "gpf": signals.SIGSEGV,
    "invalid-opcode": signals.SIGILL,
    "divide-error": signals.SIGFPE,
    "oom-kill": signals.SIGKILL,
}
_ASKED_LOG = ("stopping", "cleaning-up")
START_LIMIT = "start-limit-hit"
SCHEDULED = "scheduled-restart"
# Results of systemd that are failures whatever the signal: it asks with SIGTERM first (systemd.exec(5)).
FAILED_RESULTS = frozenset({"watchdog", "oom-kill", "timeout", "resources", "protocol"})


@dataclass(frozen=True)
class Sign:
    """What one fact says. ``what``: dumping | kernel | ended | exit | core | text | asked | clean | restart |
    limit. ``fatal``: this alone says that the process ended, or is ending, by a fault or was killed;
    ``asked``: a stop was asked for; ``over``: the process is gone."""

    what: str
    evidence: Evidence
    fatal: bool = False
    asked: bool = False
    over: bool = False
    signal: int | None = None
    code: int | None = None
    result: str | None = None


def sign_of(evidence: Evidence) -> Sign | None:
    """The sign that ``evidence`` is; None when it says nothing of an end."""
    if evidence.kind == KernelFact.KIND:
        return _kernel(evidence, fact_of(evidence, KernelFact))
    if evidence.kind == ExitFact.KIND:
        return _exit(evidence, fact_of(evidence, ExitFact))
    if evidence.kind == LookFact.KIND:
        look = fact_of(evidence, LookFact)
        return Sign("dumping", evidence, fatal=True) if look is not None and look.dumping else None
    if evidence.kind == CoreFact.KIND:
        core = fact_of(evidence, CoreFact)
        return Sign("core", evidence, fatal=True, signal=core.signal if core else None)
    if evidence.kind == AbortFact.KIND:
        return Sign("text", evidence)  # text is no proof of a death: the process may live on
    if evidence.kind == UnitFact.KIND:
        return _unit(evidence)
    if evidence.kind == LogFact.KIND:
        return Sign("asked", evidence, asked=True) if evidence.data.get("event") in _ASKED_LOG else None
    return None


def _unit(evidence: Evidence) -> Sign | None:
    """A step of the unit's life, as its manager tells it."""
    event, result = evidence.data.get("event"), evidence.data.get("result")
    if event == "restarted":
        return Sign("restart", evidence)
    if event != "failed":
        return None
    if result == START_LIMIT:
        return Sign("limit", evidence)
    return Sign("exit", evidence, fatal=result in FAILED_RESULTS, over=True, result=str(result or "") or None)


def end_sign(ended: Ended) -> Sign:
    """The sign of a process that is gone, with evidence of its own."""
    text = _told(ended)
    fact = ExitFact(by="waitpid", signal=ended.signal, code=ended.code)
    pid = ended.found.pid
    evidence = to_evidence(
        fact,
        id=f"ended-{pid}-{int(ended.mono * 1000)}",
        source=f"process {pid}",
        text=text,
        trust=Trust.KERNEL,
        wall=ended.wall,
        mono=ended.mono,
        incarnation=ended.found.incarnation,
    )
    asked = ended.signal in ASKING
    return Sign(
        "ended",
        evidence,
        fatal=_is_fault(ended.signal, ended.code),
        asked=asked,
        over=True,
        signal=ended.signal,
        code=ended.code,
    )


def _told(ended: Ended) -> str:
    pid = ended.found.pid
    if ended.signal is not None:
        return f"process {pid} ended by signal {ended.signal} ({signal_name(ended.signal)})"
    if ended.code is not None:
        return f"process {pid} ended with status {ended.code}"
    return f"process {pid} is gone; how it ended was not seen"


def signal_name(number: int) -> str:
    """SIGSEGV for 11; the number where it has no name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _is_fault(signal: int | None, code: int | None) -> bool:
    if signal is not None:
        return signal not in ASKING
    return code is not None and code != 0 and code not in ASKED_CODES


def _kernel(evidence: Evidence, fact: KernelFact | None) -> Sign | None:
    number = _KERNEL_SIGNALS.get(fact.shape) if fact is not None else None
    return Sign("kernel", evidence, fatal=True, signal=int(number)) if number is not None else None


def _exit(evidence: Evidence, fact: ExitFact | None) -> Sign | None:
    if fact is None:
        return None
    if fact.result in _PLAIN:
        return _PLAIN[fact.result](evidence)
    if fact.result == "timeout" and fact.requested:
        return Sign("asked", evidence, asked=True)
    if fact.result == "core-dump" and fact.name is not None:
        return Sign("core", evidence, fatal=True, signal=fact.signal)
    return Sign(
        "exit",
        evidence,
        fatal=_is_fault(fact.signal, fact.code) or fact.oom or fact.result in FAILED_RESULTS,
        asked=fact.requested or fact.signal in ASKING or fact.code in ASKED_CODES,
        over=True,
        signal=fact.signal,
        code=fact.code,
        result=fact.result,
    )


_PLAIN: dict[str | None, Callable[[Evidence], Sign]] = {
    START_LIMIT: lambda evidence: Sign("limit", evidence),
    SCHEDULED: lambda evidence: Sign("restart", evidence),
    "success": lambda evidence: Sign("clean", evidence, over=True),
    "stopping": lambda evidence: Sign("asked", evidence, asked=True),
}
