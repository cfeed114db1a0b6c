"""What AddressSanitizer's report proves: a stale read, a read after the unload, or another fault."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.lab.reference.output import Line
from collector.lab.verify.oracle import Word, reporting, unfinished, word

SLEPT = ("que    start_loop: entering sleeping state", "srv  handle_sleep: server is entering sleeping state")
WOKEN = ("que    start_loop: exiting sleeping state", "srv  handle_sleep: server is exiting sleeping state")
HEAD = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1 at pc 0x2 bp 0x3 sp 0x4"
READ = (
    "READ of size 8 at 0x1 thread T7",
    "    #0 0x1 in llama_vocab::impl::tokenize(bool) /s/llama-vocab.cpp:1",
    "    #1 0x2 in server_routes::handle_count_tokens(server_http_req const&) /s/server.cpp:2",
)
FREED = (
    "freed by thread T0 here:",
    "    #0 0x3 in server_context_impl::destroy() /s/server.cpp:3",
    "    #1 0x4 in server_queue::start_loop(long) /s/queue.cpp:4",
)
FIRST_LOAD = (
    "previously allocated by thread T0 here:",
    "    #0 0x5 in server_context_impl::load_model(common_params&) /s/server.cpp:5",
    "    #1 0x6 in llama_server(int, char**) /s/server.cpp:6",
)
RELOAD = (*FIRST_LOAD[:2], "    #1 0x7 in server_queue::start_loop(long) /s/queue.cpp:7")
LAST = "==7==ABORTING"
REPORT = (HEAD, *READ, *FREED, *FIRST_LOAD, LAST)


def lines(*texts: str) -> list[Line]:
    return [Line(text, 0.0, 0.0) for text in texts]


def said(log: Sequence[str], *, asleep: bool) -> Word:
    found = word(lines(*log), asleep=asleep)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("log", "asleep", "defect"),
    [
        ((*SLEPT, *WOKEN, *REPORT), True, "D1"),
        ((*SLEPT, *WOKEN, *REPORT[:3], *SLEPT, *REPORT[3:]), True, "D1"),  # slept again while it was printed
        ((*SLEPT, *WOKEN, *SLEPT, *WOKEN, *REPORT), True, "D1"),
        ((*SLEPT, *WOKEN, *SLEPT, *REPORT), True, None),  # slept again before it
        ((*SLEPT, *REPORT), True, None),  # no wake
        (REPORT, True, None),  # no sleep
        ((*SLEPT, *WOKEN, HEAD, *READ, *FREED, *RELOAD, LAST), True, None),  # of the model of after the wake
        ((*SLEPT, *REPORT), False, "D2"),
        ((*SLEPT, *WOKEN, *REPORT), False, "D2"),  # a late reader
        (REPORT, False, "D2"),  # the line of the sleep was lost
    ],
)
def test_a_handlers_use_of_what_the_loop_freed(log: Sequence[str], asleep: bool, defect: str | None) -> None:
    judged = said(log, asleep=asleep).judgement
    assert judged.defect == defect
    assert (judged.class_, judged.confidence) == (
        ("SEGV-UAF-SLEEP", "proven") if defect else ("UNDETERMINED", "undetermined")
    )
    assert judged.cause == {"D1": "wake", "D2": "sleep", None: "unknown"}[defect]


@pytest.mark.parametrize("asleep", [True, False])
@pytest.mark.parametrize(
    "report",
    [
        (HEAD.replace("heap-use-after-free", "heap-buffer-overflow"), *READ, *FREED, LAST),
        (HEAD.replace("heap-use-after-free", "stack-overflow"), *READ, LAST),
        (HEAD, *READ, "freed by thread T7 here:", *READ[1:], LAST),  # freed by the handler itself
        (HEAD, READ[0], *FREED[1:], *FREED, LAST),  # used by the loop itself
        (HEAD, *READ, LAST),  # nobody says who freed it
        (HEAD, *READ, FREED[0], FREED[2], LAST),  # freed by the loop, nobody says in what work
        (HEAD, *READ, FREED[0], FREED[1].replace("destroy", "process_single_task"), FREED[2], LAST),
        ("==7==ERROR: AddressSanitizer: out of memory: failed to allocate", LAST),
    ],
)
def test_any_other_report_is_another_fault(report: Sequence[str], asleep: bool) -> None:
    found = said((*SLEPT, *WOKEN, *report), asleep=asleep)
    assert (found.judgement.class_, found.judgement.defect) == ("UNDETERMINED", None)
    assert found.lines == list(report)


def test_one_line_says_who_read_and_who_had_freed() -> None:
    short = said((*SLEPT, *WOKEN, *REPORT), asleep=True).short
    assert "read by llama_vocab::impl::tokenize under handle_count_tokens (thread T7)" in short
    assert "freed by server_context_impl::destroy" in short
    assert "\n" not in short


def test_a_log_without_a_report_has_no_word() -> None:
    assert word(lines(*SLEPT, *WOKEN), asleep=True) is None
    assert not reporting(lines(*SLEPT))
    assert not unfinished(lines(*SLEPT))


@pytest.mark.parametrize("before", ["0.00.001.000 I srv  launch_slot_: prompt: ", "general.name = ", "  "])
def test_the_words_of_a_report_inside_a_line_are_somebodys_text(before: str) -> None:
    # GIVEN a whole report that a prompt or a model brought into the log
    forged = [before + text for text in REPORT]
    # THEN it is none, and the real one after it is the one that is read
    assert word(lines(*SLEPT, *forged), asleep=False) is None
    assert not reporting(lines(*forged))
    real = said((*SLEPT, *forged, HEAD.replace("after-free", "after-poison"), *READ, LAST), asleep=False)
    assert real.judgement.defect is None


def test_a_report_under_way_is_known_by_its_missing_end() -> None:
    assert unfinished(lines(*REPORT[:-1]))
    assert reporting(lines(*REPORT))
    assert not unfinished(lines(*REPORT))


@given(st.lists(st.text(max_size=60), max_size=40), st.booleans())
def test_any_log_is_survived_and_never_proves_anything(texts: list[str], asleep: bool) -> None:
    found = said([HEAD, *texts], asleep=asleep)
    assert found.judgement.defect is None
    assert all(line.isprintable() for line in (*found.lines, found.short))


def test_another_process_s_report_proves_nothing_of_this_one():
    log = lines(*SLEPT, *WOKEN, *REPORT)
    assert word(log, asleep=True, pid=8) is None
    own = word(log, asleep=True, pid=7)
    assert own is not None
    assert own.judgement.defect == "D1"
