"""The rules that make a signature, in order. Each has a predicate and an action that says what it did."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks import frames as meaning

SITE_FRAMES = 3  # telling frames in the site: two make different bugs equal, five make one bug many
PART_CHARS = 96  # of one name in a key; a longer one is cut and a digest added
DIGEST_CHARS = 8
BUILD_ID_CHARS = 16  # 64 bits name a build
SEPARATOR = "|"
OWN_STACKS = ("notes", "scan", "eu-stack", "stride", "gdb", "live")  # offsets that this program worked out
SURE = (None, "register", "unwound")
ABSENT = "-"


@dataclass
class Draft:
    """A signature in the making; ``frames`` are the stack's, innermost first, as the rules leave them."""

    stack: StackFact | None
    class_: str
    defect: str | None
    handler: str | None = None
    route: str | None = None
    frames: list[Frame] = field(default_factory=list)
    handler_index: int | None = None
    site: list[str] = field(default_factory=list)
    bug_key: str | None = None
    site_key: str | None = None


@dataclass(frozen=True)
class Rule:
    """``act`` changes the draft and returns one readable line."""

    name: str
    applies: Callable[[Draft], bool]
    act: Callable[[Draft], str]


def _has_stack(draft: Draft) -> bool:
    return draft.stack is not None and bool(draft.stack.frames)


def _take_frames(draft: Draft) -> str:
    every = draft.stack.frames if draft.stack else ()
    draft.frames = [frame for frame in every if not frame.inlined]
    left_out = len(every) - len(draft.frames)
    rung = draft.stack.rung if draft.stack else ABSENT
    skipped = f", {left_out} inlined left out" if left_out else ""
    return f"{len(draft.frames)} frames from rung {rung}{skipped}"


def _fold(draft: Draft) -> str:
    before = len(draft.frames)
    draft.frames = list(meaning.fold(draft.frames))
    deepest = max(draft.frames, key=lambda frame: frame.repeat)
    return (
        f"{before} frames folded to {len(draft.frames)}; "
        f"{meaning.name_of(deepest) or 'a nameless frame'} stands for {deepest.repeat}"
    )


def _recurses(draft: Draft) -> bool:
    return len(meaning.fold(draft.frames)) < len(draft.frames) or any(f.repeat > 1 for f in draft.frames)


def _find_handler(draft: Draft) -> str:
    found = meaning.route_handler(StackFact(frames=tuple(draft.frames)))
    if found is None:
        return "no frame is a route handler"
    draft.handler_index = found.frame_index
    if draft.handler is None:
        draft.handler = found.name
    return f"{found.name} at frame {found.frame_index}: {found.evidence}"


def _choose_site(draft: Draft) -> str:
    inner = draft.frames[: draft.handler_index]
    telling = [_key_name(frame) for frame in inner if _is_telling(frame)]
    if not telling and draft.handler_index is None:
        telling = [_key_name(frame) for frame in draft.frames if frame.function]
    draft.site = [_part(name) for name in telling[:SITE_FRAMES]]
    return f"first telling frames: {', '.join(draft.site)}" if draft.site else "no frame has a name"


def _is_telling(frame: Frame) -> bool:
    return bool(frame.function) and not meaning.is_plumbing(frame)


def _key_name(frame: Frame) -> str:
    return meaning.name_of(frame).replace(SEPARATOR, "/").replace(" ", "_")


def _part(text: str) -> str:
    """One part of a key: printable, bounded, still different when the texts differ."""
    clean = printable(text).replace(SEPARATOR, "?")
    if clean == text and len(text) <= PART_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:DIGEST_CHARS]
    return f"{clean[:PART_CHARS]}~{digest}"


def printable(text: str) -> str:
    """The text without anything a terminal would act on."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _place_site(draft: Draft) -> str:
    named = (f for f in draft.frames if f.build_id and f.offset is not None)
    frame = next((f for f in named if not meaning.is_plumbing(f)), None)
    if frame is None or frame.build_id is None or frame.offset is None:
        return _place_by_module(draft)
    draft.site_key = f"{frame.build_id[:BUILD_ID_CHARS]}+{frame.offset:#x}"
    return f"{draft.site_key} in {meaning.name_of(frame) or frame.module or 'a nameless frame'}"


def _place_by_module(draft: Draft) -> str:
    """Without any build-id the module's name stands for it: two builds may then share a key."""
    spots = module_offsets(draft.frames)
    if not spots or draft.stack is None or draft.stack.rung not in OWN_STACKS:
        return "no telling frame has a build-id and an offset"
    draft.site_key = spots[0]
    return f"{spots[0]}: no build-id is known, so the module's name stands for the build"


def module_offsets(frames: Sequence[Frame]) -> list[str]:
    """``module+offset`` of the first frames whose place in their file is known, innermost first.

    The offset counts from the file's load address, so that it is the same on every host and at every run.
    A scanned stack gives the instruction itself alone: its callers are not certain.
    """
    own = (frame for frame in frames if not (frame.function and meaning.is_plumbing(frame)))
    sure = [frame for frame in own if frame.trust in SURE and frame.module and frame.offset is not None]
    return [f"{_part(str(frame.module))}+{frame.offset:#x}" for frame in sure[:SITE_FRAMES]]


def _nameless(draft: Draft) -> bool:
    """A stripped build: the frames that would tell have places in their files and no names."""
    telling = [frame for frame in draft.frames if not (frame.function and meaning.is_plumbing(frame))]
    named = any(frame.function for frame in telling[:SITE_FRAMES])
    own = draft.stack is not None and draft.stack.rung in OWN_STACKS
    return not named and own and not draft.defect and bool(module_offsets(draft.frames))


def _stripped_key(draft: Draft) -> str:
    spots = module_offsets(draft.frames)
    key = _key(draft, [draft.handler or draft.route, "<".join(spots)])
    return f"{key}: the telling frames have no names, so modules and build-relative offsets count"


def _key(draft: Draft, parts: Sequence[str | None]) -> str:
    shown = [_part(part) if part else ABSENT for part in (draft.class_, draft.defect, *parts)]
    draft.bug_key = SEPARATOR.join(shown)
    return draft.bug_key


def _defect_key(draft: Draft) -> str:
    key = _key(draft, [draft.handler])
    return f"{key}: the defect is known, so the place inside the reader does not count"


def _site_key_parts(draft: Draft) -> str:
    where = draft.handler or draft.route
    key = _key(draft, [where, "<".join(draft.site) or None])
    return f"{key}: {'no handler' if draft.defect else 'no defect'} is known, so the telling frames count"


def _stackless_key(draft: Draft) -> str:
    key = _key(draft, [draft.handler or draft.route])
    return f"{key}: no frame has a name, so class, defect and route count"


PIPELINE: tuple[Rule, ...] = (
    Rule("frames", _has_stack, _take_frames),
    Rule("recursion", _recurses, _fold),
    Rule("handler", _has_stack, _find_handler),
    Rule("site", _has_stack, _choose_site),
    Rule("site key", _has_stack, _place_site),
    Rule("bug key", _nameless, _stripped_key),
    Rule(
        "bug key", lambda d: d.bug_key is None and not d.site and not (d.defect and d.handler), _stackless_key
    ),
    Rule("bug key", lambda d: d.bug_key is None and bool(d.defect and d.handler), _defect_key),
    Rule("bug key", lambda d: d.bug_key is None, _site_key_parts),
)
