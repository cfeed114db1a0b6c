"""The table the product stands on: {kernel shape} x {sleep or no sleep evidence} x {reader, no reader}.

Half of all real D2 crashes look like a stack overflow to the kernel, and every sleep signature has a twin
without sleep. No cell may blame sleep without sleep evidence of the same process, and none may miss it.
"""

from __future__ import annotations

import itertools

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import (
    AbortFact,
    AnswerFact,
    LogFact,
    LoopFact,
    ModelFileFact,
    ProbeFact,
    SocketFact,
)
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import (
    AWAKE_AGAIN,
    COMPLETIONS,
    COUNT_AFFECTED,
    COUNT_FIXED,
    HTTP,
    JSON_RECURSION,
    NEVER_SLEPT,
    REGEX,
    RESEGMENT,
    SLEPT,
    TOKENIZE,
    WOKEN,
    Maker,
)

SHAPES = {
    "segfault": {"shape": "segfault", "error": 4, "object": "xllamacpp.abi3.so"},
    "gpf": {"shape": "gpf", "error": 0, "object": "xllamacpp.abi3.so"},
    "in-malloc": {"shape": "segfault", "error": 6, "object": "libc.so.6"},
    "overflow": {"shape": "segfault", "error": 6, "object": "libc.so.6", "stack_overflow": True},
}
READER = (*TOKENIZE, COMPLETIONS, *HTTP)
NO_READER = ("common_json::dump(int) const", COMPLETIONS, *HTTP)
RECURSION = ("_int_malloc", (RESEGMENT, 52_000), *TOKENIZE, COMPLETIONS, *HTTP)
MALLOC = ("_int_malloc", "__libc_malloc", "operator new(unsigned long)", *TOKENIZE, COMPLETIONS, *HTTP)


def verdict(maker: Maker) -> Finding:
    notes: list[str] = []
    finding = decide(build_case(maker.made), notes)
    assert notes == []
    return finding


def stack_for(shape: str, reader: bool) -> tuple[object, ...]:
    if shape == "overflow":
        return RECURSION if reader else ((JSON_RECURSION, 40_000), COMPLETIONS, *HTTP)
    if shape == "in-malloc":
        return MALLOC if reader else ("_int_malloc", *NO_READER)
    return READER if reader else NO_READER


@pytest.mark.parametrize(
    ("shape", "phase"), list(itertools.product(SHAPES, ("unloading", "asleep", "waking")))
)
def test_a_reader_over_a_model_that_is_gone_is_d2_whatever_the_kernel_calls_it(
    shape: str, phase: str
) -> None:
    maker = (
        Maker()
        .log(*SLEPT)
        .kernel(**SHAPES[shape])
        .core()
        .stack(stack_for(shape, True))
        .loop(phase, sleeping=True)
    )
    found = verdict(maker)
    assert (found.class_, found.defect, found.cause, found.phase) == ("SEGV-UAF-SLEEP", "D2", "sleep", phase)
    assert found.handler == "handle_completions_impl"
    assert found.confidence == ("strong" if shape == "in-malloc" else "proven")


@pytest.mark.parametrize(("shape", "reader"), list(itertools.product(SHAPES, (True, False))))
def test_the_same_crash_on_an_awake_server_is_never_blamed_on_sleep(shape: str, reader: bool) -> None:
    maker = (
        Maker().log(*NEVER_SLEPT).kernel(**SHAPES[shape]).core().stack(stack_for(shape, reader)).loop("awake")
    )
    found = verdict(maker)
    assert found.class_ == ("SEGV-STACK" if shape == "overflow" else "SEGV")
    assert found.cause not in ("sleep", "wake")
    assert found.defect is None
    assert found.phase == "awake"


@pytest.mark.parametrize(("shape", "reader"), list(itertools.product(SHAPES, (True, False))))
def test_an_old_sleep_long_before_the_crash_is_not_its_cause(shape: str, reader: bool) -> None:
    maker = (
        Maker().log(*AWAKE_AGAIN).kernel(**SHAPES[shape]).core().stack(stack_for(shape, reader)).loop("awake")
    )
    found = verdict(maker)
    assert found.class_ in ("SEGV", "SEGV-STACK")
    assert found.defect is None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_crash_that_reads_no_model_is_not_d2_even_while_asleep(shape: str) -> None:
    maker = Maker().log(*SLEPT).kernel(**SHAPES[shape]).core().stack(stack_for(shape, False)).loop("asleep")
    found = verdict(maker)
    assert found.class_ == ("SEGV-STACK" if shape == "overflow" else "SEGV")
    assert found.defect is None


