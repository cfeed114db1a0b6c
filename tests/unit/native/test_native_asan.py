"""An AddressSanitizer report in a server's log: who read, who had freed, whatever stands between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.lab.native.asan import bare, read_report

# In the shape GCC 12 prints, between the server's own lines; addresses and paths are made up.
READ_AFTER_FREE = """\
0.01.107.114 I que    start_loop: exiting sleeping state
=================================================================
==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x6030 at pc 0x55 bp 0x7f sp 0x7e
READ of size 8 at 0x603000000040 thread T12
0.01.110.001 I srv    load_model: loading model
    #0 0x55a0 in std::__uniq_ptr_impl<llama_vocab::impl>::_M_ptr() const /usr/include/c++/12/x.h:173
    #1 0x55a1 in llama_vocab::impl::tokenize(std::string const&, bool, bool) const src/llama-vocab.cpp:3100
    #2 0x55a2 in tokenize_mixed(llama_vocab const*, json const&, bool, bool) server-common.cpp:700
    #3 0x55a3 in server_routes::handle_count_tokens(llama_vocab const*, mtmd_context*) server-context.cpp:5528
    #4 0x55a4 in operator() tools/server/server-context.cpp:4947
    #5 0x7f00  (/lib/x86_64-linux-gnu/libstdc++.so.6+0xd44a2)

0x6030 is located 0 bytes inside of 24-byte region [0x6030,0x6048)
freed by thread T0 here:
    #0 0x7f01 in operator delete(void*, unsigned long) ../../libsanitizer/asan/asan_new_delete.cpp:164
    #1 0x55b0 in std::default_delete<llama_vocab>::operator()(llama_vocab*) const unique_ptr.h:95
    #2 0x55b1 in llama_model::~llama_model() src/llama-model.cpp:900
    #3 0x55b2 in server_context_impl::destroy() tools/server/server-context.cpp:1000
    #4 0x55b3 in server_queue::start_loop(long) tools/server/server-queue.cpp:320

previously allocated by thread T0 here:
    #0 0x7f02 in operator new(unsigned long) ../../libsanitizer/asan/asan_new_delete.cpp:95
    #1 0x55c1 in llama_vocab::llama_vocab() src/llama-vocab.cpp:3500

Thread T12 created by T0 here:
    #0 0x7f03 in __interceptor_pthread_create ../../libsanitizer/asan/asan_interceptors.cpp:207

SUMMARY: AddressSanitizer: heap-use-after-free src/llama-vocab.cpp:3100 in llama_vocab::impl::tokenize
Shadow bytes around the buggy address:
=>0x0c067fff8000: fa fa[fd]fd
==4711==ABORTING
"""


def test_who_read_who_freed_and_who_allocated() -> None:
    report = read_report(READ_AFTER_FREE)
    assert report is not None
    assert (report.kind, report.access, report.size) == ("heap-use-after-free", "READ", 8)
    assert report.lines() == [
        "AddressSanitizer: heap-use-after-free (8 bytes)",
        "read by llama_vocab::impl::tokenize under handle_count_tokens (thread T12)",
        "freed by llama_model::~llama_model under server_context_impl::destroy in the queue loop (thread T0)",
        "allocated by llama_vocab::llama_vocab (thread T0)",
    ]


def test_frames_of_other_headings_are_not_mixed_in() -> None:
    report = read_report(READ_AFTER_FREE)
    assert report is not None
    assert report.freed is not None
    assert report.allocated is not None
    assert [len(each.frames) for each in (report.used, report.freed, report.allocated)] == [6, 5, 2]


def test_a_frame_without_a_symbol_has_a_place() -> None:
    report = read_report(READ_AFTER_FREE)
    assert report is not None
    assert (report.used.frames[5].name, report.used.frames[5].place) == (
        "",
        "(/lib/x86_64-linux-gnu/libstdc++.so.6+0xd44a2)",
    )


def test_a_wild_pointer_names_its_thread() -> None:
    text = (
        "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x5a5a (pc 0x1 bp 0x2 sp 0x3 T4)\n"
        "==1==The signal is caused by a WRITE memory access.\n"
        "    #0 0x1 in server_task::f(int) a.cpp:1\n==1==ABORTING\n"
    )
    report = read_report(text)
    assert report is not None
    assert report.freed is None
    assert report.lines() == ["AddressSanitizer: SEGV", "written by server_task::f (thread T4)"]


def test_an_overflown_stack_is_told() -> None:
    text = "==1==ERROR: AddressSanitizer: stack-overflow on address 0x7f (pc 0x1 bp 0x2 sp 0x3 T9)\n"
    frames = "".join(f"    #{number} 0x1 in recurse(int) a.cpp:1\n" for number in range(10_000))
    report = read_report(text + frames)
    assert report is not None
    assert report.kind == "stack-overflow"
    assert report.lines()[1] == "hit by recurse (thread T9)"
    assert len(report.used.frames) == 512


def test_freeing_twice_is_a_kind() -> None:
    text = "==1==ERROR: AddressSanitizer: attempting double-free on 0x6 thread T3:\n    #0 0x1 in f x.c:1\n"
    report = read_report(text)
    assert report is not None
    assert report.kind == "attempting double-free"


def test_a_handler_that_is_a_lambda_is_one_too() -> None:
    """Inlined, it shows only in what invokes it; the load of a wake shows without the loop's frame."""
    invoked = "__invoke_impl<int, server_routes::init_routes()::<lambda(const server_http_req&)>&>"
    text = READ_AFTER_FREE.replace("server_routes::handle_count_tokens", invoked)
    report = read_report(text.replace("server_queue::start_loop(long)", "other()"))
    assert report is not None
    assert report.freed is not None
    assert report.used.context == "under a route handler"
    assert report.freed.context == "under server_context_impl::destroy"


@pytest.mark.parametrize("text", ["", "all is well", "AddressSanitizer", "ERROR: AddressSanitizer: x"])
def test_a_log_without_a_report_has_none(text: str) -> None:
    assert read_report(text) is None


@pytest.mark.parametrize("end", range(0, len(READ_AFTER_FREE), 97))
def test_a_report_cut_anywhere_is_read_as_far_as_it_goes(end: int) -> None:
    report = read_report(READ_AFTER_FREE[:end])
    assert report is None or report.lines()


def test_hostile_names_do_not_reach_the_terminal() -> None:
    text = READ_AFTER_FREE.replace("llama_vocab::impl::tokenize", "evil\x1b[2J" * 500)
    report = read_report(text)
    assert report is not None
    assert all(line.isprintable() and len(line) <= 300 for line in report.lines())


@given(st.text(max_size=300))
def test_whatever_follows_the_headline_never_raises(tail: str) -> None:
    report = read_report(f"==1==ERROR: AddressSanitizer: heap-use-after-free on\n{tail}")
    assert report is not None
    assert report.lines()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("a::b<c<d>>(e<f>, g(*)(h)) const", "a::b"),
        ("llama_model::~llama_model()", "llama_model::~llama_model"),
        ("llama_model_deleter::operator()(llama_model*)", "llama_model_deleter"),
        ("a::init()::{lambda(bool)#3}::operator()(bool) const", "a::init::{lambda#3}"),
        ("operator()", "operator()"),
        ("plain", "plain"),
    ],
)
def test_names_are_shown_bare(name: str, short: str) -> None:
    assert bare(name) == short
