"""Stacks out of text that somebody pasted or a process printed itself.

Known shapes: gdb ``bt`` and ``thread apply all bt``, lldb, eu-stack, coredumpctl's "Stack trace of
thread N:", glibc's and macOS' backtrace_symbols as ggml prints them, Python's faulthandler. The text may
carry quote marks, log prefixes, colours, CRLF and cut lines. Never raises; text is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks import demangle, eustack, shapes
from analyzers.stacks.frames import mark_inlined, name_of, reader_kind, route_handler
from analyzers.stacks.shapes import Header, cleaned

MAX_LINES = 400_000  # a 50,000-frame recursion of 11 threads with wrapped lines
LINE_CHARS = 16 << 10
MAX_STACKS = 4096
MAX_FRAMES = 8192  # per stack, after folding
# A frame of these means that the process printed the trace while it died.
SELF_MARKS = ("ggml_print_backtrace", "ggml_uncaught_exception")
# What Python's faulthandler and the debugger that ggml starts print into the process's own output.
SELF_WORDS = re.compile(
    r"^(?:Fatal Python error: |\[Inferior 1 \(process \d{1,10}\) detached\]\r?$)", re.MULTILINE
)
# A debugger's words for a death; in front of them may stand quote marks and what carried the text.
FATAL_WORDS = re.compile(
    r"^[^\n]{0,60}?(?:(?:terminated with|received) signal SIG(?:SEGV|ABRT|BUS|FPE|ILL)\b"
    r"|stop reason = (?:signal SIG(?:SEGV|ABRT|BUS|FPE|ILL)\b|EXC_)"
    r"|Signal: \d{1,2} \([A-Z]{3,8}\)|Fatal Python error: )",
    re.MULTILINE,
)
DYING = (
    *SELF_MARKS,
    "ggml_abort",
    "abort",
    "raise",
    "gsignal",
    "std::terminate",
    "__cxa_throw",
    "__verbose_terminate_handler",
    "__gnu_cxx::__verbose_terminate_handler",
)
SIGNALLED = "<signal handler called>"


@dataclass
class _Open:
    """The stack that lines are being added to."""

    header: Header = field(default_factory=Header)
    frames: list[Frame] = field(default_factory=list)
    last_number: int = -1

    def add(self, number: int, frame: Frame) -> None:
        self.last_number = number
        if self.frames and _equal(self.frames[-1], frame):
            self.frames[-1] = replace(self.frames[-1], repeat=self.frames[-1].repeat + 1)
        elif len(self.frames) < MAX_FRAMES:
            self.frames.append(frame)


def _equal(left: Frame, right: Frame) -> bool:
    same = left.function == right.function and left.ip == right.ip and bool(right.function or right.ip)
    return same and replace(left, repeat=1) == right


@dataclass
class _Reading:
    done: list[_Open] = field(default_factory=list)
    now: _Open = field(default_factory=_Open)
    current_tid: int | None = None
    self_printed: bool = False

    def begin(self, header: Header) -> None:
        if self.now.frames and len(self.done) < MAX_STACKS:
            self.done.append(self.now)
        self.now = _Open(header)


def parse_pasted(text: str) -> tuple[StackFact, ...]:
    """Every stack in the text, in its order; empty where there is none.

    ``rung`` is "self-trace" when the text shows that the dying process printed it, else "pasted". At most
    one stack is marked as crashed: the one the text names, or the only one where it shows a death. The
    debugger that ggml starts prints the main thread alone, which need not be the one that died.
    """
    reading = _Reading()
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        _read_line(reading, cleaned(line[:LINE_CHARS]))
    reading.begin(Header())
    return _facts(reading, FATAL_WORDS.search(text) is not None)


def printed_by_itself(stacks: Sequence[StackFact], text: str) -> bool:
    """True when a frame or a line of the text shows that the traced process printed the trace."""
    return any(_names_itself(stack.frames) for stack in stacks) or SELF_WORDS.search(text) is not None


def _read_line(reading: _Reading, line: str) -> None:
    current = shapes.current_thread(line)
    if current is not None:
        reading.current_tid = current
        return
    header = shapes.header(line)
    if header is not None:
        reading.begin(header)
        return
    found = shapes.frame(line)
    if found is None:
        _continue_line(reading, line)
        return
    number, frame, self_printed = found
    # Unnumbered frames (-1) belong together; a number that does not rise begins a new stack.
    if reading.now.frames and 0 <= number <= reading.now.last_number:
        reading.begin(Header())
    reading.self_printed |= self_printed
    reading.now.add(number, frame)


def _continue_line(reading: _Reading, line: str) -> None:
    """gdb wraps long lines, and eu-stack puts build-id and source on lines of their own."""
    if reading.now.frames:
        reading.now.frames[-1] = shapes.continued(reading.now.frames[-1], line)


def _facts(reading: _Reading, fatal: bool) -> tuple[StackFact, ...]:
    reading.done = [stack for stack in reading.done if not _is_announcement(stack, reading.done)]
    names = demangle.demangled(
        frame.function for stack in reading.done for frame in stack.frames if frame.function
    )
    stacks = [
        tuple(_readable(frame, names) for frame in mark_inlined(_with_addresses(stack.frames)))
        for stack in reading.done
    ]
    marked = any(_names_itself(frames) for frames in stacks)
    rung = "self-trace" if reading.self_printed or marked else "pasted"
    crashed = _crashed(reading, len(stacks) == 1 and (fatal or _dies(stacks[0])))
    return tuple(
        StackFact(
            tid=stack.header.tid,
            name=stack.header.name,
            crashed=index == crashed,
            rung=rung,
            frames=frames,
            complete=eustack.reaches_end(frames),
        )
        for index, (stack, frames) in enumerate(zip(reading.done, stacks, strict=True))
    )


def _is_announcement(stack: _Open, every: list[_Open]) -> bool:
    """gdb shows the current frame once when it opens a core, and again in the thread's own stack."""
    if len(stack.frames) != 1 or stack.header != Header():
        return False
    others = (other for other in every if other is not stack and other.frames)
    return any((o.frames[0].ip, o.frames[0].function) == _place(stack.frames[0]) for o in others)