@pytest.mark.parametrize("shape", SHAPES)
def test_without_any_sleep_evidence_a_bare_kernel_line_blames_nothing(shape: str) -> None:
    found = verdict(Maker().kernel(**SHAPES[shape]))
    assert found.class_ == ("SEGV-STACK" if shape == "overflow" else "SEGV")
    assert (found.cause, found.defect, found.confidence) == ("unknown", None, "weak")
    assert any("core" in ask.what for ask in found.asks)
    assert any("log" in ask.what for ask in found.asks)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kernel_line_right_after_going_to_sleep_is_a_weak_suspicion(shape: str) -> None:
    found = verdict(Maker().log(*SLEPT).kernel(**SHAPES[shape]))
    assert (found.class_, found.defect, found.confidence) == ("SEGV-UAF-SLEEP", "D2", "weak")


def d1(
    handler: str = COUNT_AFFECTED, log: tuple[str, ...] = WOKEN, loop: str = "awake", **flags: object
) -> Maker:
    maker = Maker().log(*log).dated(4646.59).kernel("gpf", mono=4646.603480).core()
    return maker.stack((*TOKENIZE, handler, *HTTP)).loop(loop, **flags)  # type: ignore[arg-type]


def test_d1_is_proven_by_the_queue_flags_against_the_fault_time() -> None:
    found = verdict(d1(sleeping=False, last_ms=4_646_602))
    assert (found.class_, found.defect, found.cause) == ("SEGV-UAF-SLEEP", "D1", "wake")
    assert (found.phase, found.confidence) == ("first-request-after-wake", "proven")
    assert any("1.5 ms" in reason for reason in found.reasons)


def test_d1_is_strong_without_the_queue_flags() -> None:
    assert verdict(d1()).confidence == "strong"


def test_d1_is_weak_when_the_queues_last_wake_lies_far_before_the_fault() -> None:
    found = verdict(d1(sleeping=False, last_ms=4_640_000))
    assert (found.defect, found.confidence) == ("D1", "weak")
    assert any("6.6 s before" in reason for reason in found.reasons)


def test_d1_is_not_proven_when_the_two_clocks_disagree() -> None:
    assert verdict(d1(sleeping=False, last_ms=4_646_900)).confidence == "strong"


def test_d1_without_the_kernel_line_is_strong_and_names_the_gap() -> None:
    maker = Maker().log(*WOKEN).core().stack((*TOKENIZE, COUNT_AFFECTED, *HTTP))
    found = verdict(maker.loop("awake", sleeping=False, last_ms=4_646_602))
    assert (found.defect, found.confidence) == ("D1", "strong")
    assert any("kernel" in ask.what for ask in found.asks)


def test_d1_twin_with_the_fixed_handler_is_not_d1() -> None:
    found = verdict(d1(COUNT_FIXED, sleeping=False, last_ms=4_646_602))
    assert found.defect != "D1"
    assert found.confidence == "weak"


def test_d1_twin_on_a_server_that_never_slept_is_a_plain_fault() -> None:
    found = verdict(d1(log=NEVER_SLEPT, sleeping=False, last_ms=4_646_602))
    assert (found.class_, found.defect) == ("SEGV", None)


@pytest.mark.parametrize(
    ("log", "phase"), [(NEVER_SLEPT, "unknown"), (SLEPT, "unloading"), (WOKEN, "waking")]
)
def test_a_loop_inside_the_sleep_callback_is_d2_and_the_log_tells_which_way(
    log: tuple[str, ...], phase: str
) -> None:
    maker = Maker().log(*log).stack(READER, "pasted").exit(11)
    maker.add(LoopFact(phase="unknown", how=("frames",), sleeping=True), Trust.SERVER)
    found = verdict(maker)
    assert (found.class_, found.defect, found.phase, found.confidence) == (
        "SEGV-UAF-SLEEP",
        "D2",
        phase,
        "strong",
    )
    assert not any("flag" in reason for reason in found.reasons)


def test_d1_handler_with_a_loop_that_is_unloading_is_d2() -> None:
    found = verdict(d1(loop="unloading", sleeping=True))
    assert (found.defect, found.cause, found.phase) == ("D2", "sleep", "unloading")


