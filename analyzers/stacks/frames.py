"""What a frame means: a normalised name, whether it is plumbing, which handler and which reader it is.

The lists stand in frames.toml; nothing here knows a function name of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from analyzers.contracts.facts import Frame, StackFact

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

NAME_CHARS = 8 << 10  # template names of real stacks reach 2 KB; beyond this a name is cut
MAX_CYCLE = 3  # mutual recursion of up to three functions is folded
# Callee frames looked at for the name of a lambda handler; plumbing in between is skipped.
CALLEE_FRAMES = 8

_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}")
_PLACE = "\0"  # stands for a lambda while the ones around it are looked at
_CLANG_LAMBDA = re.compile(r"'lambda(\d*)'\([^()]*\)|\$_(\d+)")
_CLONE = re.compile(
    r"(?: ?\[clone [^\]]*\]|\.(?:cold|isra|part|constprop|lto_priv|llvm|localalias)(?:\.\d+)*)+"
)
_VERSION = re.compile(r"@{1,2}[A-Za-z_][\w.]*$|@plt$")
_ABI = re.compile(r"\[abi:[^\]]*\]")
_OPERATOR = re.compile(
    r"operator(?: (?:new|delete)(?:\[\])?|\(\)|\[\]|<=>|<<=|>>=|->\*|<<|>>|->|<=|>=|<|>"
    r"|[-+*/%^&|~!=,]+)?(?!\w)"
)
_QUALIFIER = re.compile(r" (?:const|volatile|noexcept|&&?)(?= |::|$)")


@dataclass(frozen=True)
class Name:
    """``text`` survives a rebuild; ``lambdas`` are the numbers taken out of it; ``raw`` is as printed."""

    text: str
    lambdas: tuple[int, ...] = ()
    raw: str = ""


@dataclass(frozen=True)
class Handler:
    """The route handler on a stack. ``evidence`` says how a lambda got its name."""

    name: str
    frame_index: int
    raw: str
    evidence: str = "the frame names it"


@lru_cache(maxsize=4096)
def normalise(raw: str) -> Name:
    """The name without what a rebuild or another tool would change. Total: any text gives a name."""
    text, lambdas = _without_lambdas(" ".join(raw[:NAME_CHARS].replace(_PLACE, "?").split()))
    text = _VERSION.sub("", _CLONE.sub("", _ABI.sub("", text)))
    text = _QUALIFIER.sub("", _without_brackets(text)).strip()
    return Name(_without_return_type(text), lambdas, raw)


def _without_lambdas(text: str) -> tuple[str, tuple[int, ...]]:
    numbers: list[int] = []
    while match := _LAMBDA.search(text):  # innermost first: a lambda may stand in another's parameters
        numbers.append(int(match[1][:9]))
        text = f"{text[: match.start()]}{_PLACE}{text[match.end() :]}"
    return _CLANG_LAMBDA.sub(_PLACE, text).replace(_PLACE, "{lambda}"), tuple(numbers)


def _without_brackets(text: str) -> str:
    out, at = [], 0
    while at < len(text):
        operator = _OPERATOR.match(text, at) if text[at] == "o" and not _in_word(text, at) else None
        if operator:
            out.append(operator[0])
            at = operator.end()
        elif text[at] in "<(":
            out.append("{lambda}" if text.startswith("<lambda", at) else "")
            out.append("{anonymous}" if text.startswith("(anonymous namespace)", at) else "")
            at = _closing(text, at)
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _in_word(text: str, at: int) -> bool:
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")


def _closing(text: str, at: int) -> int:
    """Index behind the bracket that closes the one at ``at``; the text's end where it is cut."""
    depth = 0
    for index in range(at, len(text)):
        char = text[index]
        if char in "<({[":
            depth += 1
        elif char in ")}]" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def _without_return_type(text: str) -> str:
    """After brackets are gone, only a return type or ``operator new`` can still put a blank in a name."""
    operator = re.search(r"(?<!\w)operator(?!\w)", text)
    start = text.rfind(" ", 0, operator.start() if operator else len(text))
    return text[start + 1 :].lstrip("*&") or text


@lru_cache(maxsize=1)
def _lists() -> dict[str, Any]:
    # importlib.resources would do, but brings tempfile and the unpackers along: 12 ms
    lists: dict[str, Any] = toml.loads(Path(__file__).with_name("frames.toml").read_text("utf-8"))
    return lists


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)


