"""WHAT ended the process: kernel and core first, then abort text, supervisor, exit code, router text."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from analyzers.contracts.facts import CoreFact, ExitFact, KernelFact
from analyzers.verdict.case import Case, Seen, ids_of

KERNEL_SIGNALS = {
    "segfault": int(signal.SIGSEGV),
    "gpf": int(signal.SIGSEGV),
    "invalid-opcode": int(signal.SIGILL),
    "divide-error": int(signal.SIGFPE),
    "oom-kill": int(signal.SIGKILL),
}
FAULT_SIGNALS = tuple(int(s) for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
STOP_SIGNALS = (int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGHUP))
SHELL_SIGNAL_BASE = 128
ROUTER_SIGNAL_CODE = 1  # what a router reports for every death by a signal, and for a child's own status 1
# Kernel lines about the machine: they may explain an end, they are none.
HOST_SHAPES = (
    "machine-check",
    "memory-corruption",
    "storage-error",
    "panic",
    "lockup",
    "suspend",
    "resume",
    "boot",
)
SUPERVISOR_KILLS = ("watchdog", "timeout")


@dataclass(frozen=True)
class Ending:
    """``signal`` or ``code`` is set when known; ``alive`` when the process was seen alive at the end."""

    signal: int | None = None
    code: int | None = None
    witnesses: tuple[str, ...] = ()
    alive: bool = False
    requested: bool = False
    oom: bool = False
    supervisor: str | None = None
    router_only: bool = False
    sent: bool = False  # the signal was sent by a process, not raised by a fault

    @property
    def known(self) -> bool:
        return self.signal is not None or self.code is not None


def find_ending(case: Case) -> Ending:
    """The best-witnessed end of the process; an empty Ending when nothing tells."""
    witnesses = list(ids_of(case.cores, [s for s in case.kernel if s.fact.shape not in HOST_SHAPES]))
    exits = [seen for seen in case.exits if not seen.forgeable]
    requested = any(seen.fact.requested for seen in exits) or bool(case.events("stopping"))
    supervisor = next((s.fact.result for s in exits if s.fact.result in SUPERVISOR_KILLS), None)
    oom = any(seen.fact.oom for seen in exits) or any(s.fact.shape == "oom-kill" for s in case.kernel)
    number = _core_signal(case) or _kernel_signal(case.kernel)
    code: int | None = None
    for seen in exits:
        if hides(seen.fact):
            continue
        witnesses.append(seen.id)
        number = number or _exit_signal(seen.fact)
        code = seen.fact.code if code is None else code
    router_only = not witnesses and any(seen.fact.by == "router" for seen in case.exits)
    alive = number is None and code is None and _seen_alive(case)
    sent = number in FAULT_SIGNALS and any(_was_sent(seen.fact) for seen in case.cores)
    return Ending(number, code, tuple(witnesses), alive, requested, oom, supervisor, router_only, sent)


def hides(fact: ExitFact) -> bool:
    """True for the router's word that fits a death by any signal as well as a child's own status 1."""
    return fact.by == "router" and fact.code == ROUTER_SIGNAL_CODE


def _was_sent(core: CoreFact) -> bool:
    """si_code of a signal from kill, sigqueue or tgkill is not above zero (sigaction(2))."""
    return core.si_code is not None and core.si_code <= 0


def _core_signal(case: Case) -> int | None:
    return next((seen.fact.signal for seen in case.cores if seen.fact.signal), None)


def _kernel_signal(kernel: tuple[Seen[KernelFact], ...]) -> int | None:
    return next((KERNEL_SIGNALS[s.fact.shape] for s in kernel if s.fact.shape in KERNEL_SIGNALS), None)


def _exit_signal(fact: ExitFact) -> int | None:
    if fact.signal:
        return fact.signal
    if fact.code is not None and SHELL_SIGNAL_BASE < fact.code <= SHELL_SIGNAL_BASE + 64:
        return fact.code - SHELL_SIGNAL_BASE
    return None


def _seen_alive(case: Case) -> bool:
    answered = any(seen.fact.status is not None for seen in case.probes)
    return answered or bool(case.looks) or any(seen.fact.live for seen in case.stacks)
