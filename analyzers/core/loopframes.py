"""What the frames of the queue's loop thread say about its phase.

The loop thread has a frame ``server_queue::start_loop``. The names beneath it are those of llama.cpp's
tools/server (b11063 … b11549), of libstdc++ and of glibc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.facts import Frame, StackFact

SCANNED = "scan"
AWAKE, ASLEEP, UNLOADING, WAKING, JUST_WOKEN = "awake", "asleep", "unloading", "waking", "just-woken"
IN_CALLBACK = frozenset({UNLOADING, WAKING})

# Only the function itself: lambdas and template arguments name start_loop on the worker's stack too.
START_LOOP = re.compile(
    r"(?:\w+ )*server_queue::start_loop(?:\([^()]*\))?(?: ?\[clone [^\]]*\])?(?:\.\w+)?"
    r"|_ZN12server_queue10start_loopE\w*(?:\.\w+)?"
)
WORKER_LOOP = re.compile(r"server_queue::worker_loop\b|_ZN12server_queue11worker_loopE")
GLIBC = r"(?:__GI_)?_*"  # internal aliases of one function, as symbol tables name them
PLUMBING = re.compile(  # between start_loop and the C library, when inlined frames are shown
    r"(?:\w+ )*std::(?:_V2::)?condition_variable(?:_any)?::(?:__?)?wait|(?:\w+ )*std::(?:unique_lock|mutex)\b"
    r"|__gthread_|_ZNSt18condition_variable4waitE"
)
TIMED_WAIT = re.compile(GLIBC + r"pthread_cond_(?:timedwait|clockwait)")
UNTIMED_WAIT = re.compile(GLIBC + r"pthread_cond_wait(?!_common)")
MUTEX = re.compile(GLIBC + r"(?:pthread_mutex_(?:un)?lock|lll_lock)")
NOTIFY = re.compile(r"(?:\w+ )*std::condition_variable::notify_all|" + GLIBC + "pthread_cond_broadcast")
SERVING = re.compile(
    r"(?:\w+ )*server_queue::(?:process_new_tasks|yield_to_queue)\b"
    r"|(?:\w+ )*server_context(?:_impl)?::(?:update_slots|process_single_task)\b"
    r"|(?:\w+ )*std::_Function_handler<void \(\), server_context"  # the update_slots callback
)
LOADING = re.compile(
    r"\bserver_context(?:_impl)?::load_model\b|\bcommon_init_from_params\b|\bllama_model_load|\bload_model\("
    r"|\bcommon_init_result::common_init_result\b"
)
FREEING = re.compile(
    r"llama_model::~llama_model|common_init_result::~common_init_result|llama_context::~llama_context"
    r"|\bserver_context(?:_impl)?::destroy\b|\bllama_(?:model_)?free\b"
)
EITHER_WAY = re.compile(
    r"\bserver_routes::update_cached_responses\b|::handle_sleeping_state\b"
    r"|server_context(?:_impl)?::.*lambda\(bool\)"
)


@dataclass(frozen=True)
class LoopFrames:
    """The frames beneath start_loop, nearest to it first, and its own frame."""

    stack: StackFact
    loop: Frame
    beneath: tuple[str, ...]

    @property
    def nearest(self) -> str:
        """The first named frame beneath start_loop that is not library plumbing; empty for none."""
        return next((name for name in self.beneath if not PLUMBING.match(name)), "")

    @property
    def in_wait(self) -> bool:
        """start_loop itself waits on a condition, without a callback in between."""
        return bool(TIMED_WAIT.match(self.nearest) or UNTIMED_WAIT.match(self.nearest))

    def phases(self) -> frozenset[str]:
        """The phases these frames allow; empty when they do not tell."""
        near = self.nearest
        for pattern, phases in _DIRECT:
            if pattern.match(near):
                return phases
        return self._callback_phases()

    def _callback_phases(self) -> frozenset[str]:
        """Decided by the telling frame nearest to start_loop: a load may free and a free may load beneath."""
        either = False
        for name in self.beneath:
            if SERVING.match(name):
                return frozenset({AWAKE})
            if FREEING.search(name):
                return frozenset({UNLOADING})
            if LOADING.search(name):
                return frozenset({WAKING})
            either = either or bool(EITHER_WAY.search(name))
        return IN_CALLBACK if either else frozenset()


_DIRECT: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (TIMED_WAIT, frozenset({AWAKE})),
    (UNTIMED_WAIT, frozenset({ASLEEP})),
    (NOTIFY, frozenset({JUST_WOKEN})),  # start_loop notifies all only at the end of a wake
    (MUTEX, frozenset({AWAKE, JUST_WOKEN})),
)


def loop_frames(stacks: Sequence[StackFact]) -> list[LoopFrames]:
    """Every stack of a queue loop. One for each server that the process hosts.

    A scanned stack is no witness: what stands on it may be left over from an earlier round of the loop.
    """
    found = (_of_stack(stack) for stack in stacks if stack.rung != SCANNED)
    return [loop for loop in found if loop is not None]


def _of_stack(stack: StackFact) -> LoopFrames | None:
    names = [frame.function or "" for frame in stack.frames]
    if any(WORKER_LOOP.search(name) for name in names):
        return None
    index = next((i for i, name in enumerate(names) if START_LOOP.fullmatch(name)), None)
    if index is None:
        return None
    return LoopFrames(stack, stack.frames[index], tuple(reversed(names[:index])))
