"""Whose a sleep line and whose a kernel line is: settings that exclude sleep, lines of another fault."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AbortFact, Frame, SettingsFact, StackFact
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import AWAKE_AGAIN, COUNT_AFFECTED, HTTP, SLEPT, TOKENIZE, WOKEN, Maker

STALE = (*TOKENIZE, COUNT_AFFECTED, *HTTP)


def verdict(maker: Maker) -> Finding:
    return decide(build_case(maker.made))


def settings(maker: Maker, idle: int | None, trust: Trust = Trust.KERNEL) -> Maker:
    return maker.add(SettingsFact(sleep_idle_seconds=idle), trust)


def asked(found: Finding) -> str:
    return "\n".join(f"{ask.what}: {ask.why}" for ask in found.asks)


def d1(log: tuple[str, ...] = WOKEN) -> Maker:
    maker = Maker().log(*log).kernel("segfault", mono=100.0).core()
    return maker.stack(STALE).loop("awake", sleeping=False, last_ms=99_999)


@pytest.mark.parametrize("trust", [Trust.KERNEL, Trust.SUPERVISOR])
@pytest.mark.parametrize("log", [WOKEN, SLEPT, AWAKE_AGAIN])
def test_sleep_lines_of_a_process_that_never_sleeps_blame_nothing(trust: Trust, log: tuple[str, ...]) -> None:
    # GIVEN all of D1 in the core, and settings by its own command line, its unit or its container
    found = verdict(settings(d1(log), -1, trust))
    # THEN no sleep is blamed, and the lines are named as somebody else's
    assert (found.class_, found.defect, found.cause, found.confidence) == ("SEGV", None, "unknown", "weak")
    assert "started with sleep off" in "\n".join(found.reasons)
    assert "whose the sleep lines in the log are" in asked(found)
    assert found.suspect is None


@pytest.mark.parametrize("idle", [None, 1, 300])
def test_settings_that_allow_sleep_change_nothing(idle: int | None) -> None:
    found = verdict(settings(d1(), idle))
    assert found.defect == "D1"
    assert "whose the sleep lines" not in asked(found)


def test_a_command_line_in_the_core_outranks_an_edited_unit() -> None:
    edited = settings(settings(d1(), -1, Trust.SUPERVISOR), 300)
    assert verdict(edited).defect == "D1"
    assert verdict(settings(settings(d1(), 300, Trust.SUPERVISOR), -1)).defect is None


def test_settings_that_a_client_could_have_printed_exclude_nothing() -> None:
    assert verdict(settings(d1(), -1, Trust.CLIENT)).defect == "D1"


def test_no_other_sleep_defect_is_named_either() -> None:
    bare = Maker().log(*SLEPT).exit(139 - 128)
    assert verdict(bare).defect == "D2"
    assert verdict(settings(bare, -1, Trust.SUPERVISOR)).defect is None
    text = "failed to reload model after sleeping"
    reload = Maker().log(*WOKEN).add(AbortFact(shape="wake-reload", message=text), Trust.SERVER).exit(6)
    assert verdict(reload).class_ == "ABRT-WAKE-RELOAD"
    assert verdict(settings(reload, -1)).class_ != "ABRT-WAKE-RELOAD"


def test_a_queue_that_sleeps_against_its_settings_is_weak_and_says_so() -> None:
    reader = (*TOKENIZE, "server_routes::handle_completions_impl(server_http_req const&)", *HTTP)
    maker = Maker().core().stack(reader).loop("asleep", sleeping=True)
    assert verdict(maker).confidence == "proven"
    found = verdict(settings(maker, -1))
    assert (found.defect, found.confidence) == ("D2", "weak")
    assert "misread" in found.reasons[-1]


IP, SP, ADDRESS = 0x7F00_1000, 0x7FFF_0000, 0x172
OWN = {"ip": IP, "sp": SP, "address": ADDRESS, "object": "llama-server", "name": "llama-server"}


def with_line(*, core_ip: int | None = IP, **line: object) -> Maker:
    maker = Maker().log(*WOKEN).kernel("segfault", mono=100.0, **{**OWN, **line})
    maker.core(instruction_pointer=core_ip, stack_pointer=SP, fault_address=ADDRESS, program="llama-server")
    frames = (Frame(STALE[0], module="llama-server"), *(Frame(name) for name in STALE[1:]))
    maker.add(StackFact(crashed=True, rung="eu-stack", frames=frames, complete=True), Trust.KERNEL)
    return maker.loop("awake", sleeping=False, last_ms=99_999)


def test_a_kernel_line_of_this_fault_counts() -> None:
    found = verdict(with_line())
    assert "another one" not in asked(found)
    assert any("kernel's stamp" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("core_ip", "line", "differs"),
    [
        (IP, {"ip": IP + 1}, "the instruction"),
        (IP, {"address": ADDRESS + 8}, "the address"),
        (IP, {"sp": SP + 8}, "the stack pointer"),
        (IP, {"object": "firefox"}, "the object"),
        (None, {"name": "firefox"}, "the name"),
    ],
)
def test_a_kernel_line_of_another_fault_dates_nothing(
    core_ip: int | None, line: dict[str, object], differs: str
) -> None:
    # GIVEN a line with this thread's number and another fault
    found = verdict(with_line(core_ip=core_ip, **line))
    # THEN it is no witness, proves nothing, and is named
    assert found.confidence != "proven"
    assert "E5" not in found.witnesses
    assert f"{differs} differs" in asked(found)
    assert not any("kernel's stamp" in reason for reason in found.reasons)


def test_a_line_about_the_machine_is_not_held_against_registers() -> None:
    maker = with_line().kernel("gpu-fault", mono=50.0, name="other")
    assert "another one" not in asked(verdict(maker))
