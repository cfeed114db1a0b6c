"""Stacks out of text that somebody pasted or a process printed itself.

Known shapes: gdb ``bt`` and ``thread apply all bt``, lldb, eu-stack, coredumpctl's "Stack trace of
thread N:", glibc's and macOS' backtrace_symbols as ggml prints them, Python's faulthandler. The text may
carry quote marks, log prefixes, colours, CRLF and cut lines. Never raises; text is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks import demangle, eustack, shapes
from analyzers.stacks.frames import mark_inlined
from analyzers.stacks.shapes import Header, cleaned

MAX_LINES = 400_000  # a 50,000-frame recursion of 11 threads with wrapped lines
LINE_CHARS = 16 << 10
MAX_STACKS = 4096
MAX_FRAMES = 8192  # per stack, after folding
# A frame of these means that the process printed the trace while it died.
SELF_MARKS = ("ggml_print_backtrace", "ggml_uncaught_exception")


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
    one stack is marked as crashed: the one the text names, or the only one.
    """
    reading = _Reading()
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        _read_line(reading, cleaned(line[:LINE_CHARS]))
    reading.begin(Header())
    return _facts(reading)


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


def _facts(reading: _Reading) -> tuple[StackFact, ...]:
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
    crashed = _crashed(reading)
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


def _crashed(reading: _Reading) -> int | None:
    """Which stack the text itself calls the crashed one, by falling weight of the sign."""
    headers = [stack.header for stack in reading.done]
    current = reading.current_tid
    signs = (
        [header.crashed for header in headers],
        [header.tid is not None and header.tid == current for header in headers],
        [header.first_is_crashed for header in headers],
        [header.number == 1 for header in headers],  # gdb numbers a core's crashed thread 1
        [len(headers) == 1 for _ in headers],
    )
    return next((sign.index(True) for sign in signs if True in sign), None)
