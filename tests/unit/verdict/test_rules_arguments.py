"""What a debugger shows of the handler's arguments, and who told of the fault."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ExitFact
from analyzers.stacks.shapes import frame
from analyzers.verdict.case import build_case
from analyzers.verdict.decide import decide
from analyzers.verdict.finding import Finding
from evidence_builder import COUNT_AFFECTED, COUNT_FIXED, HTTP, SLEPT, TOKENIZE, WOKEN, Maker

BARE = "server_routes::handle_count_tokens"
GDB_STALE = (
    "#9  0x0000564766 in server_routes::handle_count_tokens (this=<optimized out>, vocab=0x56478f7d8708, "
    'mctx=0x0, req=..., s="secret(") at tools/server/server-context.cpp:5528'
)
GDB_SOUND = (
    "#9  0x0000564766 in server_routes::handle_count_tokens (this=0x1, req=..., res_type=ONE) at a/b.cpp:1"
)
GDB_CUT = "#9  0x0000564766 in server_routes::handle_count_tokens (this=<optimized out>,"


def printed(line: str) -> str:
    found = frame(line)
    assert found is not None
    return found[1].function or ""


def verdict(maker: Maker) -> Finding:
    return decide(build_case(maker.made))


def pasted(handler: str, log: tuple[str, ...]) -> Finding:
    return verdict(Maker().log(*log).stack((*TOKENIZE, handler, *HTTP), "pasted").exit(11))


def test_a_debuggers_arguments_are_kept_by_name_and_never_by_value() -> None:
    assert printed(GDB_STALE) == f"{BARE}(this, vocab, mctx, req, s)"
    assert "secret" not in printed(GDB_STALE)


@pytest.mark.parametrize("handler", [COUNT_AFFECTED, printed(GDB_STALE)])
def test_the_vocabulary_among_the_arguments_is_d1s_mark(handler: str) -> None:
    found = pasted(handler, WOKEN)
    assert (found.defect, found.confidence) == ("D1", "strong")


@pytest.mark.parametrize("handler", [COUNT_FIXED, printed(GDB_SOUND)])
def test_a_handler_that_takes_the_request_first_is_not_d1(handler: str) -> None:
    assert pasted(handler, WOKEN).defect == "D2"


@pytest.mark.parametrize("handler", [BARE, printed(GDB_CUT)])
@pytest.mark.parametrize("log", [WOKEN, SLEPT])
def test_unknown_arguments_never_lead_to_d2(handler: str, log: tuple[str, ...]) -> None:
    # GIVEN the token-counting handler without the arguments that would tell
    found = pasted(handler, log)
    # THEN both defects stay open
    assert (found.class_, found.defect, found.confidence) == ("SEGV-UAF-SLEEP", None, "weak")
    assert "D1 and D2 both fit" in found.summary


@pytest.mark.parametrize(
    ("by", "word"),
    [("docker", "container"), ("systemd", "unit"), ("shell", "reported"), ("waitpid", "reported")],
)
def test_a_status_is_not_told_as_the_kernels_word(by: str, word: str) -> None:
    found = verdict(Maker().log(*WOKEN).add(ExitFact(by=by, signal=11), Trust.SUPERVISOR))
    assert found.confidence == "weak"
    assert word in found.reasons[0]
    assert not any("kernel saw" in reason for reason in found.reasons)


def test_the_kernels_own_line_is_told_as_such() -> None:
    assert "kernel saw" in verdict(Maker().log(*WOKEN).kernel()).reasons[0]
