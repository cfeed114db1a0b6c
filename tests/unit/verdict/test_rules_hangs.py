"""Hangs and their look-alikes: nothing is called stuck from one look, or while anything moves."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ProbeFact
from analyzers.contracts.watched import MemoryFact
from evidence_builder import NEVER_SLEPT, SLEPT, WOKEN, Maker
from watch_builder import (
    CUDA_WAIT,
    DEAF,
    DECODE,
    FREE,
    GRAMMAR,
    IDLE,
    LISTENING,
    RELOAD,
    SAVING,
    UPLOADING,
    Watched,
    found,
    stuck,
)

# the queue loop


def test_a_loop_at_the_same_place_without_cpu_time_is_stuck() -> None:
    # The real shape: the slot is saved into a pipe that nobody reads.
    verdict = found(stuck())
    assert (verdict.class_, verdict.phase, verdict.confidence) == ("HANG-LOOP", "awake", "strong")
    assert "llama_file::llama_file" in verdict.reasons[0]


def test_a_loop_that_the_kernel_holds_in_a_storage_wait_is_the_hosts_matter() -> None:
    made = stuck()
    made.look(106.5, loop_state="D")
    assert (found(made).class_, found(made).cause) == ("HANG-LOOP", "host")


@pytest.mark.parametrize("seconds", [0.5, 4.0])
def test_two_looks_too_close_together_decide_nothing_and_ask_for_a_later_one(seconds: float) -> None:
    # A page fault to a slow disk or a swapping machine stands still for as long.
    verdict = found(stuck(seconds=seconds))
    assert verdict.class_ == "UNDETERMINED"
    assert any("second look" in ask.what for ask in verdict.asks)
    assert not any("how the process ended" in ask.what for ask in verdict.asks)


def test_a_loop_that_went_on_between_the_looks_is_not_stuck() -> None:
    made = Watched()
    made.look(100.0).at(100.0, SAVING).look(110.0).at(110.0, IDLE).probe("/metrics", None)
    assert found(made).class_ != "HANG-LOOP"


def test_an_idle_loop_at_the_same_place_is_not_stuck_whoever_waits() -> None:
    # A keep-alive client with an old request looks unanswered; the loop waits for work in its own wait.
    made = Watched()
    made.look(100.0).at(100.0, IDLE).look(110.0).at(110.0, IDLE).client(unanswered=True)
    assert found(made).class_ == "UNDETERMINED"


def test_nobody_waiting_is_no_hang() -> None:
    made = Watched()
    made.look(100.0).at(100.0, SAVING).look(110.0).at(110.0, SAVING).probe("/props", 200, is_sleeping=False)
    assert found(made).class_ == "NO-FAULT"


@pytest.mark.parametrize("moved", ["decodes", "stream", "bytes"])
def test_anything_that_moves_speaks_against_a_stuck_loop(moved: str) -> None:
    made = stuck(DECODE, 20.0)
    if moved == "decodes":
        made.probe("/metrics", 200, decodes=10).probe("/metrics", 200, decodes=12)
    elif moved == "stream":
        made.client(bytes_sent=10).client(mono=110.0, bytes_sent=900)
    else:
        made.look(121.0, read_bytes=0).look(122.0, read_bytes=1 << 30)
    assert found(made).class_ != "HANG-LOOP"


def test_half_a_minute_in_a_grammar_without_a_batch_is_a_weak_hang_by_a_request() -> None:
    made = stuck(GRAMMAR, 40.0, cpu=39.0)
    verdict = found(made)
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HANG-LOOP", "request", "weak")
    assert verdict.asks


def test_a_few_seconds_in_a_grammar_are_no_hang() -> None:
    assert found(stuck(GRAMMAR, 8.0, cpu=7.8)).class_ == "UNDETERMINED"


def test_a_long_decode_that_computes_is_weakly_no_hang() -> None:
    verdict = found(stuck(DECODE, 40.0, cpu=39.0))
    assert (verdict.class_, verdict.confidence) == ("NOT-A-HANG", "weak")


def test_two_servers_in_one_process_give_two_loops_and_no_verdict() -> None:
    made = stuck()
    made.at(100.0, IDLE, tid=999)
    assert found(made).class_ == "UNDETERMINED"


# the GPU (recorded shapes: there is no GPU on the machine these were written on)


def test_two_snapshots_in_a_gpu_wait_and_nothing_worked_off_is_a_gpu_hang() -> None:
    # A thread that spins in the runtime's wait burns CPU all the time: that is no progress.
    verdict = found(stuck(CUDA_WAIT, 20.0, cpu=20.0))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HANG-GPU", "gpu", "strong")


def test_one_snapshot_in_a_gpu_wait_is_weak() -> None:
    # Every decode on a GPU spends most of its time there.
    made = Watched()
    made.look(100.0).at(100.0, CUDA_WAIT).probe("/metrics", None)
    verdict = found(made)
    assert (verdict.class_, verdict.confidence) == ("HANG-GPU", "weak")
    assert verdict.asks


def test_the_drivers_report_makes_one_snapshot_enough() -> None:
    made = Watched()
    made.look(100.0).at(100.0, CUDA_WAIT).probe("/metrics", None).kernel("gpu-fault", mono=98.0)
    assert (found(made).class_, found(made).confidence) == ("HANG-GPU", "strong")


def test_a_slow_gpu_that_works_off_batches_is_no_hang() -> None:
    made = stuck(CUDA_WAIT, 20.0, cpu=20.0)
    made.probe("/metrics", 200, decodes=4).probe("/metrics", 200, decodes=6)
    assert (found(made).class_, found(made).confidence) == ("NOT-A-HANG", "strong")


@pytest.mark.parametrize(
    "wait",
    [
        "hipStreamSynchronize",
        "vkWaitForFences",
        "vk::Device::waitForFences(unsigned int, vk::Fence const*)",
        "-[_MTLCommandBuffer waitUntilCompleted]",
        "zeEventHostSynchronize",
        "clFinish",
    ],
)
def test_the_waits_of_other_runtimes_are_known(wait: str) -> None:
    assert found(stuck((wait, *CUDA_WAIT[3:]), 20.0)).class_ == "HANG-GPU"


def test_a_driver_without_symbols_is_known_by_its_library() -> None:
    made = Watched()
    for mono in (100.0, 120.0):
        made.look(mono).at(mono, ("ioctl",), module="/usr/lib/libcuda.so.1")
    assert found(made).class_ == "UNDETERMINED"  # no loop frame: nobody knows whose thread it is


JIT = ("futex_wait", "cuLibraryLoadData", "cudaLaunchKernel", "llama_decode", *CUDA_WAIT[4:])


def test_kernels_that_are_compiled_at_their_first_use_are_no_hang() -> None:
    # Minutes on a new device; it happens inside the same libraries.
    verdict = found(stuck(JIT, 40.0, cpu=39.0))
    assert (verdict.class_, verdict.confidence) == ("NOT-A-HANG", "weak")


def driver(top: str) -> Watched:
    made = Watched()
    made.log("listening")
    for mono in (100.0, 120.0):
        made.look(mono).at(mono, (top, "llama_decode", *CUDA_WAIT[4:]), module="/usr/lib/libcuda.so.1")
    return made.probe("/metrics", None, mono=120.0)


def test_a_driver_without_symbols_waits_in_its_calls_only() -> None:
    assert found(driver("ioctl")).class_ == "HANG-GPU"
    assert found(driver("memcpy")).class_ != "HANG-GPU"


# other machines and other threads


RPC = ("recv", "send_rpc_cmd", "ggml_backend_rpc_graph_compute", "llama_decode", *CUDA_WAIT[4:])


def test_a_remote_machine_may_compute_for_a_while_and_is_weak_after_half_a_minute() -> None:
    assert found(stuck(RPC, 10.0)).class_ == "UNDETERMINED"
    verdict = found(stuck(RPC, 40.0))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HANG-LOOP", "host", "weak")


def test_a_loop_that_waits_for_workers_that_compute_is_not_stuck() -> None:
    made = Watched()
    made.log("listening", "task-launched")
    made.look(100.0, cpu_seconds=0.0).at(100.0, DECODE).look(110.0, cpu_seconds=30.0).at(110.0, DECODE)
    assert found(made.probe("/metrics", None, mono=110.0)).class_ != "HANG-LOOP"


def test_a_hang_outranks_a_draft_that_stays_in_memory() -> None:
    made = stuck()
    for number in (1, 2):
        made.add(MemoryFact(phase="asleep", cycle=number, held_model_files=("d.gguf",)), Trust.KERNEL)
    assert found(made).class_ == "HANG-LOOP"


# HTTP


def taken(*threads: tuple[str, ...], loop: tuple[str, ...] = IDLE) -> Watched:
    made = Watched()
    made.log(*NEVER_SLEPT)
    made.look(100.0).at(100.0, loop)
    for number, frames in enumerate(threads):
        made.at(100.0, frames, tid=300 + number)
    return made.probe("/health", None)


def test_a_silent_health_with_every_thread_held_is_the_http_threads() -> None:
    verdict = found(taken(UPLOADING, UPLOADING, LISTENING))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HANG-HTTP", "configuration", "strong")
    assert "all 2 HTTP threads" in verdict.reasons[1]


def test_a_listener_that_cannot_accept_is_the_same_though_threads_are_free() -> None:
    # Real: the limit on open files is used up, and the listener sleeps before its next try.
    assert found(taken(FREE, DEAF)).class_ == "HANG-HTTP"


def test_a_silent_health_with_a_free_thread_is_not_decided() -> None:
    # A machine under load answers late; a free thread and a listener that accepts would have answered.
    assert found(taken(UPLOADING, FREE, LISTENING)).class_ == "UNDETERMINED"


def test_an_answered_health_is_never_the_http_threads() -> None:
    made = taken(UPLOADING, UPLOADING, LISTENING).probe("/health", 200, mono=101.0)
    assert found(made).class_ != "HANG-HTTP"


def test_a_refused_connection_is_not_silence() -> None:
    made = Watched().look(100.0)
    made.add(
        ProbeFact(route="/health", status=None, outcome="refused", timeout=2.0, seconds=0.001), Trust.SERVER
    )
    made.client(recv_queue=60)
    assert found(made).class_ == "UNDETERMINED"


def test_bytes_that_were_never_read_are_a_weak_sign_without_stacks() -> None:
    made = Watched().look(100.0).probe("/health", None).client(recv_queue=60)
    assert (found(made).class_, found(made).confidence) == ("HANG-HTTP", "weak")


def test_threads_that_wait_behind_a_stuck_loop_are_the_loops_hang() -> None:
    made = taken(UPLOADING, loop=SAVING)
    made.look(107.0).at(107.0, SAVING).probe("/props", None, mono=107.0)
    assert found(made).class_ == "HANG-LOOP"


# printing its own backtrace


def test_a_debugger_that_the_server_started_proves_it() -> None:
    made = Watched()
    made.log("listening").abort("ggml-assert", "GGML_ASSERT(x) failed")
    made.look(100.0, state="t", tracer="gdb", tracer_is_child=True, children=("gdb",))
    verdict = found(made)
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HANG-ABORTING", "server", "proven")
    assert "GGML_ASSERT(x) failed" in " ".join(verdict.reasons)


def test_a_debugger_child_before_it_attaches_is_strong_with_the_text() -> None:
    made = Watched()
    made.log("listening").abort("ggml-abort")
    made.look(100.0, children=("gdb",))
    assert (found(made).class_, found(made).confidence) == ("HANG-ABORTING", "strong")


def test_a_thread_inside_the_abort_routine_is_enough() -> None:
    stack = ("wait4", "ggml_print_backtrace", "ggml_abort", *SAVING[3:])
    made = Watched().look(100.0).at(100.0, stack)
    assert found(made).class_ == "HANG-ABORTING"


def test_somebody_elses_debugger_is_no_abort() -> None:
    # A person attached gdb: its parent is a shell. It answers nothing, and it has not failed.
    made = Watched().look(100.0, state="t", tracer="gdb", tracer_is_child=False)
    verdict = found(made)
    assert verdict.class_ == "UNDETERMINED"
    assert "somebody attached" in verdict.summary


def test_a_child_named_like_a_debugger_without_any_text_is_no_abort() -> None:
    assert found(Watched().look(100.0, children=("gdb",))).class_ == "UNDETERMINED"


def test_an_abort_text_that_a_client_could_have_printed_makes_no_abort() -> None:
    made = Watched()
    made.abort("ggml-assert", trust=Trust.CLIENT)
    assert found(made.look(100.0, children=("gdb",))).class_ == "UNDETERMINED"


def test_the_same_text_with_a_known_end_is_the_abort_itself() -> None:
    made = Watched()
    made.log("listening").abort("ggml-assert")
    made.look(100.0, state="t", tracer="gdb", tracer_is_child=True).exit(6)
    assert found(made).class_ == "ABRT-ASSERT"


# held from outside


def test_a_stopped_process_is_told_how_to_go_on() -> None:
    verdict = found(Watched().look(100.0, state="T").probe("/health", None))
    assert verdict.class_ == "UNDETERMINED"
    assert [ask.command for ask in verdict.asks] == ["kill -CONT PID"]


def test_a_process_whose_core_is_being_written_is_dying_not_hanging() -> None:
    verdict = found(Watched().look(100.0, dumping=True).probe("/health", None))
    assert verdict.class_ == "UNDETERMINED"
    assert "writing its core" in verdict.summary


# loading, waking


def loading(first: dict[str, object], second: dict[str, object], status: int = 503) -> Watched:
    made = Watched()
    made.log("init", "loading")
    return made.look(100.0, **first).look(101.0, **second).probe("/health", status)  # type: ignore[arg-type]


def test_a_load_in_which_memory_grows_is_slow_not_stuck() -> None:
    made = loading({"resident_bytes": 30 << 20}, {"resident_bytes": 900 << 20})
    assert (found(made).class_, found(made).phase, found(made).confidence) == (
        "LOAD-SLOW",
        "loading",
        "strong",
    )


def test_a_load_in_which_only_cpu_time_moves_is_weak() -> None:
    assert found(loading({"cpu_seconds": 1.0}, {"cpu_seconds": 1.9})).confidence == "weak"


def test_a_load_in_which_nothing_moves_is_not_called_slow() -> None:
    verdict = found(loading({}, {}))
    assert verdict.class_ == "UNDETERMINED"
    assert verdict.phase == "loading"


def test_a_load_that_ended_is_a_failed_start() -> None:
    made = loading({"resident_bytes": 30 << 20}, {"resident_bytes": 900 << 20})
    made.log("load-failed").exit(code=1)
    assert found(made).class_ == "START-FAIL"


def reload(log: tuple[str, ...] = WOKEN, frames: tuple[str, ...] = RELOAD) -> Watched:
    made = Watched()
    made.log(*log)
    made.look(100.0, resident_bytes=50 << 20).at(100.0, frames)
    made.look(101.0, resident_bytes=900 << 20).at(101.0, frames)
    return made.probe("/health", 200).probe("/props", None, mono=101.0)


def test_a_reload_that_moves_is_no_hang() -> None:
    verdict = found(reload())
    assert (verdict.class_, verdict.cause, verdict.phase) == ("NOT-A-HANG", "wake", "waking")
    assert verdict.confidence == "strong"


def test_a_reload_that_stands_still_is_stuck() -> None:
    made = Watched()
    made.log(*WOKEN)
    made.look(100.0).at(100.0, RELOAD).look(110.0).at(110.0, RELOAD)
    made.probe("/health", 200).probe("/props", None, mono=110.0)
    assert (found(made).class_, found(made).phase) == ("HANG-LOOP", "waking")


def test_a_stranded_request_stays_stranded_however_often_it_is_looked_at() -> None:
    made = Watched()
    made.log(*SLEPT)
    made.look(100.0).look(110.0).probe("/health", 200).probe("/props", 200, is_sleeping=True)
    made.client(mono=110.0, unanswered=True)
    assert found(made).class_ == "HANG-STRANDED"


# work that moves


def test_batches_between_two_readings_are_progress_though_no_token_came() -> None:
    made = Watched()
    made.look(100.0).look(105.0).client(unanswered=True)
    made.probe("/metrics", 200, decodes=10, requests_processing=1)
    made.probe("/metrics", 200, mono=105.0, decodes=42, requests_processing=1)
    verdict = found(made)
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("NOT-A-HANG", "request", "strong")
    assert "32 batches" in verdict.reasons[0]


def test_a_stream_that_moves_is_progress() -> None:
    made = Watched().client(bytes_sent=100).client(mono=103.0, bytes_sent=900).look(103.0)
    assert found(made).class_ == "NOT-A-HANG"


def test_counters_that_stand_still_with_work_are_not_called_progress() -> None:
    made = Watched()
    made.look(100.0).look(105.0).client(unanswered=True)
    made.probe("/metrics", 200, decodes=10, requests_processing=1)
    made.probe("/metrics", 200, mono=105.0, decodes=10, requests_processing=1)
    assert found(made).class_ == "UNDETERMINED"


def test_a_healthy_idle_server_is_no_fault() -> None:
    made = Watched()
    made.log(*NEVER_SLEPT)
    made.look(100.0).at(100.0, IDLE).look(110.0).at(110.0, IDLE)
    made.probe("/health", 200, mono=110.0).probe("/props", 200, mono=110.0, is_sleeping=False)
    assert (found(made).class_, found(made).confidence) == ("NO-FAULT", "strong")


def test_a_log_alone_hangs_nobody() -> None:
    # An idle server prints nothing either.
    assert found(Maker().log(*NEVER_SLEPT, "task-launched")).class_ == "UNDETERMINED"


@pytest.mark.parametrize(
    ("moments", "confidence"),
    [
        ((True, True), "proven"),
        ((True, False), "proven"),  # the debugger has let go, the server is about to end
        ((False, True), "proven"),
        ((False, False), None),
    ],
)
def test_a_debugger_of_its_own_tells_at_any_moment_of_the_looks(
    moments: tuple[bool, ...], confidence: str | None
) -> None:
    made = Watched()
    made.log("listening").abort("ggml-assert")
    for second, traced in enumerate(moments):
        tracing = {"state": "t", "tracer": "gdb", "tracer_is_child": True} if traced else {}
        made.look(100.0 + second, **tracing)
    finding = found(made)
    assert (finding.class_ == "HANG-ABORTING") == (confidence is not None)
    assert confidence in (None, finding.confidence)
