"""What a core without readable stacks may prove, each with a twin that must not be proven."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import CoreFact, Frame, LoopFact, PointerFact, StackFact
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import COMPLETIONS, COUNT_AFFECTED, HTTP, TOKENIZE, WOKEN, Maker

TID, LOOP = 41, 42
READER, OTHER = TOKENIZE[0], "std::_Hashtable<std::string>::_M_find_before_node(unsigned long)"
ASLEEP = LoopFact("asleep", ("flags",), None, True, False, 90_000, owner=0)
BUSY = LoopFact("unknown", ("flags:asleep|unloading|waking",), None, True, False, 90_000, owner=LOOP)
CORE = CoreFact(signal=11, si_code=1, fault_address=8, crashed_tid=TID)
NOTES = StackFact(tid=TID, crashed=True, rung="notes", frames=(Frame(READER),))


def found(
    stack: StackFact = NOTES,
    loop: LoopFact | None = ASLEEP,
    core: CoreFact = CORE,
    log: tuple[str, ...] = (),
    stamp: float | None = 100.0,
    pointer: PointerFact | None = None,
) -> Finding:
    maker = Maker().add(core, Trust.KERNEL).add(stack, Trust.KERNEL).log(*log)
    if loop is not None:
        maker.add(loop, Trust.KERNEL)
    if pointer is not None:
        maker.add(pointer, Trust.KERNEL)
    if stamp is not None:
        maker.kernel(mono=stamp, tid=TID)
    return decide(build_case(maker.made))


@pytest.mark.parametrize(("loop", "phase"), [(ASLEEP, "asleep"), (BUSY, "unknown")])
def test_a_reader_off_the_loop_while_the_flag_is_set_is_proven(loop: LoopFact, phase: str) -> None:
    finding = found(loop=loop)
    assert (finding.class_, finding.defect, finding.cause) == ("SEGV-UAF-SLEEP", "D2", "sleep")
    assert (finding.confidence, finding.phase, finding.handler) == ("proven", phase, None)


def test_one_frame_of_the_unwinder_is_the_registers_frame() -> None:
    alone = StackFact(tid=TID, crashed=True, rung="eu-stack", frames=(Frame(READER, trust="register"),))
    assert found(alone).confidence == "proven"


@pytest.mark.parametrize(
    "twin",
    [
        {"loop": replace(ASLEEP, phase="awake", sleeping=False)},  # awake
        {"loop": None},  # the queue's page is not there
        {"loop": replace(ASLEEP, how=("registers",), sleeping=None, owner=None)},  # waits, flags unread
        {"loop": replace(ASLEEP, owner=None)},  # who holds the mutex is not known
        {"loop": replace(BUSY, owner=TID)},  # the loop itself reads the vocabulary while it loads
        {"loop": replace(BUSY, tid=TID)},  # the thread that died is the loop
        {"core": replace(CORE, stack_overflow=True)},  # may be the request's own depth
        {"core": replace(CORE, signal=6, si_code=-6, fault_address=None)},  # an abort
        {"stack": replace(NOTES, frames=(Frame(OTHER),))},  # library code, whoever called it
        {"stack": replace(NOTES, frames=(Frame(None, module="llama-server", offset=16),))},  # no name
        {"stack": replace(NOTES, rung="scan", frames=(Frame(OTHER, trust="register"), Frame(READER)))},
        {"stack": replace(NOTES, rung="pasted")},  # text
        {
            "stack": replace(
                NOTES, rung="eu-stack", complete=True, frames=(Frame(READER), *map(Frame, HTTP[3:]))
            )
        },
    ],
)
def test_look_alikes_are_not_proven(twin: dict[str, object]) -> None:
    assert found(**twin).confidence != "proven"  # type: ignore[arg-type]


def test_a_stamp_before_the_last_task_is_a_contradiction() -> None:
    assert found(stamp=89.9).confidence == "strong"
    assert found(stamp=89.99).confidence == "proven"  # within the two clocks' skew
    assert found(stamp=None).confidence == "proven"


def test_the_pointer_is_told_and_decides_nothing() -> None:
    pointer = PointerFact("rdi", 0xA5A5A5A5A5A5A5A5, "freed-fill", 0xA5, TID)
    finding = found(pointer=pointer)
    assert any("pointer" in reason for reason in finding.reasons)
    # AND on an awake server freed memory is no sleep's doing
    awake = found(loop=replace(ASLEEP, phase="awake", sleeping=False), pointer=pointer)
    assert (awake.class_, awake.defect) == ("SEGV", None)


def scan(*functions: str) -> StackFact:
    frames = (Frame(OTHER, trust="register"), *(Frame(name, trust="scanned") for name in functions))
    return StackFact(tid=TID, crashed=True, rung="scan", frames=frames)


def test_a_scanned_reader_and_handler_are_weak_at_most() -> None:
    finding = found(scan(*TOKENIZE, COMPLETIONS, *HTTP))
    assert (finding.defect, finding.confidence) == ("D2", "weak")
    # WHEREAS the same frames, unwound, prove it
    whole = replace(scan(*TOKENIZE, COMPLETIONS, *HTTP), rung="eu-stack", complete=True)
    assert found(whole).confidence == "proven"


def test_a_scanned_stale_capture_is_weak_unwound_or_not_where_nothing_ties_the_log() -> None:
    awake = LoopFact("awake", ("flags", "registers"), LOOP, False, False, 99_999, owner=0)
    frames = scan(*TOKENIZE, COUNT_AFFECTED, *HTTP)
    finding = found(frames, awake, log=WOKEN)
    assert (finding.defect, finding.confidence) == ("D1", "weak")
    assert found(replace(frames, rung="eu-stack", complete=True), awake, log=WOKEN).confidence == "weak"


@pytest.mark.parametrize(("loop", "confidence"), [(ASLEEP, "weak"), (None, "strong")])
def test_an_endless_reader_without_its_handler_is_no_sure_stack_overflow_while_the_model_is_gone(
    loop: LoopFact | None, confidence: str
) -> None:
    # GIVEN the inner end of a recursion over the vocabulary; the far end, with the handler, was not kept
    frames = (Frame("malloc"), Frame(TOKENIZE[0], repeat=20_000))
    cut = StackFact(tid=TID, crashed=True, rung="stride", frames=frames)
    awake = replace(ASLEEP, phase="awake", sleeping=False)
    finding = found(cut, loop or awake, replace(CORE, stack_overflow=True))
    assert (finding.class_, finding.confidence) == ("SEGV-STACK", confidence)


@pytest.mark.parametrize(
    "name", ["ggml_abort", "std::terminate()", "server_response::recv(int)", "server_queue::start_loop(long)"]
)
def test_words_on_a_stack_make_no_other_claim(name: str) -> None:
    plain = found(scan("f"), loop=None)
    assert replace(found(scan(name), loop=None), witnesses=()) == replace(plain, witnesses=())


def test_a_handler_that_only_a_scan_names_is_not_claimed_by_a_sure_verdict() -> None:
    core = replace(CORE, signal=8)
    finding = found(scan(COMPLETIONS, *HTTP), loop=None, core=core, stamp=None)
    assert finding.class_ == "FPE"
    assert finding.confidence == "weak" or finding.handler is None
