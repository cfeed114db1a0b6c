"""What is really this process's: kernel lines that fit its registers, sleep lines that its settings allow."""

from __future__ import annotations

from dataclasses import replace

from analyzers.contracts.facts import CoreFact, KernelFact, LogFact, SettingsFact
from analyzers.verdict.case import Case, Seen, ids_of
from analyzers.verdict.finding import Ask, Finding

FATAL_SHAPES = ("segfault", "gpf")
COMM = 15  # characters of a name that the kernel keeps
SLEEP_EVENTS = ("enter-sleep", "exit-sleep")
# Names of defects that cannot be without a sleep.
SLEEP_DEFECTS = ("D1", "D2", "D3", "D5", "D6", "D7", "D8")


def own_case(case: Case) -> tuple[Case, tuple[Ask, ...]]:
    """The case without kernel lines of another fault and without sleep lines of a process that cannot sleep;
    and what to say of them."""
    foreign = [seen for seen in case.kernel if _another_fault(case, seen.fact)]
    sleeps = [seen for seen in case.events(*SLEEP_EVENTS) if not seen.forgeable]
    denied: list[Seen[LogFact]] = sleeps if sleeps and sleep_off(case) is not None else []
    asks = [_foreign_line(case, seen) for seen in foreign[:1]]
    asks += [_denied(case)] if denied else []
    gone = set(ids_of(foreign, denied))
    kernel = tuple(seen for seen in case.kernel if seen.id not in gone)
    log = tuple(seen for seen in case.log if seen.id not in gone)
    return replace(case, kernel=kernel, log=log), tuple(asks)


def sleep_off(case: Case) -> Seen[SettingsFact] | None:
    """The settings that say that this process never sleeps; None where they do not, or the best say a limit.

    Its own memory outranks what a supervisor says of it (a unit may have been edited since).
    """
    told = [s for s in case.settings if s.fact.sleep_idle_seconds is not None and not s.forgeable]
    best = min(told, key=lambda seen: (_of_another(case, seen), seen.evidence.trust.rank), default=None)
    if best is None or (best.fact.sleep_idle_seconds or 0) >= 0:
        return None
    return best


def _of_another(case: Case, seen: Seen[SettingsFact]) -> bool:
    pids = {core.fact.pid for core in case.cores if core.fact.pid is not None}
    return bool(pids) and seen.evidence.incarnation.pid not in (None, *pids)


def asleep_by_memory(case: Case) -> bool:
    """The queue's own memory or frames say asleep, whatever the settings say."""
    loop = case.loop.fact if case.loop else None
    return loop is not None and (loop.sleeping is True or loop.phase in ("unloading", "asleep", "waking"))


def blames_sleep(finding: Finding) -> bool:
    return finding.cause in ("sleep", "wake") or finding.defect in SLEEP_DEFECTS or "SLEEP" in finding.class_


def _denied(case: Case) -> Ask:
    told = sleep_off(case)
    by = told.evidence.source if told else "its settings"
    return Ask(
        "whose the sleep lines in the log are",
        f"this process was started with sleep off ({by}), so they are another process's or were written by a "
        "client, and are not counted",
        "journalctl _PID=PID -o export > server.export",
    )


def _another_fault(case: Case, fact: KernelFact) -> bool:
    return fact.shape in FATAL_SHAPES and _difference(case, fact) is not None


def _difference(case: Case, fact: KernelFact) -> str | None:
    """What the kernel's line and the core's registers disagree on; None where they agree or do not say."""
    core = next((seen.fact for seen in case.cores if seen.fact.signal), None)
    if core is None:
        return None
    if _differ(fact.ip, core.instruction_pointer):
        return "the instruction"
    if fact.shape == "segfault" and _differ(fact.address, core.fault_address):
        return "the address"
    if _differ(fact.sp, core.stack_pointer):
        return "the stack pointer"
    if fact.object and _differ(fact.object, _object(case)):
        return "the object"
    if fact.ip is not None and core.instruction_pointer is not None:
        return None  # a thread may have a name of its own, which a core does not tell
    return "the name" if fact.name and _names(case, core) and fact.name not in _names(case, core) else None


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _object(case: Case) -> str | None:
    """The base name of the file that the core's faulting instruction lies in."""
    crash = case.crash
    frame = crash.stack.frames[0] if crash is not None and crash.from_core and crash.stack.frames else None
    return frame.module.rpartition("/")[2] if frame is not None and frame.module else None


def _names(case: Case, core: CoreFact) -> set[str]:
    """What the kernel may call this process: a thread may have a name of its own, which few cores tell."""
    threads = {seen.fact.name for seen in case.stacks if seen.fact.name}
    known = {core.program, *(seen.fact.name for seen in case.exits if seen.fact.name)} - {None}
    return {str(name)[:COMM] for name in (*known, *threads)} if known else set()


def _foreign_line(case: Case, seen: Seen[KernelFact]) -> Ask:
    return Ask(
        "the kernel's line about this fault",
        f"the line given ({seen.evidence.source}) is about another one: {_difference(case, seen.fact)} "
        "differs from the core's; not counted",
        "journalctl -k --since '-1 hour' -o short-monotonic | grep -E 'segfault|general protection'",
    )