def test_frames_and_log_alone_make_d1_strong() -> None:
    maker = Maker().log(*WOKEN).stack((*TOKENIZE, COUNT_AFFECTED, *HTTP), "pasted").exit(11)
    found = verdict(maker)
    assert (found.defect, found.confidence) == ("D1", "strong")
    assert any("core" in ask.what for ask in found.asks)


def test_frames_and_log_alone_make_d2_strong() -> None:
    found = verdict(Maker().log(*SLEPT).stack(READER, "pasted").exit(11))
    assert (found.defect, found.confidence, found.phase) == ("D2", "strong", "asleep")


def test_count_handler_and_a_log_that_ends_asleep_fits_both_and_says_so() -> None:
    found = verdict(Maker().log(*SLEPT).stack((*TOKENIZE, COUNT_AFFECTED, *HTTP), "pasted").exit(11))
    assert (found.class_, found.defect, found.confidence) == ("SEGV-UAF-SLEEP", None, "weak")


ABORT_IN_READER = ("raise", "abort", "ggml_abort", *TOKENIZE)


def test_d1_that_the_tokenizer_noticed_is_d1_and_the_late_core_decides_no_phase() -> None:
    maker = Maker().log(*WOKEN, "enter-sleep").core(6).stack((*ABORT_IN_READER, COUNT_AFFECTED, *HTTP))
    found = verdict(maker.loop("asleep", sleeping=True).abort("ggml-abort"))
    assert (found.class_, found.defect, found.phase) == ("SEGV-UAF-SLEEP", "D1", "first-request-after-wake")
    assert found.confidence == "strong"


@pytest.mark.parametrize(
    ("log", "handler"), [(NEVER_SLEPT, COUNT_AFFECTED), (SLEPT, COUNT_AFFECTED), (WOKEN, COUNT_FIXED)]
)
def test_an_abort_in_the_tokenizer_without_wake_or_mark_is_an_abort(
    log: tuple[str, ...], handler: str
) -> None:
    maker = Maker().log(*log).core(6).stack((*ABORT_IN_READER, handler, *HTTP)).abort("ggml-abort")
    assert (verdict(maker).class_, verdict(maker).defect) == ("ABRT-ABORT", None)


def test_frames_without_any_log_blame_nothing() -> None:
    found = verdict(Maker().stack((*TOKENIZE, COUNT_AFFECTED, *HTTP), "pasted").exit(11))
    assert (found.class_, found.defect) == ("SEGV", None)


def test_a_forged_sleep_line_is_no_sleep_evidence() -> None:
    maker = Maker().log("listening").log("enter-sleep", trust=Trust.CLIENT).stack(READER, "pasted").exit(11)
    assert verdict(maker).class_ == "SEGV"


def test_regex_recursion_while_asleep_is_the_requests_own() -> None:
    stack = ((REGEX, 30_000), *TOKENIZE, COMPLETIONS, *HTTP)
    maker = Maker().log(*SLEPT).kernel(**SHAPES["overflow"]).core().stack(stack).loop("asleep", sleeping=True)
    found = verdict(maker)
    assert (found.class_, found.cause, found.defect) == ("SEGV-STACK", "request", None)


def test_heap_damage_that_the_allocator_noticed_under_a_reader_is_d2() -> None:
    stack = ("__pthread_kill_implementation", "raise", "abort", "malloc_printerr", "_int_malloc", *READER)
    maker = (
        Maker()
        .log(*SLEPT)
        .core(6)
        .stack(stack)
        .loop("asleep", sleeping=True)
        .abort("malloc", "malloc(): corrupted")
    )
    found = verdict(maker)
    assert (found.class_, found.defect) == ("SEGV-UAF-SLEEP", "D2")


def stranded(sleeping: bool = True, unanswered: bool = True) -> Maker:
    maker = Maker().log(*SLEPT)
    maker.add(ProbeFact(route="/props", status=200, is_sleeping=sleeping), Trust.SERVER)
    return maker.add(SocketFact(bytes_received=9_000, unanswered=unanswered), Trust.KERNEL)


def test_asleep_with_an_unanswered_request_is_d3() -> None:
    found = verdict(stranded())
    assert (found.class_, found.defect, found.cause) == ("HANG-STRANDED", "D3", "sleep")
    assert (found.phase, found.confidence) == ("asleep", "strong")