def name_of(frame: Frame) -> str:
    """The frame's normalised name, empty where it has none."""
    return normalise(frame.function).text if frame.function else ""


def is_plumbing(frame: Frame) -> bool:
    """True for what stands under every fault or request: reporting, allocation, call wrappers, threads."""
    name, lists = name_of(frame), _lists()["plumbing"]
    if _matches(name, lists["meaningful"]):
        return False
    return any(_matches(name, patterns) for part, patterns in lists.items() if part != "meaningful")


def reader_kind(frame: Frame) -> str | None:
    """What a reader reads: "model" (freed by a sleep), "templates", "pure", or None for no reader."""
    name = name_of(frame)
    kinds = (entry["reads"] for entry in _lists()["reader"] if name and _matches(name, entry["frames"]))
    return next(kinds, None)


def is_reader(frame: Frame) -> bool:
    """True for code a request runs between the wake barrier and the post of its tasks."""
    return reader_kind(frame) is not None


def regex_splitter(frame: Frame) -> bool:
    """True for the regex executor and splitter, whose recursion follows the request's content."""
    return _matches(name_of(frame), _lists()["regex_splitter"]["frames"])


def is_http_thread(stack: StackFact) -> bool:
    """True when the thread belongs to the HTTP pool."""
    return any(_matches(name_of(frame), _lists()["http_thread"]["frames"]) for frame in stack.frames)


def serves_request(stack: StackFact) -> bool:
    """True when the thread is inside a request, not just waiting for one."""
    return any(_matches(name_of(frame), _lists()["http_thread"]["busy"]) for frame in stack.frames)


def route_handler(stack: StackFact) -> Handler | None:
    """The innermost route handler on the stack, or None where no frame is one."""
    rules = _lists()["handler"]
    for index, frame in enumerate(stack.frames):
        name = name_of(frame)
        if _matches(name, (rules["method"],)):
            return Handler(name.rpartition("::")[2], index, frame.function or "")
        wrapped = name == rules["wrapper"] and rules["wrapped"] in (frame.function or "")
        if wrapped or _matches(name, (rules["lambda"],)):
            return _inferred(stack.frames, index, rules["unnamed"])
    return None


def _inferred(frames: Sequence[Frame], index: int, unnamed: str) -> Handler:
    raw = frames[index].function or ""
    inner = [frame for frame in frames[max(0, index - CALLEE_FRAMES) : index] if not is_plumbing(frame)]
    callee = name_of(inner[-1]) if inner else ""
    for entry in _lists()["inferred"]:
        if callee and _matches(callee, entry["calls"]):
            return Handler(entry["handler"], index, raw, f"it calls {callee}: {entry['evidence']}")
    return Handler(unnamed, index, raw, "a lambda of init_routes whose callee does not tell the route")


def mark_inlined(frames: Sequence[Frame]) -> list[Frame]:
    """Debuggers list inlined calls as frames at one address: all of them but the outermost are inlined."""
    outer = [*frames, Frame()][1:]
    return [
        replace(
            frame,
            inlined=frame.inlined
            or (frame.ip is not None and frame.ip == next_.ip and frame.function != next_.function),
        )
        for frame, next_ in zip(frames, outer, strict=True)
    ]


def fold(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Frames with recursion folded: a cycle of up to three functions is kept once, with ``repeat``."""
    folded = list(frames)
    for length in range(1, MAX_CYCLE + 1):
        folded = _fold_cycle(folded, length)
    return tuple(folded)


def _fold_cycle(frames: list[Frame], length: int) -> list[Frame]:
    out: list[Frame] = []
    for frame in frames:
        out.append(frame)
        if len(out) >= 2 * length and _same(out[-length:], out[-2 * length : -length]):
            # The outer copy is dropped and counted in the inner one.
            kept = zip(out[-2 * length : -length], out[-length:], strict=True)
            out[-2 * length :] = [replace(a, repeat=a.repeat + b.repeat) for a, b in kept]
    return out


def _same(left: Sequence[Frame], right: Sequence[Frame]) -> bool:
    return all(
        bool(name_of(a)) and name_of(a) == name_of(b) and a.module == b.module
        for a, b in zip(left, right, strict=True)
    )