def _place(frame: Frame) -> tuple[int | None, str | None]:
    return frame.ip, frame.function


def _with_addresses(frames: list[Frame]) -> list[Frame]:
    """gdb leaves out the address of the callers of an inlined call: it is the one before."""
    out: list[Frame] = []
    for frame in frames:
        out.append(replace(frame, ip=out[-1].ip) if frame.ip is None and out else frame)
    return out


def _readable(frame: Frame, names: dict[str, str]) -> Frame:
    return replace(frame, function=names.get(frame.function, frame.function)) if frame.function else frame


def _names_itself(frames: tuple[Frame, ...]) -> bool:
    return any((frame.function or "").startswith(SELF_MARKS) for frame in frames)


def _dies(frames: tuple[Frame, ...]) -> bool:
    """The stack holds an abort or a signal, or reads the model for a request: a thread that died is shown."""
    if any(frame.function == SIGNALLED or name_of(frame) in DYING for frame in frames):
        return True
    reads = any(reader_kind(frame) == "model" for frame in frames)
    return reads and route_handler(StackFact(frames=frames)) is not None


def _crashed(reading: _Reading, lone: bool) -> int | None:
    """Which stack the text itself calls the crashed one, by falling weight of the sign.

    ``lone``: there is one, and it shows a death.
    """
    headers = [stack.header for stack in reading.done]
    current = reading.current_tid
    signs = (
        [header.crashed for header in headers],
        [header.tid is not None and header.tid == current for header in headers],
        [header.first_is_crashed for header in headers],
        [header.number == 1 for header in headers],  # gdb numbers a core's crashed thread 1
        [lone for _ in headers],
    )
    return next((sign.index(True) for sign in signs if True in sign), None)