def test_a_live_snapshot_proves_d3() -> None:
    waiter = ("server_response::recv_with_timeout(std::unordered_set<int> const&, int)", COMPLETIONS, *HTTP)
    maker = stranded().stack(waiter, "live", crashed=False, live=True).loop("asleep")
    assert verdict(maker).confidence == "proven"


@pytest.mark.parametrize(("sleeping", "unanswered"), [(True, False), (False, True), (False, False)])
def test_an_idle_client_or_a_busy_server_is_not_stranded(sleeping: bool, unanswered: bool) -> None:
    assert verdict(stranded(sleeping, unanswered)).class_ != "HANG-STRANDED"


def test_a_cancel_in_the_very_moment_of_sleep_may_be_a_scrape_and_is_weak() -> None:
    maker = Maker().log("listening")
    maker.add(LogFact(event="enter-sleep"), Trust.SERVER, elapsed=5.0)
    maker.add(LogFact(event="task-cancelled", task_id=3), Trust.SERVER, elapsed=5.001)
    assert (verdict(maker).defect, verdict(maker).confidence) == ("D3", "weak")


def test_a_task_cancelled_asleep_is_d3_offline_and_awake_is_not() -> None:
    asleep = verdict(Maker().log(*SLEPT, "task-cancelled"))
    awake = verdict(Maker().log("listening", "task-launched", "task-cancelled"))
    assert (asleep.class_, asleep.confidence) == ("HANG-STRANDED", "strong")
    assert awake.class_ == "UNDETERMINED"


def test_a_sign_with_an_innocent_twin_is_weak_and_a_server_that_answers_outranks_it() -> None:
    def early() -> Maker:
        maker = Maker().log(*WOKEN)
        at = 2.1  # a tenth of a second after the wake
        for number in (7, 9):
            maker.add(LogFact(event="task-launched", task_id=number), Trust.SERVER, elapsed=at)
        return maker

    alone = verdict(early())
    assert (alone.class_, alone.defect, alone.confidence) == ("HANG-STRANDED", "D3", "weak")
    probed = early().add(ProbeFact(route="/props", status=200, is_sleeping=False), Trust.SERVER)
    assert verdict(probed).class_ == "NO-FAULT"


@pytest.mark.parametrize(
    ("shape", "class_", "cause"),
    [
        ("ggml-assert", "ABRT-ASSERT", "server"),
        ("ggml-abort", "ABRT-ABORT", "server"),
        ("exception", "ABRT-EXCEPTION", "server"),
        ("gpu-oom", "GPU-OOM", "gpu"),
        ("cuda", "GPU-RUNTIME", "gpu"),
    ],
)
@pytest.mark.parametrize("log", [NEVER_SLEPT, SLEPT, WOKEN])
def test_an_abort_names_itself_and_is_not_blamed_on_sleep(
    shape: str, class_: str, cause: str, log: tuple[str, ...]
) -> None:
    found = verdict(Maker().log(*log).abort(shape).exit(6))
    assert (found.class_, found.cause, found.defect) == (class_, cause, None)


@pytest.mark.parametrize(
    ("state", "cause"), [("missing", "model-file"), ("cut", "model-file"), ("present", "wake")]
)
def test_a_failed_reload_is_d7_and_its_cause_needs_evidence(state: str, cause: str) -> None:
    maker = Maker().log(*WOKEN).abort("wake-reload").exit(6).add(ModelFileFact(state=state), Trust.KERNEL)
    found = verdict(maker)
    assert (found.class_, found.defect, found.phase, found.cause) == (
        "ABRT-WAKE-RELOAD",
        "D7",
        "waking",
        cause,
    )


def test_an_abort_text_in_a_prompt_decides_nothing() -> None:
    found = verdict(Maker().log(*NEVER_SLEPT).abort("ggml-assert", trust=Trust.CLIENT))
    assert found.class_ == "UNDETERMINED"


def test_sigabrt_after_a_stop_is_benign_and_without_one_is_not() -> None:
    assert verdict(Maker().log("listening", "stopping").abort("terminate").exit(6)).class_ == "SHUTDOWN-ABORT"
    assert verdict(Maker().log("listening").abort("terminate").exit(6)).class_ == "ABRT-EXCEPTION"


