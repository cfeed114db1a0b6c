"""Evidence that looks like more than it is: another moment, another process, a client's own words.

Each row once gave a confident wrong verdict. None may again, whatever else is in the evidence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import AnswerFact, LogFact, ProbeFact, SettingsFact, SocketFact
from analyzers.contracts.registry import CLASSES, NOT_YET_DIAGNOSED
from analyzers.verdict.asks import LOG_ASK
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import (
    AWAKE_AGAIN,
    COMPLETIONS,
    COUNT_AFFECTED,
    HTTP,
    NEVER_SLEPT,
    SLEPT,
    TOKENIZE,
    WOKEN,
    Maker,
)

READER = (*TOKENIZE, COMPLETIONS, *HTTP)
STALE = (*TOKENIZE, COUNT_AFFECTED, *HTTP)
COMPUTE = ("ggml_compute_forward_mul_mat", "ggml_graph_compute_thread", "start_thread", "__clone3")


def verdict(maker: Maker) -> Finding:
    notes: list[str] = []
    finding = decide(build_case(maker.made), notes)
    assert notes == []
    return finding


def probe(
    maker: Maker, mono: float, route: str = "/props", status: int | None = 200, **fields: object
) -> Maker:
    return maker.add(ProbeFact(route=route, status=status, **fields), Trust.SERVER, mono=mono)  # type: ignore[arg-type]


# the GPU's word, the kernel's word


def xid(maker: Maker, mono: float | None) -> Maker:
    return maker.kernel("gpu-fault", mono=mono, error=13)


def test_an_xid_of_another_moment_does_not_outrank_a_core() -> None:
    core = Maker().log(*SLEPT).core().stack(READER).loop("asleep", sleeping=True)
    assert verdict(xid(core, 5.0)).defect == "D2"


def test_an_xid_without_a_time_of_death_is_weak_and_a_stop_is_no_gpu_fault() -> None:
    assert verdict(xid(Maker().log(*NEVER_SLEPT), 5.0).exit(6)).confidence == "weak"
    assert verdict(xid(Maker().log("listening"), 5.0).exit(15, requested=True)).class_ == "NO-FAULT"


@pytest.mark.parametrize(("distance", "class_"), [(5.0, "GPU-FAULT"), (31.0, "SEGV")])
def test_an_xid_counts_within_half_a_minute_of_the_death(distance: float, class_: str) -> None:
    maker = xid(Maker().log(*NEVER_SLEPT).kernel(mono=100.0).core(), 100.0 - distance)
    assert verdict(maker).class_ == class_


def test_a_kernel_line_that_a_client_printed_ends_nothing() -> None:
    maker = Maker().log(*SLEPT)
    for shape in ("oom-kill", "segfault"):
        maker.kernel(shape, trust=Trust.CLIENT)
    assert verdict(maker).class_ == "UNDETERMINED"


def test_a_kernel_line_about_another_thread_proves_no_d1() -> None:
    def case(tid: int) -> Maker:
        maker = Maker().log(*WOKEN).dated(99.99).kernel("gpf", mono=100.0, tid=tid).core(crashed_tid=7)
        return maker.stack(STALE).loop("awake", sleeping=False, last_ms=99_999)

    assert verdict(case(7)).confidence == "proven"
    assert verdict(case(8)).confidence == "strong"


# D1 belongs to the request that woke the server


def test_a_wake_long_ago_does_not_make_a_stale_read_strong() -> None:
    maker = Maker().log(*AWAKE_AGAIN, *("task-launched", "task-done") * 10).kernel("gpf", mono=5_000.0).core()
    found = verdict(maker.stack(STALE).loop("awake", sleeping=False, last_ms=1_400_000))
    assert found.confidence == "weak"


def test_a_busy_queue_just_before_the_fault_is_no_wake() -> None:
    maker = Maker().log(*AWAKE_AGAIN).kernel("gpf", mono=100.0).core()
    assert verdict(maker.stack(STALE).loop("awake", sleeping=False, last_ms=99_999)).confidence == "weak"


def test_a_log_that_ends_asleep_beside_an_awake_loop_may_be_another_servers() -> None:
    bare = Maker().log(*SLEPT).core().stack(STALE).loop("awake", sleeping=False, last_ms=99_999)
    dated = Maker().log(*SLEPT).kernel("gpf", mono=100.0).core().stack(STALE)
    assert verdict(bare).confidence == "weak"
    assert verdict(dated.loop("awake", sleeping=False, last_ms=99_999)).confidence == "strong"


def test_a_core_with_d1s_mark_and_no_log_names_what_would_decide() -> None:
    found = verdict(Maker().core().stack(STALE).loop("awake", sleeping=False))
    assert (found.class_, found.defect, found.confidence) == ("SEGV", None, "weak")
    assert any("fits D1" in reason for reason in found.reasons)
    assert (found.suspect, "fits D1" in found.summary) == ("D1", True)
    assert [ask.what for ask in found.asks] == [LOG_ASK.what]


def test_a_reader_on_a_server_that_worked_on_is_not_said_to_have_read_nothing() -> None:
    found = verdict(Maker().log(*AWAKE_AGAIN).stack(READER, "pasted").exit(11))
    assert found.class_ == "SEGV"
    assert not any("no request was seen" in reason for reason in found.reasons)


def test_a_stop_that_frees_the_model_is_not_d1() -> None:
    maker = Maker().log(*WOKEN).core().stack(STALE).loop("stopping", sleeping=False)
    assert verdict(maker).defect != "D1"


def test_a_build_that_cannot_have_the_handler_makes_it_weak_and_names_the_gap() -> None:
    maker = Maker().log(*WOKEN).add(LogFact(event="build-info", build="b11549"), Trust.SERVER)
    found = verdict(maker.stack(STALE, "pasted").exit(11))
    assert (found.defect, found.confidence) == ("D1", "weak")
    assert any("build" in ask.what for ask in found.asks)


# whose stack


def test_a_pasted_trace_does_not_replace_the_cores_own_thread() -> None:
    maker = Maker().log(*SLEPT).core().stack(COMPUTE).stack(READER, "pasted").loop("asleep", sleeping=True)
    assert verdict(maker).class_ == "SEGV"


def test_a_pasted_trace_of_the_same_fault_is_welcome() -> None:
    maker = Maker().log(*SLEPT).core().stack(READER).stack(READER, "pasted").loop("asleep", sleeping=True)
    assert verdict(maker).confidence == "proven"


def test_a_trace_that_a_client_could_have_printed_is_weak() -> None:
    maker = Maker().log(*SLEPT).stack(READER, "pasted", trust=Trust.CLIENT).exit(11)
    assert verdict(maker).confidence == "weak"


def test_a_core_without_names_says_no_less_than_no_core() -> None:
    bare = Maker().log(*SLEPT).kernel()
    with_core = Maker().log(*SLEPT).kernel().core().stack((None, None), "notes")
    assert verdict(bare).defect == verdict(with_core).defect == "D2"
    assert verdict(with_core).confidence == "weak"


# signals that are not what they seem


def test_a_signal_that_somebody_sent_is_no_fault() -> None:
    maker = Maker().log(*SLEPT).core(11, si_code=0).stack(READER).loop("asleep", sleeping=True)
    assert (verdict(maker).class_, verdict(maker).defect) == ("KILLED", None)


def test_a_core_that_shows_nothing_of_llama_cpp_is_never_more_than_weak() -> None:
    def case(server: bool) -> Maker:
        return Maker().log(*NEVER_SLEPT).core(11, si_code=0, server=server).stack(COMPUTE)

    assert verdict(case(True)).confidence == "strong"
    assert verdict(case(False)).confidence == "weak"


def test_a_model_file_that_shrank_under_a_reader_is_a_bus_error() -> None:
    core = Maker().log(*SLEPT).core(7, si_code=2, fault_file="/m/x.gguf")
    found = verdict(core.stack(READER).loop("asleep", sleeping=True))
    assert (found.class_, found.cause) == ("BUS", "model-file")


def test_sigill_blames_the_cpu_only_on_the_kernels_word() -> None:
    assert verdict(Maker().log(*NEVER_SLEPT).core(4).stack(COMPUTE)).cause == "unknown"
    told = Maker().log(*NEVER_SLEPT).kernel("invalid-opcode").core(4).stack(COMPUTE)
    assert (verdict(told).cause, verdict(told).confidence) == ("host", "strong")


def test_an_abort_by_the_watchdog_is_the_supervisors() -> None:
    assert verdict(Maker().log("listening").exit(6, result="watchdog")).class_ == "KILLED-BY-SUPERVISOR"


# last words


def test_a_text_that_the_server_outlived_does_not_name_its_end() -> None:
    maker = (
        Maker()
        .log("listening")
        .abort("gpu-oom")
        .log(*("task-launched", "task-done") * 3)
        .abort("ggml-assert")
    )
    assert verdict(maker.exit(6)).class_ == "ABRT-ASSERT"


def test_a_text_before_a_clean_end_is_no_abort() -> None:
    maker = Maker().log("loaded", "listening").abort("alloc").log("stopping").exit(code=0, requested=True)
    assert verdict(maker).class_ == "NO-FAULT"


@pytest.mark.parametrize(
    ("text", "log", "class_", "defect"),
    [
        ("wake-reload", WOKEN, "ABRT-WAKE-RELOAD", "D7"),
        ("ggml-assert", SLEPT, "ABRT-ASSERT", None),
        ("ggml-assert", NEVER_SLEPT, "ABRT-ASSERT", None),
    ],
)
@pytest.mark.parametrize("kernel", [None, 48_213])
def test_an_abort_in_a_containers_first_process_keeps_its_own_name(
    text: str, log: tuple[str, ...], class_: str, defect: str | None, kernel: int | None
) -> None:
    maker = Maker().log(*log).abort(text).exit(code=139, by="docker")
    if kernel is not None:
        maker.kernel("gpf", tid=kernel, object="libc.so.6")
    assert (verdict(maker).class_, verdict(maker).defect) == (class_, defect)


def test_a_fault_in_the_servers_own_code_is_not_an_abort_whatever_was_printed_before() -> None:
    maker = Maker().log(*NEVER_SLEPT).abort("ggml-assert").exit(code=139, by="docker")
    assert verdict(maker.kernel("segfault", tid=9, object="libllama.so")).class_ == "SEGV"


@pytest.mark.parametrize("text", ["GGML_ASSERT(max_blocks_per_sm > 0) failed", "invalid argument in MUL_MAT"])
def test_lost_cuda_state_is_d8_only_as_the_first_work_after_a_wake(text: str) -> None:
    shape = "ggml-assert" if "ASSERT" in text else "cuda"
    woken = verdict(Maker().log(*WOKEN).abort(shape, text).exit(6))
    never = verdict(Maker().log(*NEVER_SLEPT).abort(shape, text).exit(6))
    assert (woken.defect, woken.cause, woken.phase) == ("D8", "wake", "first-request-after-wake")
    assert (never.defect, never.class_) == (None, woken.class_)


# seen alive, and yet


def test_an_early_answer_clears_nothing() -> None:
    assert verdict(probe(probe(Maker().log(*SLEPT), 1.0), 99.0, status=None)).class_ != "NO-FAULT"


def test_health_alone_is_weak_and_work_that_stands_still_is_not_strong() -> None:
    assert verdict(probe(Maker().log(*NEVER_SLEPT), 1.0, "/health")).confidence == "weak"
    busy = probe(Maker().log(*NEVER_SLEPT), 1.0, "/metrics", requests_processing=4, requests_deferred=9)
    assert verdict(busy).confidence == "weak"


def test_an_odd_answer_is_not_nothing() -> None:
    maker = Maker().log(*NEVER_SLEPT).add(AnswerFact(status=500, expected=False), Trust.SERVER)
    assert verdict(probe(maker, 1.0)).class_ != "NO-FAULT"


def test_a_server_that_woke_again_holds_nobody() -> None:
    maker = probe(probe(Maker().log(*SLEPT), 1.0, is_sleeping=True), 99.0, is_sleeping=False)
    maker.add(SocketFact(bytes_received=9, unanswered=True), Trust.KERNEL, mono=99.0)
    assert verdict(maker).class_ != "HANG-STRANDED"


def test_an_abort_after_a_cancelled_task_is_the_abort() -> None:
    maker = Maker().log(*SLEPT, "task-cancelled", "exit-sleep", "task-launched").abort("ggml-assert")
    assert verdict(maker).class_ == "ABRT-ASSERT"


def test_a_cancel_that_a_client_printed_or_that_has_no_time_is_not_strong() -> None:
    forged = Maker().log(*SLEPT)
    forged.add(LogFact(event="task-cancelled", task_id=3), Trust.CLIENT, elapsed=9.0)
    assert verdict(forged).class_ == "UNDETERMINED"
    unstamped = Maker().log(*SLEPT).add(LogFact(event="task-cancelled", task_id=3), Trust.SERVER)
    assert verdict(unstamped).confidence == "weak"


# answers


def answered(log: tuple[str, ...], route: str = "/tokenize", status: int = 500) -> Maker:
    maker = Maker().log(*log)
    maker.add(AnswerFact(route=route, status=status, error="_Map_base::at", expected=False), Trust.SERVER)
    return probe(maker, 50.0)


def test_an_error_on_a_server_awake_for_long_is_not_sleeps() -> None:
    assert verdict(answered(AWAKE_AGAIN)).class_ != "ERROR-UAF-SLEEP"


def test_a_token_count_that_fails_right_after_a_wake_is_d1_and_weak() -> None:
    found = verdict(answered(WOKEN, "/v1/messages/count_tokens"))
    assert (found.defect, found.cause, found.confidence) == ("D1", "wake", "weak")


def test_a_loading_server_is_not_a_wrong_answer() -> None:
    assert verdict(answered(SLEPT, status=503)).class_ != "ERROR-UAF-SLEEP"


# starts


@pytest.mark.parametrize(
    ("event", "cause"),
    [("bind-failed", "configuration"), ("context-failed", "memory"), ("load-failed", "model-file")],
)
def test_a_failed_start_is_blamed_on_what_failed(event: str, cause: str) -> None:
    found = verdict(Maker().log("init", "loading", event).exit(code=1))
    assert (found.class_, found.cause) == ("START-FAIL", cause)


# a server that does not sleep


def scraped(period: float, log: tuple[str, ...] = ("loaded",)) -> Maker:
    maker = Maker().add(SettingsFact(sleep_idle_seconds=60), Trust.SUPERVISOR).log(*log)
    for number in range(5):
        maker.add(LogFact(event="request", route="/metrics"), Trust.SERVER, elapsed=100.0 + number * period)
    return maker


def test_scrapes_more_often_than_the_limit_are_d4_and_rarer_ones_or_a_sleep_are_not() -> None:
    found = verdict(scraped(15.0))
    assert (found.class_, found.defect, found.confidence) == ("NEVER-SLEEPS", "D4", "weak")
    assert verdict(scraped(90.0)).class_ == "UNDETERMINED"
    assert verdict(scraped(15.0, ("loaded", "enter-sleep", "exit-sleep"))).class_ != "NEVER-SLEEPS"


def test_every_class_is_given_by_a_rule_or_marked_as_not_yet() -> None:
    rules = Path(decide.__code__.co_filename).parent
    text = "".join(path.read_text(encoding="utf-8") for path in rules.glob("*.py"))
    given = {name for name in CLASSES if f'"{name}"' in text}
    assert given | NOT_YET_DIAGNOSED == set(CLASSES)
    assert not given & NOT_YET_DIAGNOSED


@pytest.mark.parametrize(("pid", "confidence"), [(None, "weak"), (4242, "strong")])
def test_an_oom_kill_beside_a_log_without_a_process_is_only_likely(pid: int | None, confidence: str) -> None:
    # GIVEN the kernel's word on some llama-server, and a log that names its process or none
    maker = Maker().kernel("oom-kill")
    who = Incarnation(pid=pid)
    maker.made.extend(item.model_copy(update={"incarnation": who}) for item in Maker().log("listening").made)
    finding = decide(build_case(maker.made))
    assert (finding.class_, finding.confidence) == ("HOST-OOM", confidence)
