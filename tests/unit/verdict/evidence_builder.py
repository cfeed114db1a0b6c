"""Hand-made evidence for the verdict rules, in the vocabulary of real cores and logs."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import (
    AbortFact,
    CoreFact,
    ExitFact,
    Fact,
    Frame,
    KernelFact,
    LogFact,
    LoopFact,
    StackFact,
    to_evidence,
)

PORT = 8080
HTTP = (
    "std::_Function_handler<std::unique_ptr<server_http_res, std::default_delete<server_http_res> > "
    "(server_http_req const&), server_routes::init_routes()::{lambda(server_http_req const&)#11}>"
    "::_M_invoke(std::_Any_data const&, server_http_req const&)",
    "httplib::Server::process_request(httplib::Stream&, std::string const&, int, std::string const&, int, "
    "bool, bool&, std::function<void (httplib::Request&)> const&, bool*)",
    "httplib::ThreadPool::worker(bool)",
    "execute_native_thread_routine",
    "start_thread",
    "__clone3",
)
TOKENIZE = (
    "llama_vocab::impl::tokenize(std::string const&, bool, bool) const",
    "llama_vocab::tokenize(std::string const&, bool, bool) const",
    "common_tokenize(llama_vocab const*, std::string const&, bool, bool)",
    "tokenize_mixed(llama_vocab const*, common_json const&, bool, bool)",
)
COUNT_AFFECTED = (
    "server_routes::handle_count_tokens(llama_vocab const*, mtmd_context*, mtmd_helper_init_opt const&, "
    "server_http_req const&, task_response_type)"
)
COUNT_FIXED = "server_routes::handle_count_tokens(server_http_req const&, task_response_type)"
COMPLETIONS = (
    "server_routes::handle_completions_impl(server_http_req const&, server_task_type, common_json const&, "
    "std::vector<std::vector<unsigned char> > const&, task_response_type)"
)
RESEGMENT = "llm_tokenizer_spm_session::resegment(llm_symbol&, std::vector<int, std::allocator<int> >&)"
REGEX = (
    "std::__detail::_Executor<char const*, std::allocator<std::sub_match<char const*> >, "
    "std::regex_traits<char>, true>::_M_dfs(std::__detail::_Executor::_Match_mode, long)"
)
JSON_RECURSION = "nlohmann::json_abi_v3_12_0::detail::parser::sax_parse_internal(nlohmann::detail::sax*)"


class Maker:
    """Gives every piece of evidence its id in order."""

    def __init__(self) -> None:
        self.made: list[Evidence] = []

    def add(
        self,
        fact: Fact,
        trust: Trust,
        mono: float | None = None,
        elapsed: float | None = None,
        text: str | None = None,
    ) -> Maker:
        number = len(self.made) + 1
        self.made.append(
            to_evidence(
                fact,
                id=f"E{number}",
                source="test",
                text=text or f"{fact.KIND} {number}",
                trust=trust,
                mono=mono,
                elapsed=elapsed,
            )
        )
        return self

    def log(self, *events: str, trust: Trust = Trust.SERVER) -> Maker:
        for event in events:
            task = 7 if event.startswith("task-") else None
            text = "model loaded" if event == "loaded" else event
            port = float(PORT) if event == "listening" else None
            self.add(
                LogFact(event=event, task_id=task, value=port),
                trust,
                elapsed=float(len(self.made)),
                text=text,
            )
        return self

    def dated(self, mono: float) -> Maker:
        """The last wake line so far with the journal's stamp."""
        found = [n for n, e in enumerate(self.made) if e.data.get("event") in ("enter-sleep", "exit-sleep")]
        at = max(found, default=0)
        self.made[at] = self.made[at].model_copy(update={"mono": mono})
        return self

    def kernel(
        self,
        shape: str = "segfault",
        mono: float | None = 100.0,
        trust: Trust = Trust.KERNEL,
        **fields: object,
    ) -> Maker:
        return self.add(KernelFact(shape=shape, **fields), trust, mono=mono)  # type: ignore[arg-type]

    def core(self, signal: int = 11, **fields: object) -> Maker:
        """A core whose --port is the one that the log's listening line names, unless told otherwise."""
        fields = {"ports": (PORT,), **fields}
        return self.add(CoreFact(signal=signal, **fields), Trust.KERNEL)  # type: ignore[arg-type]

    def stack(
        self,
        functions: Sequence[str | tuple[str, int] | None],
        rung: str = "eu-stack",
        *,
        crashed: bool = True,
        live: bool = False,
        complete: bool = True,
        trust: Trust = Trust.KERNEL,
    ) -> Maker:
        frames = tuple(Frame(f[0], repeat=f[1]) if isinstance(f, tuple) else Frame(f) for f in functions)
        return self.add(
            StackFact(crashed=crashed, rung=rung, frames=frames, complete=complete, live=live), trust
        )

    def loop(self, phase: str, *, sleeping: bool | None = None, last_ms: int | None = None) -> Maker:
        how = ("frames", "registers") + (("flags",) if sleeping is not None else ())
        return self.add(
            LoopFact(phase=phase, how=how, sleeping=sleeping, time_last_task_ms=last_ms), Trust.KERNEL
        )

    def exit(
        self, signal: int | None = None, code: int | None = None, by: str = "waitpid", **fields: object
    ) -> Maker:
        return self.add(ExitFact(by=by, signal=signal, code=code, **fields), Trust.SUPERVISOR)  # type: ignore[arg-type]

    def abort(self, shape: str, message: str = "text", trust: Trust = Trust.SERVER) -> Maker:
        return self.add(AbortFact(shape=shape, message=message), trust)


SLEPT = ("listening", "enter-sleep")
WOKEN = ("listening", "enter-sleep", "exit-sleep", "loading")
AWAKE_AGAIN = ("listening", "enter-sleep", "exit-sleep", "loading", "task-launched", "task-done")
NEVER_SLEPT = ("listening", "task-launched", "task-done")