@pytest.mark.parametrize(
    "thrower", ["std::terminate()", "ggml_uncaught_exception()", "__gnu_cxx::__verbose_terminate_handler()"]
)
def test_terminate_on_the_stack_is_an_uncaught_exception_without_any_text(thrower: str) -> None:
    ends = ("__pthread_kill_implementation", "raise", "abort")
    caller = ("__cxa_throw", "std::__throw_system_error(int)", "httplib::Server::listen_internal()")
    thrown = verdict(Maker().log(*SLEPT).core(6).stack((*ends, thrower, *caller)).loop("awake"))
    assert (thrown.class_, thrown.cause, thrown.confidence) == ("ABRT-EXCEPTION", "server", "strong")
    aborted = verdict(Maker().log(*SLEPT).core(6).stack((*ends, *caller[2:])).loop("awake"))
    assert (aborted.class_, aborted.confidence) == ("ABRT-ABORT", "weak")


def test_a_log_that_ends_in_a_stop_is_weak_until_the_end_itself_is_known() -> None:
    alone = verdict(Maker().log("loaded", "listening", "cleaning-up"))
    assert (alone.class_, alone.phase, alone.confidence) == ("NO-FAULT", "stopping", "weak")
    assert alone.asks
    assert verdict(Maker().log("loaded", "cleaning-up").exit(code=0)).confidence == "strong"
    assert verdict(Maker().log("loaded", "cleaning-up").exit(6)).class_ == "SHUTDOWN-ABORT"


def test_an_exception_without_words_of_its_own_is_named_by_the_line_before() -> None:
    maker = Maker().log("listening")
    maker.add(AbortFact(shape="terminate", exception="std::system_error"), Trust.SERVER)
    maker.add(AbortFact(shape="exception"), Trust.SERVER)
    found = verdict(maker.exit(6))
    assert found.class_ == "ABRT-EXCEPTION"
    assert "std::system_error" in found.reasons[0]


DFS = "std::__detail::_Executor<char const*, std::regex_traits<char>, true>::_M_dfs(long)"
ONCE_MORE = "std::__detail::_Executor<char const*, std::regex_traits<char>, true>::_M_rep_once_more(long)"


@pytest.mark.parametrize(
    ("cycle", "frames", "complete", "class_"),
    [
        ((DFS, DFS, ONCE_MORE), 256, False, "SEGV-STACK"),
        ((DFS, ONCE_MORE), 600, True, "SEGV-STACK"),
        ((DFS, DFS, ONCE_MORE), 90, False, "SEGV"),
        ((DFS, DFS, ONCE_MORE), 256, True, "SEGV"),
    ],
)
def test_functions_that_call_each_other_in_turn_are_a_recursion_too(
    cycle: tuple[str, ...], frames: int, complete: bool, class_: str
) -> None:
    stack = tuple(itertools.islice(itertools.cycle(cycle), frames))
    found = verdict(Maker().log(*SLEPT).stack(stack, "pasted", complete=complete).exit(11))
    assert (found.class_, found.defect) == (class_, None)


def test_gpf_in_libc_of_pid_1_is_an_abort_and_elsewhere_a_fault() -> None:
    inside = Maker().log("listening").kernel("gpf", tid=1, object="libc.so.6").exit(code=139, by="docker")
    outside = Maker().log("listening").kernel("gpf", tid=77, object="libc.so.6").exit(code=139, by="docker")
    assert (verdict(inside).class_, verdict(outside).class_) == ("ABRT-PID1", "SEGV")


def test_bus_error_needs_the_model_file_to_blame_it() -> None:
    cut = Maker().log("listening").exit(7).add(ModelFileFact(state="cut"), Trust.KERNEL)
    assert (verdict(cut).class_, verdict(cut).cause) == ("BUS", "model-file")
    mapped = Maker().log("listening").core(7, fault_file="/models/tiny.gguf")
    assert verdict(mapped).cause == "model-file"
    assert verdict(Maker().log("listening").exit(7)).cause == "unknown"


