"""Memory, layers and speed lost by sleep, and what only looks like it.

Device figures and offload lines are recorded shapes: the machine these were written on has no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AnswerFact, LogFact, SettingsFact
from analyzers.contracts.watched import MemoryFact
from analyzers.logs.recognise import recognise
from evidence_builder import AWAKE_AGAIN, NEVER_SLEPT, Maker
from watch_builder import found

MIB = 1 << 20


def held(*cycles: tuple[str, ...], main: str | None = "main.gguf") -> Maker:
    maker = Maker()
    if main is not None:
        maker.add(SettingsFact(sleep_idle_seconds=1, model=f"/models/{main}"), Trust.SUPERVISOR)
    for number, files in enumerate(cycles, 1):
        maker.add(MemoryFact(phase="asleep", cycle=number, bytes=MIB, held_model_files=files), Trust.KERNEL)
    return maker


def test_a_draft_that_stays_mapped_in_two_sleeps_is_d5() -> None:
    # The real shape of b9093: the draft's file is mapped while the server sleeps.
    verdict = found(held(("draft.gguf",), ("draft.gguf",)))
    assert (verdict.class_, verdict.defect, verdict.cause) == ("SLEEP-LEAK", "D5", "sleep")
    assert (verdict.phase, verdict.confidence) == ("asleep", "strong")


def test_one_sleep_alone_may_be_an_unload_under_way() -> None:
    verdict = found(held(("draft.gguf",)))
    assert (verdict.class_, verdict.confidence) == ("SLEEP-LEAK", "weak")
    assert verdict.asks


def test_a_file_that_was_gone_in_one_of_the_sleeps_is_not_kept() -> None:
    assert found(held(("draft.gguf",), ())).class_ == "UNDETERMINED"


@pytest.mark.parametrize("main", ["main.gguf", None])
def test_the_servers_own_model_is_no_draft(main: str | None) -> None:
    verdict = found(held(("main.gguf",), ("main.gguf",), main=main))
    assert (verdict.defect, verdict.confidence) == (None, "weak")


def test_what_is_mapped_while_awake_says_nothing() -> None:
    maker = Maker()
    for number in (1, 2):
        fact = MemoryFact(phase="awake", cycle=number, held_model_files=("draft.gguf",))
        maker.add(fact, Trust.KERNEL)
    assert found(maker).class_ == "UNDETERMINED"


def kept(
    values: Sequence[int], where: str = "device", free: bool = False, trust: Trust = Trust.KERNEL
) -> Maker:
    maker = Maker()
    for number, value in enumerate(values, 1):
        figure = {"free_bytes": value * MIB} if free else {"bytes": value * MIB}
        device = "GPU-0" if where == "device" else None
        maker.add(MemoryFact(where=where, device=device, phase="asleep", cycle=number, **figure), trust)
    return maker


@pytest.mark.parametrize(
    ("values", "free"), [((300, 310, 330, 350, 370), False), ((9000, 8990, 8900, 8800, 8700), True)]
)
def test_memory_that_grows_at_every_sleep_is_a_leak(values: Sequence[int], free: bool) -> None:
    verdict = found(kept(values, free=free))
    assert (verdict.class_, verdict.defect, verdict.confidence) == ("SLEEP-LEAK", None, "strong")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ((300, 310, 310, 310, 310), "a constant remainder is expected while asleep"),
        ((300, 900, 310, 305, 990), "another program's memory comes and goes"),
        ((300, 301, 302, 303, 304), "an allocator's drift of a megabyte is no leak"),
        ((100, 400, 700), "three sleeps are too few"),
    ],
)
def test_what_looks_like_a_leak_and_is_none(values: Sequence[int], why: str) -> None:
    assert found(kept(values)).class_ == "UNDETERMINED", why


def loads(free: Sequence[int], before: tuple[str, ...] = ("listening",)) -> Maker:
    maker = Maker().log(*before)
    for number, value in enumerate(free):
        if number:
            maker.log("enter-sleep", "exit-sleep")
        maker.add(LogFact(event="device-free", model="CUDA0", value=float(value)), Trust.SERVER)
    return maker


def test_less_free_at_every_load_is_a_weak_leak_and_a_single_drop_none() -> None:
    # recorded shape; another program on the device can do both, so text alone is never more than weak
    verdict = found(loads((23000, 22800, 22500, 22200, 21900)))
    assert (verdict.class_, verdict.confidence) == ("SLEEP-LEAK", "weak")
    assert found(loads((23000, 9000, 9000, 9000, 9000))).class_ == "UNDETERMINED"


@pytest.mark.parametrize(
    ("line", "event", "value"),
    [
        (
            "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) - 23306 MiB free",
            "device-free",
            23306.0,
        ),
        (
            "llama_prepare_model_devices: using device Vulkan0 (AMD (RADV)) (0000:03:00.0) - 7990 MiB free",
            "device-free",
            7990.0,
        ),
        ("load_tensors: offloaded 20/33 layers to GPU", "offloaded", 20.0),
        ("0.00.009.652 I load_tensors: offloaded 20/33 layers to GPU", "offloaded", 20.0),
        ("load_tensors: offloading 20 repeating layers to GPU", None, None),
        ("a prompt: load_tensors: offloaded 20/33 layers to GPU", None, None),
    ],
)
def test_what_a_load_says_of_its_devices(line: str, event: str | None, value: float | None) -> None:
    told = recognise(line.encode())
    fact = told.fact if told is not None and isinstance(told.fact, LogFact) else None
    assert ((fact.event, fact.value) if fact else (None, None)) == (event, value)


def placed(*layers: tuple[int, int], wake: bool = True) -> Maker:
    maker = Maker().log("listening")
    for number, (value, total) in enumerate(layers):
        if number and wake:
            maker.log("enter-sleep", "exit-sleep")
        maker.add(LogFact(event="offloaded", value=float(value), total=float(total)), Trust.SERVER)
    return maker


def test_fewer_layers_on_the_device_after_a_wake_is_degraded() -> None:
    verdict = found(placed((33, 33), (20, 33)))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("SLEEP-DEGRADED", "gpu", "strong")


@pytest.mark.parametrize(
    ("layers", "wake", "why"),
    [
        (((33, 33), (33, 33)), True, "the same number again"),
        (((20, 33), (33, 33)), True, "more than before"),
        (((33, 33), (5, 5)), True, "a draft model prints a line of its own"),
        (((33, 33), (20, 33)), False, "no wake between them: another start"),
        (((33, 33),), True, "one load compares with nothing"),
    ],
)
def test_loads_that_are_not_worse(layers: Sequence[tuple[int, int]], wake: bool, why: str) -> None:
    assert found(placed(*layers, wake=wake)).class_ == "UNDETERMINED", why


def timed(before: Sequence[float], after: Sequence[float], log: tuple[str, ...] = AWAKE_AGAIN) -> Maker:
    maker = Maker().log(*log)
    for seconds in before:
        fact = AnswerFact(route="/completion", status=200, seconds=seconds, cycle=0)
        maker.add(fact, Trust.SUPERVISOR)
    for number, seconds in enumerate(after, 1):
        fact = AnswerFact(route="/completion", status=200, seconds=seconds, cycle=1, since_wake=number)
        maker.add(fact, Trust.SUPERVISOR)
    return maker


def test_answers_that_stay_slow_after_a_wake_are_a_weak_degradation() -> None:
    verdict = found(timed((0.1, 0.11, 0.12), (2.0, 0.5, 0.4, 0.45)))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("SLEEP-DEGRADED", "wake", "weak")
    assert verdict.asks


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ((0.1, 0.11, 0.12), (2.0, 0.1, 0.12, 0.11), "only the first answer pays for the load"),
        ((0.1, 0.11, 0.9), (2.0, 0.5, 0.4, 0.45), "one was as slow before the sleep: a busy machine"),
        ((0.1, 0.11, 0.12), (2.0, 0.5), "one warm answer is too few"),
    ],
)
def test_slow_answers_that_sleep_is_not_to_blame_for(
    before: Sequence[float], after: Sequence[float], why: str
) -> None:
    assert found(timed(before, after)).class_ != "SLEEP-DEGRADED", why


def test_without_a_sleep_in_the_log_of_this_process_nothing_is_degraded_by_one() -> None:
    assert found(timed((0.1, 0.11, 0.12), (2.0, 0.5, 0.4, 0.45), NEVER_SLEPT)).class_ != "SLEEP-DEGRADED"


def test_a_server_that_died_is_judged_by_its_death() -> None:
    assert found(held(("draft.gguf",), ("draft.gguf",)).exit(9)).class_ == "KILLED"
