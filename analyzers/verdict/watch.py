"""What several looks at one living server add up to: what moved between them, and where the loop stood.

Sources: two LookFacts (/proc, nothing stopped), live stacks, /metrics counters, TCP_INFO of the clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from analyzers.contracts.facts import ProbeFact, SocketFact, StackFact
from analyzers.contracts.watched import LookFact
from analyzers.core.loopframes import LoopFrames, loop_frames
from analyzers.verdict.case import Case, Seen, ids_of

T = TypeVar("T", LookFact, ProbeFact, SocketFact, StackFact)
# Between two looks. A busy thread is charged its whole time; a loop that only wakes for its one-second tick
# was charged under a thousandth.
IDLE_SHARE, BUSY_SHARE = 0.02, 0.2
# Memory and file bytes drift by a few pages while a server idles; a load moves megabytes.
MOVED_BYTES = 1 << 20
# Waits of the GPU runtimes by the public names of their interfaces; inside them a thread may spin or sleep.
GPU_WAIT = re.compile(
    r"\b(?:cu|cuda|hip|musa)(?:Stream|Device|Event|Ctx)Synchronize"
    r"|\bggml_(?:backend_)?(?:cuda|hip|vk|vulkan|metal|sycl|cann|musa|opencl)\w*synchronize"
    r"|\bvkWaitForFences|\bvkQueueWaitIdle|\bvkWaitSemaphores|\bvk::(?:Device|Queue)::wait\w+|\bggml_vk_wait"
    r"|\bwaitUntilCompleted|\bclFinish|\bclWaitForEvents|\bze(?:CommandQueue|Event|Fence)\w*[Ss]ynchronize"
    r"|\baclrtSynchronize\w+|\bhsa_signal_wait\w+"
)
GPU_MODULE = re.compile(r"lib(?:cuda|amdhip64|hsa-runtime64|hsakmt|ze_intel_gpu|OpenCL)\.so")
# A driver library is no name of a wait by itself; with its thread in one of these calls it is one.
DRIVER_CALLS = ("ioctl", "poll", "ppoll", "sched_yield", "futex", "nanosleep")
# Kernels and shaders are compiled at their first use, for minutes on some machines, in the same libraries.
COMPILING = re.compile(
    r"\bcu(?:Module|Library|Link)\w+|\bnvrtc|\bhiprtc|\bhipModuleLoad|\bvkCreateComputePipelines"
    r"|\bggml_vk_(?:create_pipeline|load_shaders)|\bclBuildProgram|newLibraryWith|newComputePipelineState"
)
COMPILER_MODULE = re.compile(r"ptxjitcompiler|libnvrtc|libhiprtc|libamd_comgr|libLLVM|libigc")
# Another machine computes, and this thread waits for the network meanwhile (ggml-rpc).
REMOTE = re.compile(r"\bggml_backend_rpc_|\bsend_rpc_cmd")
COMPUTING = re.compile(
    r"\bggml_(?:graph_compute|compute_forward|vec_|backend_\w*graph_compute)|\bllama_decode\b"
)
GRAMMAR = re.compile(
    r"\bllama_grammar_|\bllama_sampler|\bcommon_sampler|\bllguidance|\bstd::__detail::_Executor"
)
OWN = re.compile(r"\b(?:llama|ggml|server|common|mtmd)_")
DRIVER_DEPTH = 6  # frames from the top within which a driver's library counts as where the thread is
SAME_TASK = 3  # frames beneath start_loop: the queue, the task or update, and what it is at
STOPPED, DISK_SLEEP = "T", "D"  # state letters of proc(5)


@dataclass(frozen=True)
class Watch:
    """One case seen as a living process. Deltas are between the first and the last look that told a figure;
    None when fewer than two did."""

    case: Case

    @cached_property
    def last(self) -> LookFact | None:
        """The last look of all."""
        return self.case.looks[-1].fact if self.case.looks else None

    @cached_property
    def span(self) -> float:
        """Seconds between the first and the last look; 0.0 for fewer than two."""
        return _span(self.case.looks)

    @cached_property
    def cpu_share(self) -> float | None:
        """CPU seconds of all threads per second between the looks; above 1 where several worked."""
        used = _rise([seen.fact.cpu_seconds for seen in self.case.looks])
        return None if used is None or self.span <= 0 else used / self.span

    @cached_property
    def bytes_moved(self) -> bool:
        """Files were read, or memory grew, between the looks."""
        read = _rise([seen.fact.read_bytes for seen in self.case.looks]) or 0
        grown = _rise([seen.fact.resident_bytes for seen in self.case.looks]) or 0
        return read >= MOVED_BYTES or grown >= MOVED_BYTES

    @cached_property
    def loops(self) -> list[tuple[Seen[StackFact], LoopFrames]]:
        """Live stacks of the one queue loop, in the order taken; empty when there are several loops."""
        live = [seen for seen in self.case.stacks if seen.fact.live]
        pairs = [(seen, loop) for seen in live for loop in loop_frames([seen.fact])]
        return pairs if len({seen.fact.tid for seen, _ in pairs}) == 1 else []

    @property
    def loop_at_work(self) -> bool:
        """Every stack of the loop is inside a task, a load or a free: never in the loop's own wait."""
        return bool(self.loops) and not any(loop.in_wait for _, loop in self.loops)

    @property
    def loop_span(self) -> float:
        """Seconds between the first and the last stack of the loop."""
        return _span([seen for seen, _ in self.loops])

    @property
    def loop_stood(self) -> bool:
        """The loop stood at the very same frames in its first and its last stack."""
        first, last = self._ends()
        return bool(first) and first == last

    @property
    def loop_in_same_task(self) -> bool:
        """The outer frames of the task are the same in both; the innermost ones may differ."""
        first, last = self._ends()
        return bool(first) and first[:SAME_TASK] == last[:SAME_TASK]

    def _ends(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if len(self.loops) < 2:
            return (), ()
        first, last = self.loops[0][1].beneath, self.loops[-1][1].beneath
        return tuple(map(_bare, first)), tuple(map(_bare, last))

    @property
    def loop_place(self) -> str:
        """The innermost function of the server's own code in which the loop stands, for a sentence."""
        named = [_bare(name) for name in reversed(self.loops[-1][1].beneath) if name] if self.loops else []
        own = [name for name in named if OWN.search(name)]
        return next(iter((*own, *named)), "an unnamed function")

    @cached_property
    def loop_cpu_share(self) -> float | None:
        """CPU seconds of the loop's thread per second between the looks."""
        if not self.loops or self.span <= 0:
            return None
        tid = self.loops[-1][0].fact.tid
        told = [t.cpu_seconds for seen in self.case.looks for t in seen.fact.threads if t.tid == tid]
        used = _rise(told)
        return None if used is None else used / self.span

    @property
    def loop_state(self) -> str | None:
        """The kernel's state letter of the loop's thread in the last look."""
        tid = self.loops[-1][0].fact.tid if self.loops else None
        states = [t.state for t in (self.last.threads if self.last else ()) if t.tid == tid]
        return states[0] if states else None

    @property
    def in_gpu_wait(self) -> bool:
        """Every stack of the loop is inside a wait of a GPU runtime."""
        waits = bool(self.loops) and all(_gpu(seen.fact) for seen, _ in self.loops)
        return waits and not self.compiling

    @property
    def compiling(self) -> bool:
        """The loop's last stack is inside the compiler of a GPU runtime."""
        if not self.loops:
            return False
        stack = self.loops[-1][0].fact
        return _any(stack, COMPILING) or any(COMPILER_MODULE.search(f.module or "") for f in stack.frames)

    @property
    def remote(self) -> bool:
        """The loop's last stack waits for another machine that computes for it."""
        return bool(self.loops) and _any(self.loops[-1][0].fact, REMOTE)

    @property
    def computing(self) -> bool:
        """The loop's last stack is inside a decode."""
        return bool(self.loops) and _any(self.loops[-1][0].fact, COMPUTING)

    @property
    def in_grammar(self) -> bool:
        """The loop's last stack is inside sampling, grammars included, and not inside a decode."""
        return bool(self.loops) and not self.computing and _any(self.loops[-1][0].fact, GRAMMAR)

    @cached_property
    def decodes(self) -> int | None:
        """How many batches were worked off between the first and the last /metrics that told."""
        told = [seen.fact.decodes for seen in self.case.probes if seen.fact.decodes is not None]
        rise = _rise(told)
        return None if rise is None else int(rise)

    @cached_property
    def streams(self) -> list[Seen[SocketFact]]:
        """Connections that were sent more between two samples: an answer that moves."""
        first: dict[str, int] = {}
        moved: dict[str, Seen[SocketFact]] = {}
        for seen in self.case.sockets:
            peer, sent = seen.fact.peer, seen.fact.bytes_sent
            if peer is None or sent is None:
                continue
            if sent > first.setdefault(peer, sent):
                moved[peer] = seen
        return list(moved.values())

    @property
    def waiting(self) -> list[str]:
        """Ids of what shows that somebody waits for the loop."""
        clients = [seen.id for seen in self.case.sockets if seen.fact.unanswered]
        threads = [r.id for r in self.case.readings if r.stack.live and r.waits_for_result]
        probes = [s.id for s in self.case.probes if s.fact.route != "/health" and unanswered(s.fact)]
        busy = [s.id for s in self.case.probes if s.fact.requests_processing or s.fact.requests_deferred]
        return [*probes[-1:], *busy[-1:], *clients[-2:], *threads[-2:]]

    @property
    def look_ids(self) -> tuple[str, ...]:
        """Ids of the first and the last look and of the loop's first and last stack."""
        looks, loops = self.case.looks, [seen for seen, _ in self.loops]
        return tuple(dict.fromkeys((*ids_of(looks[:1], looks[-1:]), *ids_of(loops[:1], loops[-1:]))))


def unanswered(probe: ProbeFact) -> bool:
    """The call timed out; a refused connection or a broken answer is something else."""
    if probe.status is not None:
        return False
    if probe.outcome is not None:
        return probe.outcome == "timeout"
    return probe.timeout is not None and (probe.seconds is None or probe.seconds >= probe.timeout)


def last_of(case: Case, *routes: str) -> Seen[ProbeFact] | None:
    """The last probe of these routes."""
    return next((seen for seen in reversed(case.probes) if seen.fact.route in routes), None)


def _span(seen: Sequence[Seen[T]]) -> float:
    stamps = [one.evidence.mono for one in seen if one.evidence.mono is not None]
    return max(stamps) - min(stamps) if len(stamps) > 1 else 0.0


def _rise(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return known[-1] - known[0] if len(known) > 1 else None


def _bare(name: str) -> str:
    return name.partition("(")[0].rpartition(" ")[2]


def _any(stack: StackFact, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(frame.function or "") for frame in stack.frames)


def _gpu(stack: StackFact) -> bool:
    if _any(stack, GPU_WAIT):
        return True
    top = (stack.frames[0].function or "") if stack.frames else ""
    in_driver = any(GPU_MODULE.search(frame.module or "") for frame in stack.frames[:DRIVER_DEPTH])
    return in_driver and any(call in top for call in DRIVER_CALLS)
