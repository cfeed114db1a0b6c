"""What a core says without symbols, as evidence: signal, fault address, threads, whether it is cut."""

from __future__ import annotations

import signal
from collections.abc import Callable

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, LoopFact, PointerFact, to_evidence
from analyzers.core.buildid import find_executable
from analyzers.core.files import plain
from analyzers.core.model import Core, Segment
from analyzers.errors import UserError

# Linux called an access a stack access while it was within 64 KB and 256 bytes below the stack pointer
# (arch/x86/mm/fault.c before 4.20, for the instruction `enter`); large frames touch their far end first.
STACK_REACH = 65536 + 256


def core_evidence(core: Core, name: str, next_id: Callable[[], str]) -> list[Evidence]:
    """The core's CoreFact as evidence. ``name`` is the input's name; arguments never stand in it."""
    fact = core_fact(core)
    return [
        to_evidence(
            fact,
            id=next_id(),
            source=f"{plain(name)}: core notes",
            text=describe(core),
            trust=Trust.KERNEL,
            incarnation=Incarnation(pid=core.pid),
        )
    ]


def loop_evidence(core: Core, fact: LoopFact, name: str, next_id: Callable[[], str]) -> Evidence:
    """The queue loop's state as evidence: memory and registers that the kernel wrote into the core."""
    flags = "" if fact.sleeping is None else f", sleeping={str(fact.sleeping).lower()}"
    last = "" if fact.time_last_task_ms is None else f", last task at {fact.time_last_task_ms} ms"
    how = ", ".join(fact.how) or "no witness"
    return to_evidence(
        fact,
        id=next_id(),
        source=f"{plain(name)}: queue loop",
        text=f"queue loop {fact.phase} ({how}){flags}{last}",
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=core.pid),
    )


def pointer_evidence(core: Core, name: str, next_id: Callable[[], str]) -> list[Evidence]:
    """What the pointer that the faulting instruction followed says, where anything; at most one."""
    from analyzers.core.memory import Memory
    from analyzers.core.provenance import provenance
    from analyzers.core.text import Text

    try:
        with Memory(core) as memory, Text(core, memory) as text:
            found = provenance(core, text)
    except UserError:  # the core went away: one witness less
        return []
    if found is None or core.crashed is None:
        return []
    fact = PointerFact(found.register, found.value, found.way, found.fill, core.crashed.tid)
    made = to_evidence(
        fact,
        id=next_id(),
        source=f"{plain(name)}: faulting instruction",
        text=found.text,
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=core.pid),
    )
    return [made]


def core_fact(core: Core) -> CoreFact:
    """What the notes say, without registers beyond stack and instruction pointer."""
    crashed = core.crashed
    registers = crashed.registers if crashed else {}
    return CoreFact(
        signal=core.signal,
        si_code=core.si_code,
        fault_address=core.fault_address,
        crashed_tid=crashed.tid if crashed else None,
        pid=core.pid,
        program=core.program,
        exe=find_executable(core).main,
        stack_pointer=registers.get("rsp"),
        instruction_pointer=registers.get("rip"),
        threads=len(core.threads),
        cut=core.cut,
        build_ids=dict(core.build_ids),
        stack_overflow=stack_overflow(core),
    )


def stack_overflow(core: Core) -> bool:
    """The fault lies just below a stack, next to the stack pointer.

    "Just below" is the guard region or gap under the writable mapping that the stack pointer is in or left.
    """
    fault, crashed = core.fault_address, core.crashed
    sp = crashed.registers.get("rsp") if crashed else None
    if fault is None or sp is None or abs(fault - sp) > STACK_REACH or _writable_at(core, fault):
        return False
    return any(_just_below(fault, row) for row in core.segments)


def _just_below(address: int, segment: Segment) -> bool:
    return segment.writable and 0 < segment.address - address <= STACK_REACH


def _writable_at(core: Core, address: int) -> bool:
    return any(row.writable and row.address <= address < row.address + row.size for row in core.segments)


def describe(core: Core) -> str:
    """One readable line, free of arguments."""
    thread = f"thread {core.crashed.tid}" if core.crashed else "an unknown thread"
    counted = f"{len(core.threads)} thread{'' if len(core.threads) == 1 else 's'}"
    parts = [f"{_ending(core)} in {thread}", counted]
    if stack_overflow(core):
        parts.append("just below the stack")
    if core.cut:
        parts.append("the core is cut")
    return ", ".join([*parts, *core.limits])


def _ending(core: Core) -> str:
    if core.signal is None:
        return "no signal"
    if core.signal not in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
        return signal_name(core.signal)
    where = "unknown address" if core.fault_address is None else f"address {core.fault_address:#x}"
    return f"{signal_name(core.signal)} at {where}"


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