@pytest.mark.parametrize(
    ("exit_", "class_"),
    [
        ({"signal": 15}, "NO-FAULT"),
        ({"code": 0}, "NO-FAULT"),
        ({"signal": 9}, "KILLED"),
        ({"signal": 9, "oom": True}, "HOST-OOM"),
        ({"signal": 9, "result": "watchdog"}, "KILLED-BY-SUPERVISOR"),
        ({"code": 137}, "KILLED"),
        ({"code": 1}, "EXIT-ERROR"),
        ({"signal": 4}, "ILL"),
        ({"signal": 8}, "FPE"),
    ],
)
def test_ends_that_sleep_does_not_explain(exit_: dict[str, object], class_: str) -> None:
    assert verdict(Maker().log(*NEVER_SLEPT).exit(**exit_)).class_ == class_  # type: ignore[arg-type]


def test_an_error_status_before_ready_is_a_failed_start() -> None:
    assert verdict(Maker().log("init", "loading", "load-failed").exit(code=1)).class_ == "START-FAIL"


def test_a_server_seen_alive_after_many_sleeps_is_no_fault() -> None:
    maker = Maker().log(*AWAKE_AGAIN, *SLEPT[1:])
    maker.add(ProbeFact(route="/props", status=200, is_sleeping=True), Trust.SERVER)
    found = verdict(maker)
    assert (found.class_, found.confidence) == ("NO-FAULT", "strong")


@pytest.mark.parametrize("log", [NEVER_SLEPT, SLEPT, WOKEN, ()])
def test_a_log_alone_never_clears_a_server(log: tuple[str, ...]) -> None:
    found = verdict(Maker().log(*log))
    assert (found.class_, found.confidence) == ("UNDETERMINED", "undetermined")
    assert found.asks


def test_the_routers_status_1_decides_nothing_by_itself() -> None:
    found = verdict(Maker().log("listening").exit(code=1, by="router"))
    assert found.class_ == "UNDETERMINED"


def test_an_error_from_inside_the_vocabulary_while_going_to_sleep_is_the_live_d2() -> None:
    maker = Maker().log(*SLEPT)
    maker.add(AnswerFact(route="/tokenize", status=500, error="_Map_base::at", expected=False), Trust.SERVER)
    maker.add(ProbeFact(route="/health", status=200), Trust.SERVER)
    found = verdict(maker)
    assert (found.class_, found.defect, found.cause, found.confidence) == (
        "ERROR-UAF-SLEEP",
        "D2",
        "sleep",
        "strong",
    )
    twin = Maker().log(*NEVER_SLEPT)
    twin.add(AnswerFact(route="/tokenize", status=500, error="_Map_base::at", expected=False), Trust.SERVER)
    assert verdict(twin).class_ != "ERROR-UAF-SLEEP"


LOOKUP = "srv operator(): got exception, answered 500 (_Map_base::at)"


def logged_error(before: tuple[str, ...], text: str = LOOKUP, trust: Trust = Trust.SERVER) -> Finding:
    maker = Maker().log(*before)
    maker.add(LogFact(event="request", status=500), trust)
    maker.made[-1] = maker.made[-1].model_copy(update={"text": text})
    return verdict(maker)


def test_the_lookup_failure_in_a_log_alone_is_weak_and_only_between_sleep_and_wake() -> None:
    found = logged_error(SLEPT)
    assert (found.class_, found.defect, found.confidence) == ("ERROR-UAF-SLEEP", "D2", "weak")
    assert any("answer" in ask.what for ask in found.asks)
    assert logged_error(NEVER_SLEPT).class_ == "UNDETERMINED"
    assert logged_error(AWAKE_AGAIN).class_ == "UNDETERMINED"
    assert logged_error(SLEPT, "got exception, answered 500 (std::bad_alloc)").class_ == "UNDETERMINED"
    assert logged_error(SLEPT, trust=Trust.CLIENT).class_ == "UNDETERMINED"


def test_an_error_that_the_awake_server_gives_as_well_is_not_sleeps() -> None:
    maker = Maker().log(*SLEPT)
    maker.add(AnswerFact(route="/completion", status=400, error="too long", expected=True), Trust.SERVER)
    maker.add(ProbeFact(route="/health", status=200), Trust.SERVER)
    assert verdict(maker).class_ == "NO-FAULT"


def test_a_broken_rule_is_a_note_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Finding | None:
        raise ValueError("secret detail")

    monkeypatch.setattr("analyzers.verdict.decide.RULES", (broken,))
    notes: list[str] = []
    assert decide(build_case(()), notes).class_ == "UNDETERMINED"
    assert notes == ["rule broken failed: ValueError"]
