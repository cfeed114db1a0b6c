"""What a text with a stack trace says besides the frames: is there one, was it a core, which signal."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzers.contracts.facts import StackFact
from analyzers.verdict.reading import read_stack

TRACE = re.compile(
    rb"^[^\n]{0,120}?(?:#\d{1,3}\s+(?:0x[0-9a-f]{4,16}|\w)|frame #\d{1,3}:|Stack trace of thread \d|"
    rb"Thread \d+ \(|Fatal Python error|"
    # Bounded, because every one of the 120 places before it is tried: a line of megabytes took seconds.
    rb"[\w./-]{1,255}\([^\s(]{0,4096}\+0x[0-9a-f]{1,16}\) ?\[0x[0-9a-f]{1,16}\])",
    re.MULTILINE,
)
_HEAD = r"^[^\n]{0,60}?"  # quote marks and the like; a prompt's text in a log line stands further right
_TERMINATED = re.compile(_HEAD + r"Program terminated with signal (SIG[A-Z0-9]{2,8})\b", re.MULTILINE)
_RECEIVED = re.compile(
    _HEAD + r'(?:Program|Thread \d{1,7}(?: "[^"\n]{0,15}")?(?: hit Catchpoint \d+)?,?) received signal '
    r"(SIG[A-Z0-9]{2,8})\b",
    re.MULTILINE,
)
_LLDB = re.compile(
    _HEAD + r"[^\n]{0,200}stop reason = (?:signal (SIG[A-Z0-9]{2,8})|(EXC_BAD_ACCESS))", re.MULTILINE
)
_COREDUMPCTL = re.compile(r"^[ >|]{0,40}Signal: (\d{1,2}) \([A-Z0-9]{2,8}\)", re.MULTILINE)
_EU_STACK = re.compile(r"^[ >|]{0,20}PID (\d{1,10}) - (core|process)\s*$", re.MULTILINE)
# A debugger also stops at signals that end nothing: SIGINT when its user asks, SIGSTOP when it attaches.
FATAL = tuple(
    signal.Signals(number).name
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
)
RAISES = ("abort", "raise", "gsignal", "__pthread_kill_implementation")
RAISING_FRAMES = 4  # pthread_kill, raise, abort and what libc puts between them


@dataclass(frozen=True)
class TraceEnd:
    """How the traced process ended, as far as the text says. ``signal`` is the number, ``said`` by whom."""

    signal: int
    said: str
    pid: int | None = None


def looks_like_trace(text: bytes) -> bool:
    """True when some line looks like a stack frame or the head of a thread."""
    return TRACE.search(text) is not None


def trace_end(text: str, stacks: Sequence[StackFact]) -> TraceEnd | None:
    """The signal that ended the traced process; None when the text names none and nothing implies one.

    gdb, lldb and coredumpctl name it. eu-stack says only that it read a core, whose first thread is the one
    that died (the kernel writes it first); what that thread stands in tells an abort from a fault.
    """
    named = _named(text)
    if named is not None:
        return TraceEnd(*named)
    head = _EU_STACK.search(text)
    died = next((stack for stack in stacks if stack.crashed), None)
    if head is None or head[2] != "core" or died is None:
        return None
    return _implied(died, int(head[1]))


def _named(text: str) -> tuple[int, str] | None:
    for tool, pattern, wanted in (
        ("gdb", _TERMINATED, None),
        ("gdb", _RECEIVED, FATAL),
        ("lldb", _LLDB, FATAL),
    ):
        found = pattern.search(text)
        if found is None:
            continue
        name = str(found[1] or "SIGSEGV")
        if name in signal.Signals.__members__ and (wanted is None or name in wanted):
            return int(signal.Signals[name]), f"{tool} names the signal: {name}"
    told = _COREDUMPCTL.search(text)
    return (int(told[1]), f"coredumpctl names the signal: {int(told[1])}") if told else None


def _implied(died: StackFact, pid: int) -> TraceEnd | None:
    top = [frame.function or "" for frame in died.frames[:RAISING_FRAMES]]
    if any(name.partition("(")[0].partition("@")[0] in RAISES for name in top):
        return TraceEnd(int(signal.SIGABRT), "the core's first thread stands in abort", pid)
    reading = read_stack(died, "")
    if reading.recursion:
        return TraceEnd(
            int(signal.SIGSEGV), f"no signal is named; {reading.recursion} recurses without end", pid
        )
    if reading.handler is None or reading.waits_for_result or reading.in_barrier:
        return None
    return TraceEnd(
        int(signal.SIGSEGV),
        f"no signal is named; the core's first thread stands in {reading.handler} and waits for nothing, "
        "as after a memory fault",
        pid,
    )


def taken_live(text: str) -> bool:
    """True when eu-stack says that it looked at a running process: nobody died in this trace."""
    head = _EU_STACK.search(text)
    return head is not None and head[2] == "process"


def as_live(stacks: Sequence[StackFact]) -> tuple[StackFact, ...]:
    """The stacks of a process that was alive: no thread of it has crashed."""
    return tuple(replace(stack, crashed=False, live=True) for stack in stacks)
