"""Frames for the eye: short names, plumbing folded, the telling ones kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analyzers.contracts.report import FrameView, Thread

MAX_NAME = 4096  # characters of a demangled name that are looked at
MAX_ROWS = 60  # rows of one thread that are shown; longer stacks are named, not printed
LAMBDA = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}")
CLONE = re.compile(r"\s*\[clone [^\]]*\]|\.(?:cold|isra|part|constprop)(?:\.\d+)*$")
OPERATOR = re.compile(r"operator\s?(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>]=?|new(?:\[\])?|delete(?:\[\])?)")
PLUMBING = re.compile(
    r"^(?:std::|__gnu_cxx::|httplib::|__(?!futex)|_(?:M_|start\b|int_|Unwind)|execute_native_thread|"
    r"start_thread|clone3?$|ex_wrapper|operator(?:\(\)| new| delete)|(?:m|c|re)alloc$|raise$|abort$|wait4|"
    r"waitpid|pthread_kill|server_http_context::|ggml_(?:print_backtrace|abort|uncaught_exception)|"
    r"_?Py|py(?:main|run)_|cfunction_|run_(?:mod|eval_code)|main$)"
)
DOUBTFUL = ("scanned", "guessed")  # found on the stack, not reached by unwinding: the call may be an old one
WAITS = re.compile(r"pthread_cond_\w*wait")  # with or without time-out: that tells asleep from awake


@dataclass(frozen=True)
class Row:
    """One frame (``frame``) or a run of folded ones (``folded``).

    ``index`` counts every repeat, as a debugger does.
    """

    index: int
    frame: FrameView | None
    folded: tuple[FrameView, ...] = ()


def short_name(function: str | None) -> str:
    """Qualified name without arguments, template arguments, return type and clone marks."""
    if not function:
        return "??"
    text = function[:MAX_NAME].replace("(anonymous namespace)", "{anonymous}")
    text = CLONE.sub("", LAMBDA.sub(r"{lambda#\1}", text))
    bare = re.sub(r"(?<=\S)\s+(?:const|volatile|&&?)(?=\s|::|$)", "", _without_groups(text)).strip()
    return _without_return_type(bare) or function[:MAX_NAME]


def _without_groups(text: str) -> str:
    kept: list[str] = []
    depth = at = 0
    while at < len(text):
        operator = OPERATOR.match(text, at)
        if operator and (at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_")):
            kept.append(operator[0] if depth == 0 else "")
            at = operator.end()
            continue
        character = text[at]
        depth += (character in "<(") - (character in ">)" and depth > 0)
        if depth == 0 and character not in "<>()":
            kept.append(character)
        at += 1
    return "".join(kept)


def _without_return_type(name: str) -> str:
    operator = re.search(r"\S*operator (?:new|delete)\S*$", name)
    return operator[0] if operator else name.rsplit(" ", 1)[-1]


def is_plumbing(frame: FrameView) -> bool:
    """True for library and thread machinery that tells nothing about the fault."""
    if frame.telling or frame.repeat > 1:
        return False
    name = short_name(frame.function)
    return bool(PLUMBING.search(name)) and not WAITS.search(name)


def rows(thread: Thread) -> list[Row]:
    """The frames to show, innermost first: runs of two or more plumbing frames folded into one row."""
    found = list(_rows(thread.frames))
    if len(found) <= MAX_ROWS:
        return found
    rest = [frame for row in found[MAX_ROWS:] for frame in (row.folded or (row.frame,)) if frame]
    return [*found[:MAX_ROWS], Row(found[MAX_ROWS].index, None, tuple(rest))]


def _rows(frames: Sequence[FrameView]) -> Iterator[Row]:
    index = 0
    run: list[FrameView] = []
    for position, frame in enumerate(frames):
        if position > 0 and is_plumbing(frame):
            run.append(frame)
            continue
        yield from _flush(run, index)
        index += len(run)
        run = []
        yield Row(index, frame)
        index += max(1, frame.repeat)
    yield from _flush(run, index)


def _flush(run: list[FrameView], index: int) -> Iterator[Row]:
    if len(run) == 1:
        yield Row(index, run[0])
    elif run:
        yield Row(index, None, tuple(run))


def folded_text(row: Row) -> str:
    """What a folded row hides: how many frames and whose."""
    names = [short_name(frame.function) for frame in row.folded]
    owners = dict.fromkeys(name.split("::")[0] for name in names if "::" in name)
    whose = ", ".join(list(owners)[:3]) or ", ".join(names[:2])
    return f"{len(row.folded)} frames of plumbing ({whose})"


def place(frame: FrameView) -> str:
    """`file:line`, or `module+offset`, as far as known."""
    if frame.file:
        return f"{frame.file}:{frame.line}" if frame.line else frame.file
    module = (frame.module or "").rsplit("/", 1)[-1]
    return f"{module}+{frame.offset}" if module and frame.offset else module


def doubt(frame: FrameView) -> str:
    """How a frame is known, where that is less than by unwinding; empty for the others."""
    return frame.trust if frame.trust in DOUBTFUL else ""


def ordered(threads: Sequence[Thread]) -> list[Thread]:
    """The crashed thread first, the queue loop second, the rest as they came."""
    return sorted(
        threads, key=lambda thread: 0 if thread.crashed else 1 if thread.role == "queue-loop" else 2
    )


def is_telling(thread: Thread) -> bool:
    """True for what a reader wants first: the thread that died, the loop, any with telling frames."""
    return thread.crashed or thread.role == "queue-loop" or any(frame.telling for frame in thread.frames)


def title(thread: Thread) -> str:
    """Which thread this is, and by which rung of the ladder it was read."""
    what = "Crashed thread" if thread.crashed else "Queue loop" if thread.role == "queue-loop" else "Thread"
    role = f", {thread.role}" if thread.role and not what.startswith("Queue") else ""
    return f"{what} {thread.tid if thread.tid is not None else '?'}{role} (read by {thread.rung})"
