"""Hand-made looks at living servers, in the vocabulary of what real ones showed (tests/e2e/e2e_hangs.py)."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import Frame, ProbeFact, SocketFact, StackFact
from analyzers.contracts.watched import LookFact, ThreadLook
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import Maker

LOOP_TID, HTTP_TID = 200, 300
START = (
    "server_queue::start_loop(long)",
    "init(common_params&, server_context&)",
    "start_thread",
    "__clone3",
)
IDLE = ("__futex_abstimed_wait_common", "pthread_cond_timedwait@@GLIBC_2.3.2", *START)
TASK = (
    "server_context_impl::process_single_task(server_task&&, bool)",
    "server_queue::process_new_tasks(bool)",
    *START,
)
SAVING = ("__open", "__fopen_internal", "llama_file::llama_file(char const*, char const*, bool)", *TASK)
UPDATE = (
    "server_context_impl::update_slots()",
    "std::_Function_handler<void (), server_context_impl>",
    *START,
)
DECODE = ("ggml_vec_dot_f32", "ggml_graph_compute", "llama_decode", *UPDATE)
GRAMMAR = ("llama_grammar_advance_stack", "llama_grammar_accept_token", "common_sampler_accept", *UPDATE)
CUDA_WAIT = (
    "cuStreamSynchronize",
    "cudaStreamSynchronize",
    "ggml_backend_cuda_synchronize",
    "llama_decode",
    *UPDATE,
)
RELOAD = (
    "llama_model_loader::load_all_data",
    "llama_model_load",
    "server_context_impl::load_model(common_params&)",
    "server_context_impl::init()::{lambda(bool)#5}",
    *START,
)
UPLOADING = (
    "__poll",
    "httplib::detail::SocketStream::read(char*, unsigned long)",
    "httplib::Server::process_request(httplib::Stream&)",
    "httplib::ThreadPool::worker(bool)",
    "__clone3",
)
FREE = (
    "pthread_cond_timedwait",
    "httplib::ThreadPool::worker(bool)",
    "execute_native_thread_routine",
    "__clone3",
)
LISTENING = ("accept4", "httplib::Server::listen_internal()", "start_thread", "__clone3")
DEAF = ("clock_nanosleep@GLIBC_2.2.5", "__nanosleep", "httplib::Server::listen_internal()", "__clone3")


class Watched(Maker):
    """A living server looked at at given seconds of CLOCK_MONOTONIC."""

    def look(self, mono: float, *, loop_cpu: float = 0.0, loop_state: str = "S", **fields: object) -> Watched:
        threads = (ThreadLook(tid=LOOP_TID, cpu_seconds=loop_cpu, state=loop_state),)
        known: dict[str, object] = {
            "state": "S",
            "cpu_seconds": loop_cpu,
            "resident_bytes": 50 << 20,
            **fields,
        }
        self.add(LookFact(threads=threads, **known), Trust.KERNEL, mono=mono)  # type: ignore[arg-type]
        return self

    def at(
        self, mono: float, functions: Sequence[str], tid: int = LOOP_TID, module: str | None = None
    ) -> Watched:
        frames = tuple(Frame(name, module=module) for name in functions)
        stack = StackFact(tid=tid, rung="live", live=True, complete=True, frames=frames)
        self.add(stack, Trust.KERNEL, mono=mono)
        return self

    def probe(self, route: str, status: int | None, mono: float = 100.0, **fields: object) -> Watched:
        outcome = "answered" if status else "timeout"
        fact = ProbeFact(route=route, status=status, timeout=2.0, outcome=outcome, **fields)  # type: ignore[arg-type]
        self.add(fact, Trust.SERVER, mono=mono)
        return self

    def client(self, mono: float = 100.0, **fields: object) -> Watched:
        known: dict[str, object] = {"peer": "loopback:1", "bytes_received": 90, "bytes_sent": 0, **fields}
        self.add(SocketFact(**known), Trust.KERNEL, mono=mono)  # type: ignore[arg-type]
        return self


def found(maker: Maker) -> Finding:
    """The verdict; a rule that fails is an error here."""
    notes: list[str] = []
    finding = decide(build_case(maker.made), notes)
    assert notes == []
    return finding


def stuck(frames: Sequence[str] = SAVING, seconds: float = 6.0, cpu: float = 0.0) -> Watched:
    """Two looks at a loop inside one task, with somebody waiting."""
    made = Watched()
    made.log("listening", "task-launched")
    made.look(100.0).at(100.0, frames).probe("/health", 200)
    made.look(100.0 + seconds, loop_cpu=cpu).at(100.0 + seconds, frames).probe("/metrics", None)
    return made
