"""WHERE: what one stack says, in the few words the rules need."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks.frames import is_plumbing, name_of, reader_kind, regex_splitter, route_handler

RUNG_RANK = {"gdb": 5, "stride": 5, "eu-stack": 4, "live": 4, "self-trace": 3, "pasted": 2}
RUNG_RANK |= {"scan": 1, "notes": 1}
CYCLE_LIMIT = (
    4  # functions that call each other in turn; the regex splitter's cycle has two, its frames three
)
CORE_RUNGS = ("notes", "scan", "eu-stack", "stride", "gdb")
SCANNED = "scan"
POOR_RUNGS = ("notes", SCANNED)
SAME_FAULT_FRAMES = 4  # distinct telling functions that two views of one fault share; one alone is too common
DEEP_RECURSION = 200  # folded frames; ordinary nesting of llama-server stays far below
ALLOCATOR = ("malloc", "free", "calloc", "realloc", "operator new", "operator delete", "unlink_chunk")
COUNT_TOKENS = "handle_count_tokens"
# D1's mark, as a symbol's signature says it and as gdb names the arguments.
STALE_ARGUMENT = re.compile(r"handle_count_tokens ?\((?:llama_vocab const ?\*|(?:this, )?vocab\b)")
SOUND_ARGUMENT = re.compile(r"handle_count_tokens ?\((?:server_http_req const ?&|(?:this, )?req\b)")
# A build without ggml's own handler shows only the library's std::terminate (the wheels do).
UNCAUGHT = ("ggml_uncaught_exception", "__verbose_terminate", "std::terminate()")
WAITING_FOR_RESULT = ("server_response::recv", "server_response_reader::next", "server_response_reader::wait")


@dataclass(frozen=True)
class StackReading:
    """One thread's stack, read.

    ``handler`` is the route handler's name; ``stale_signature`` is True when that handler takes the
    vocabulary as an argument (the D1 mark), False when it visibly does not, None when it is another
    handler; ``model_reader`` names the innermost function that reads the loaded model.
    """

    stack: StackFact
    id: str
    handler: str | None = None
    stale_signature: bool | None = None
    model_reader: str | None = None
    regex: bool = False
    recursion: str | None = None
    recursion_reads: str | None = None  # what the repeated function reads: model, templates, pure
    depth: int = 0
    in_allocator: bool = False
    waits_for_result: bool = False
    in_barrier: bool = False
    aborts: bool = False
    aborts_in_reader: bool = False  # ggml_abort called by code that reads the model
    exception: bool = False
    reloading: bool = False
    forgeable: bool = False

    @property
    def from_core(self) -> bool:
        return self.stack.rung in CORE_RUNGS

    @property
    def alone(self) -> bool:
        """One frame of a core, and not the beginning of its thread: the unwinder found no caller."""
        return self.from_core and len(self.stack.frames) == 1 and not self.stack.complete

    @property
    def named(self) -> bool:
        """Callers are known by name: neither the registers' one frame nor words on a stack."""
        return self.stack.rung not in POOR_RUNGS and any(frame.function for frame in self.stack.frames)

    def agrees_with(self, core: StackReading) -> bool:
        """The same fault by thread id, by the faulting instruction or by the innermost named functions."""
        mine, theirs = self.stack, core.stack
        if mine.tid is not None and mine.tid == theirs.tid:
            return True
        if mine.frames and theirs.frames and mine.frames[0].ip and mine.frames[0].ip == theirs.frames[0].ip:
            return True
        names, others = _innermost(mine), _innermost(theirs)
        return bool(names) and names == others

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Prefer a stack that reaches a handler, then the more telling rung."""
        return (self.handler is not None, RUNG_RANK.get(self.stack.rung, 0), len(self.stack.frames))

    @property
    def maybe_stale(self) -> bool:
        """D1's handler, and nothing says that it does not take the vocabulary: D1 cannot be excluded."""
        return self.handler == COUNT_TOKENS and self.stale_signature is not False

    @property
    def reads_model_under_handler(self) -> bool:
        return self.handler is not None and self.model_reader is not None and not self.in_barrier


