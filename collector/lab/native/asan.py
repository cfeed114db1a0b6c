"""Reads what AddressSanitizer said: what kind of access, who read, who had freed it, who had allocated it.

The shape is that of GCC 12's run-time library, printed into the server's log between its own lines. A log is
hostile: only lines after the report's headline count, and everything is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collector.lab.reference.output import printable

# The access stack of an endless recursion is cut by the library at 255 frames; freed and allocated at 30.
FRAMES_LIMIT = 512
NAME_LIMIT = 200
USE_AFTER_FREE = "heap-use-after-free"
LOOP = "in the queue loop"
LIFE = "under server_context_impl::"
_HEADLINE = re.compile(r"==\d+==ERROR: AddressSanitizer:? (?P<kind>[A-Za-z-]+(?: double-free)?)(?P<rest>.*)")
_ACCESS = re.compile(r"^(?P<access>READ|WRITE) of size (?P<size>\d+) at 0x[0-9a-f]+ thread (?P<thread>T\d+)")
_CAUSED = re.compile(r"The signal is caused by a (?P<access>READ|WRITE) memory access")
_FREED = re.compile(r"^freed by thread (?P<thread>T\d+)")
_ALLOCATED = re.compile(r"^(?:previously )?allocated by thread (?P<thread>T\d+)")
_OTHER = re.compile(r"^(?:Thread T\d+ .*created by|SUMMARY:|Shadow bytes|Address 0x|Register values:)")
_LAST = re.compile(r"^==\d+==ABORTING")
_FRAME = re.compile(r"^\s*#(?P<number>\d+) 0x[0-9a-f]+ (?:in (?P<name>.+?)|)(?: (?P<place>[^ ]+))?$")
_THREAD = re.compile(r"\b(T\d+)\)?\s*$")
# Not the one who did it: allocator, standard library, sanitizer.
_PLUMBING = re.compile(
    r"^(?:operator (?:new|delete)|(?:__interceptor_)?(?:free|malloc|calloc|realloc|posix_memalign)\b"
    r"|std::|__gnu_cxx::|__asan|__sanitizer|__interceptor_|void std::|_M_|__invoke|~?unique_ptr|~vector)"
)
_LIBRARY_FILE = re.compile(r"/include/c\+\+/|libsanitizer/|/bits/")
_HANDLER = re.compile(r"server_routes::(?P<name>handle_\w+)|(?P<init>server_routes::init_routes\b.*)")
_LIFE = re.compile(r"server_context_impl::(?:destroy|load_model)\b")
_CALL = re.compile(r"::operator\(\)(?=\()")
_LOOP = re.compile(r"server_queue::start_loop\b")
_TEMPLATE = re.compile(r"<[^<>]*>")
_PARAMETERS = re.compile(r"(?<!operator)\([^()]*\)(?: const)?")


@dataclass(frozen=True)
class Frame:
    """One frame: ``name`` as printed (empty without symbols), ``place`` file:line or module+offset."""

    name: str
    place: str

    @property
    def function(self) -> str:
        """The name without parameters and template arguments."""
        return bare(self.name)


@dataclass(frozen=True)
class Stack:
    """``thread`` like T12 (T0 is the main thread); ``frames`` innermost first."""

    thread: str
    frames: tuple[Frame, ...]

    @property
    def actor(self) -> str:
        """The innermost function that is neither allocator nor standard library."""
        named = [frame for frame in self.frames if frame.name]
        own = [each for each in named if not _is_plumbing(each)]
        return (own or named or [Frame("an unnamed function", "")])[0].function

    @property
    def handled(self) -> bool:
        """A route handler is in it."""
        return any(_HANDLER.search(frame.name) for frame in self.frames)

    @property
    def context(self) -> str:
        """Whose work it is: a route handler; the unload or the load, the queue loop; or nothing known."""
        found: list[str] = []
        for frame in self.frames:
            handler = _HANDLER.search(frame.name)
            if handler is not None:
                return f"under {handler['name'] or 'a route handler'}"
            if (life := _LIFE.search(frame.name)) is not None and not found:
                found.append(f"under {life[0]}")
            if _LOOP.search(frame.name):
                return " ".join((*found, LOOP))
        return " ".join(found)


@dataclass(frozen=True)
class AsanReport:
    """``kind`` as AddressSanitizer names it (heap-use-after-free, SEGV, stack-overflow …); ``access`` READ,
    WRITE or None, ``size`` its bytes; ``freed`` and ``allocated`` only where the memory was of the heap."""

    kind: str
    access: str | None
    size: int | None
    used: Stack
    freed: Stack | None = None
    allocated: Stack | None = None

    @property
    def used_after_unload(self) -> bool:
        """A route handler used memory that the queue's loop had freed in an unload or a load: D1 and D2, and
        nothing else. What the loop frees while it works on a task is no model."""
        owner = self.freed.context if self.freed is not None else ""
        unloaded = owner.startswith(LIFE) and owner.endswith(LOOP)
        return self.kind == USE_AFTER_FREE and self.used.handled and unloaded

    def lines(self) -> list[str]:
        """The report in a few lines for a person: who read, who had freed, who had allocated."""
        verb = {"READ": "read", "WRITE": "written"}.get(self.access or "", "hit")
        size = f" ({self.size} bytes)" if self.size else ""
        found = [f"AddressSanitizer: {self.kind}{size}", _line(verb, self.used)]
        found += [_line("freed", self.freed)] if self.freed else []
        found += [_line("allocated", self.allocated)] if self.allocated else []
        return found


def _line(verb: str, stack: Stack) -> str:
    parts = (f"{verb} by {stack.actor}", stack.context, f"(thread {stack.thread})")
    return printable(" ".join(part for part in parts if part))


def read_report(log_text: str) -> AsanReport | None:
    """The first report in a log, or None when AddressSanitizer said nothing. Never raises."""
    lines = log_text.splitlines()
    for number, line in enumerate(lines):
        headline = _HEADLINE.search(line)
        if headline is not None:
            return _report(headline, lines[number + 1 :])
    return None


def _report(headline: re.Match[str], lines: list[str]) -> AsanReport:
    thread = _THREAD.search(headline["rest"])
    parts = {"used": (thread[1] if thread else "T?", list[Frame]())}
    access, size = None, None
    for line in _until_end(lines):
        if (found := _ACCESS.search(line)) is not None:
            access, size = found["access"], int(found["size"])
            parts["used"] = (found["thread"], [])
        elif (caused := _CAUSED.search(line)) is not None:
            access = caused["access"]
    _sort_frames(_until_end(lines), parts)
    return AsanReport(
        headline["kind"], access, size, _stack(parts, "used") or Stack("T?", ()), *_owners(parts)
    )


def _until_end(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if _LAST.search(line):
            return
        yield line


def _sort_frames(lines: Iterable[str], parts: dict[str, tuple[str, list[Frame]]]) -> None:
    """Put every frame under the heading it stands below; those of other headings are dropped."""
    current: str | None = "used"
    for line in lines:
        for name, pattern in (("freed", _FREED), ("allocated", _ALLOCATED)):
            if (found := pattern.search(line)) is not None:
                current = name
                parts[name] = (found["thread"], [])
        if _OTHER.search(line):
            current = None
        frame = _FRAME.search(line)
        if frame is not None and current is not None and len(parts[current][1]) < FRAMES_LIMIT:
            parts[current][1].append(Frame((frame["name"] or "")[:NAME_LIMIT], frame["place"] or ""))


def _stack(parts: dict[str, tuple[str, list[Frame]]], name: str) -> Stack | None:
    return Stack(parts[name][0], tuple(parts[name][1])) if name in parts else None


def _owners(parts: dict[str, tuple[str, list[Frame]]]) -> tuple[Stack | None, Stack | None]:
    return _stack(parts, "freed"), _stack(parts, "allocated")


def _is_plumbing(frame: Frame) -> bool:
    return bool(_PLUMBING.search(frame.name) or _LIBRARY_FILE.search(frame.place))


def bare(name: str) -> str:
    """``a::b<c>(d) const`` as ``a::b``, a call of an object ``e::operator()(f)`` as ``e``."""
    before, name = None, _CALL.sub("", name)
    while before != name:
        before = name
        name = _PARAMETERS.sub("", _TEMPLATE.sub("", name))
    return name.strip()
