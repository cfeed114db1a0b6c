"""Short names and folded plumbing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.report import FrameView, Report, Thread
from analyzers.render.frames import MAX_ROWS, folded_text, ordered, place, rows, short_name


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("llama_vocab::impl::tokenize(std::string const&, bool, bool) const", "llama_vocab::impl::tokenize"),
        ("char* std::string::_S_construct<char const*>(char const*)", "std::string::_S_construct"),
        (
            "server_routes::init_routes()::{lambda(server_http_req const&)#8}::operator()"
            "(server_http_req const&) const",
            "server_routes::init_routes::{lambda#8}::operator()",
        ),
        ("operator new(unsigned long)", "operator new"),
        ("bool operator< <int>(a<int> const&, a<int> const&)", "operator<"),
        ("(anonymous namespace)::helper(int)", "{anonymous}::helper"),
        ("llama_decode.cold", "llama_decode"),
        ("ggml_abort [clone .constprop.0]", "ggml_abort"),
        ("main", "main"),
        ("", "??"),
        (None, "??"),
        ("<<<>>>", "<<<>>>"),
    ],
)
def test_short_names(long: str | None, short: str) -> None:
    assert short_name(long) == short


@given(st.text(alphabet="ab:<>(){}# ~*&[]", max_size=80))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_name_gives_some_short_name(name: str) -> None:
    assert short_name(name) != ""


def frame(name: str, **more: object) -> FrameView:
    return FrameView.model_validate({"function": name, **more})


def test_runs_of_plumbing_fold_and_single_frames_stay() -> None:
    # GIVEN one plumbing frame between ours, and a run of three below
    names = ["tokenize", "std::sort", "handler", "std::function", "httplib::Server::x", "start_thread"]
    shown = rows(Thread(frames=[frame(name) for name in names]))
    # THEN the single one is shown and the run is one row
    assert [row.frame.function if row.frame else len(row.folded) for row in shown] == [
        "tokenize", "std::sort", "handler", 3
    ]  # fmt: skip
    assert folded_text(shown[-1]) == "3 frames of plumbing (std, httplib)"


def test_telling_and_repeated_frames_never_fold() -> None:
    frames = [frame("a"), frame("std::x", telling=True), frame("std::y", repeat=7), frame("std::z")]
    assert all(row.frame for row in rows(Thread(frames=frames)))


def test_the_faulting_frame_is_never_folded() -> None:
    shown = rows(Thread(frames=[frame("_int_malloc"), frame("std::a"), frame("std::b")]))
    assert shown[0].frame is not None


def test_waits_stay_because_their_kind_tells_asleep_from_awake() -> None:
    names = ["__futex_abstimed_wait_common", "___pthread_cond_timedwait64", "std::wait", "std::wait"]
    shown = rows(Thread(frames=[frame(name) for name in names]))
    assert "timedwait" in (shown[1].frame.function or "" if shown[1].frame else "")


def test_numbers_count_repeats_as_a_debugger_does() -> None:
    shown = rows(Thread(frames=[frame("a", repeat=100), frame("b")]))
    assert [row.index for row in shown] == [0, 100]


def test_endless_lists_are_bounded_and_named() -> None:
    shown = rows(Thread(frames=[frame(f"f{number}") for number in range(5000)]))
    assert len(shown) == MAX_ROWS + 1
    assert len(shown[-1].folded) == 5000 - MAX_ROWS


def test_crashed_first_then_the_loop() -> None:
    threads = [Thread(tid=1), Thread(tid=2, role="queue-loop"), Thread(tid=3, crashed=True)]
    assert [thread.tid for thread in ordered(threads)] == [3, 2, 1]


def test_place_prefers_source_then_module() -> None:
    assert place(frame("a", file="x.cpp", line=7, module="/usr/lib/m.so", offset="0x1")) == "x.cpp:7"
    assert place(frame("a", module="/usr/lib/m.so", offset="0x1")) == "m.so+0x1"
    assert place(frame("a")) == ""


def test_frames_that_were_only_found_on_the_stack_say_so(
    sample: Callable[[str], Report], rendering: Callable[[Report], str]
) -> None:
    # GIVEN a stack of which one frame was unwound and the next only found WHEN rendered in full
    report = sample("d1")
    crashed = report.threads[0]
    first, second, *rest = crashed.frames
    known = [first.model_copy(update={"trust": "register"}), second.model_copy(update={"trust": "guessed"})]
    thread = crashed.model_copy(update={"frames": [*known, *rest], "trust": "the frames are poor"})
    text = rendering(report.model_copy(update={"threads": [thread]}))
    # THEN the doubtful one is marked, the other is not, and the sentence on all stands there
    assert text.count("[guessed]") == 1
    assert "[register]" not in text
    assert "the frames are poor" in text