def _innermost(stack: StackFact) -> tuple[str, ...]:
    telling = (name_of(frame) for frame in stack.frames if frame.function and not is_plumbing(frame))
    return tuple(dict.fromkeys(telling))[:SAME_FAULT_FRAMES]


def read_stack(stack: StackFact, evidence_id: str, *, forgeable: bool = False) -> StackReading:
    """Read one stack; never raises on unknown functions."""
    names = [frame.function or "" for frame in stack.frames]
    handler = route_handler(stack)
    repeated, depth = _recursion(stack)
    reading = StackReading(
        stack=stack,
        id=evidence_id,
        handler=handler.name if handler else None,
        stale_signature=_stale(handler.raw if handler else None),
        model_reader=next((name_of(f) for f in stack.frames if reader_kind(f) == "model"), None),
        regex=any(regex_splitter(frame) for frame in stack.frames),
        recursion=name_of(repeated) if repeated else None,
        recursion_reads=reader_kind(repeated) if repeated else None,
        depth=depth if repeated else 0,
        in_allocator=_top_is_allocator(stack.frames),
        waits_for_result=any(part in name for name in names for part in WAITING_FOR_RESULT),
        in_barrier=any("wait_until_no_sleep" in name for name in names),
        aborts=any("ggml_abort" in name for name in names),
        aborts_in_reader=_aborts_in_reader(stack.frames),
        exception=any(part in name for name in names for part in UNCAUGHT),
        reloading=_reloading(names),
        forgeable=forgeable,
    )
    return _cautious(reading) if stack.rung == SCANNED else reading


def _cautious(reading: StackReading) -> StackReading:
    """Words on a stack may be left over from earlier calls: what a rule would conclude from one is not said.

    A handler and a reader stay: the rules that use them give at most a weak verdict on such a stack.
    """
    return replace(
        reading,
        regex=False,
        recursion=None,
        recursion_reads=None,
        depth=0,
        waits_for_result=False,
        aborts=False,
        aborts_in_reader=False,
        exception=False,
        reloading=False,
    )


def _recursion(stack: StackFact) -> tuple[Frame | None, int]:
    """The frame of the function that stands most often on the stack, and how often; None when not deep.

    Functions that call each other in turn fold into no single frame, and a tool that stops at its frame
    limit (eu-stack: 256) shows a cycle of three some 85 times each: its share of a cut stack tells then.
    """
    counts: Counter[str] = Counter()
    for frame in stack.frames:
        counts[name_of(frame)] += frame.repeat
    name, depth = next(iter(counts.most_common(1)), ("", 0))
    total = sum(counts.values())
    cut = not stack.complete and total >= DEEP_RECURSION and depth * CYCLE_LIMIT >= total
    if not name or not (depth >= DEEP_RECURSION or cut):
        return None, 0
    return next(frame for frame in stack.frames if name_of(frame) == name), depth


def _stale(raw: str | None) -> bool | None:
    """None where the arguments are not shown, or cut before the one that tells."""
    if raw is None or STALE_ARGUMENT.search(raw):
        return None if raw is None else True
    return False if SOUND_ARGUMENT.search(raw) else None


def _top_is_allocator(frames: tuple[Frame, ...]) -> bool:
    """The fault is inside the allocator, seen below the frames that report it."""
    for frame in frames:
        if any(word in name_of(frame) for word in ALLOCATOR):
            return True
        if not is_plumbing(frame):
            return False
    return False


def _aborts_in_reader(frames: tuple[Frame, ...]) -> bool:
    at = next((i for i, frame in enumerate(frames) if name_of(frame) == "ggml_abort"), None)
    caller = next((f for f in frames[at + 1 :] if not is_plumbing(f)), None) if at is not None else None
    return caller is not None and reader_kind(caller) == "model"


def _reloading(names: list[str]) -> bool:
    under_loop = any("server_queue::start_loop" in name for name in names)
    return under_loop and any("load_model" in name or "init()::{lambda(bool" in name for name in names)
