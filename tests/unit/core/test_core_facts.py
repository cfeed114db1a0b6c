"""The evidence a core gives by itself: text, trust, the stack overflow heuristic, no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import CoreFact, LoopFact, fact_of
from analyzers.core.facts import STACK_REACH, core_evidence, loop_evidence, stack_overflow
from analyzers.core.notes import read_core
from elfcore import CoreBuilder, R, W

STACK = 0x7FE9_F40F_D000


def fault_at(tmp_path: Path, fault: int, sp: int, code: int = 2, guard: int = 0) -> bool:
    builder = CoreBuilder(fault=fault, si_code=code).thread(1, rsp=sp).load(0x5000_0000, b"h" * 4096)
    builder.load(STACK - 4096, b"", guard, 4096).load(STACK, b"s" * 64, R | W, 8 << 20)
    return stack_overflow(read_core(builder.write(tmp_path / "core")))


@pytest.mark.parametrize(
    ("fault", "sp", "expected"),
    [
        (STACK - 8, STACK, True),  # a push or call at the very end
        (STACK - 8, STACK - 8, True),
        (STACK - 4096, STACK + 100, True),  # a large frame touches its far end first
        (STACK - STACK_REACH - 8, STACK, False),
        (STACK + 8, STACK, False),  # inside the stack
        (STACK - 8, STACK + (1 << 20), False),  # far from the stack pointer
        (0x172, STACK, False),
        (0x5000_0000 - 8, 0x5000_0000 - 16, True),  # any writable mapping that the pointer just left
        (0x6000_0000, 0x6000_0000, False),  # below nothing
    ],
)
def test_a_stack_overflow_is_a_fault_just_below_a_stack_next_to_the_pointer(
    tmp_path: Path, fault: int, sp: int, expected: bool
) -> None:
    assert fault_at(tmp_path, fault, sp) is expected


def test_a_fault_in_writable_memory_is_no_overflow(tmp_path: Path) -> None:
    # GIVEN that the page below the stack is ordinary memory, not a guard
    assert not fault_at(tmp_path, STACK - 8, STACK, guard=R | W)


def test_an_unknown_address_is_never_a_stack_overflow(tmp_path: Path) -> None:
    assert not fault_at(tmp_path, STACK - 8, STACK, code=0x80)


def evidence_text(tmp_path: Path, builder: CoreBuilder) -> str:
    core = read_core(builder.write(tmp_path / "core"))
    return core_evidence(core, "core", lambda: "e1")[0].text


@pytest.mark.parametrize(
    ("signal", "code", "fault", "text"),
    [
        (11, 1, 0x172, "SIGSEGV at address 0x172 in thread 7, 2 threads"),
        (11, 0x80, 0, "SIGSEGV at unknown address in thread 7, 2 threads"),
        (6, -6, 0, "SIGABRT in thread 7, 2 threads"),
        (99, 0, 0, "signal 99 in thread 7, 2 threads"),
        (0, 0, 0, "no signal in thread 7, 2 threads"),
    ],
)
def test_the_text_says_signal_address_thread(
    tmp_path: Path, signal: int, code: int, fault: int, text: str
) -> None:
    builder = CoreBuilder(signal=signal, si_code=code, fault=fault).thread(7).thread(8)
    assert evidence_text(tmp_path, builder) == text


def test_a_cut_core_and_a_core_without_threads_say_so(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(CoreBuilder().thread(1).load(0x1000, b"x" * 64).bytes()[:130])
    text = core_evidence(read_core(path), "core", lambda: "e1")[0].text
    assert text == "no signal in an unknown thread, 0 threads, the core is cut"


def test_the_evidence_is_kernel_set_complete_and_free_of_arguments(tmp_path: Path) -> None:
    # GIVEN a core whose command line holds a key
    builder = (
        CoreBuilder(program=b"llama\x1b[31m")
        .thread(7, rip=0x10, rsp=0x20)
        .file(0x1000, 0x2000, 0, "/opt/llama-server")
    )
    builder.auxv = {3: 0x1040}
    core = read_core(builder.write(tmp_path / "core"))
    # WHEN it becomes evidence
    (evidence,) = core_evidence(core, "co\x1bre", lambda: "e9")
    fact = fact_of(evidence, CoreFact)
    # THEN the fact survives the round trip and no secret or control character is in it
    assert fact is not None
    assert (fact.crashed_tid, fact.instruction_pointer, fact.stack_pointer) == (7, 0x10, 0x20)
    assert (fact.exe, fact.program, fact.threads) == ("/opt/llama-server", "llama?[31m", 1)
    assert (evidence.id, evidence.trust, evidence.incarnation.pid) == ("e9", Trust.KERNEL, 4000)
    assert "planted-secret" not in evidence.model_dump_json()
    assert "\x1b" not in evidence.source + evidence.text


def test_the_loops_state_is_readable(tmp_path: Path) -> None:
    core = read_core(CoreBuilder().thread(7).write(tmp_path / "core"))
    fact = LoopFact("awake", ("flags", "frames"), 9, False, False, 4646602)
    evidence = loop_evidence(core, fact, "core", lambda: "e2")
    assert evidence.text == "queue loop awake (flags, frames), sleeping=false, last task at 4646602 ms"
    assert fact_of(evidence, LoopFact) == fact
