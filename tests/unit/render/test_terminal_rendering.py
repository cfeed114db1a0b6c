"""The terminal rendering: width, colour, characters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from analyzers.contracts.report import Gap, Report
from analyzers.render.terminal import render_follow_up

Terminal = Callable[..., str]
UNBREAKABLE = re.compile(r"^\s+(?:\$ |bug |site |sha256 )")  # kept whole, so that they can be copied


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_breakable_is_wider_than_the_console(
    width: int, any_sample: Report, terminal: Terminal
) -> None:
    lines = terminal(any_sample, width=width).splitlines()
    assert [line for line in lines if cell_len(line) > width and not UNBREAKABLE.match(line)] == []


def test_wide_characters_are_counted_as_two_columns(
    hostile: Callable[[str], Report], terminal: Terminal
) -> None:
    lines = terminal(hostile("漢字" * 30), width=40).splitlines()
    assert [line for line in lines if cell_len(line) > 40 and not UNBREAKABLE.match(line)] == []


def test_no_color_means_no_escape_byte(
    any_sample: Report, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in terminal(any_sample, force_terminal=True, color_system="truecolor")


def test_dumb_terminal_means_no_escape_byte(
    any_sample: Report, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in terminal(any_sample, force_terminal=True)


def test_colour_is_only_decoration(any_sample: Report, terminal: Terminal) -> None:
    # GIVEN the same report with and without colour WHEN the escapes are dropped THEN every word is the same
    coloured = terminal(any_sample, force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == terminal(any_sample)


def test_ascii_stdout_gets_words_and_no_boxes(any_sample: Report, as_ascii: Callable[[Report], str]) -> None:
    text = as_ascii(any_sample)
    assert text.isascii()
    assert not re.search(r"[+|][-=]{3}|\\u[0-9a-f]{4}", text)


def test_telling_frames_are_marked_and_plumbing_is_folded(
    sample: Callable[[str], Report], terminal: Terminal
) -> None:
    text = terminal(sample("d1"))
    crashed = text[text.index("Crashed thread") : text.index("Queue loop")]
    assert re.search(r"▶ 5 server_routes::handle_count_tokens", crashed)
    assert re.search(r"  4 tokenize_mixed", crashed)
    assert "10 frames of plumbing" in crashed
    assert "httplib::Server" not in crashed


def test_trust_stands_beside_each_fact_and_is_explained(
    sample: Callable[[str], Report], terminal: Terminal
) -> None:
    text = " ".join(terminal(sample("d1")).split())
    assert re.search(r"E1 \[kernel\] python\[3150\]: segfault", text)
    assert re.search(r"E7 \[client\] POST /v1/chat/completions/input_tokens", text)
    assert "[client] a client could have forged it" in text


def test_sleep_and_its_length_stand_in_the_timeline(
    sample: Callable[[str], Report], terminal: Terminal
) -> None:
    lines = terminal(sample("d1")).splitlines()
    at = next(n for n, line in enumerate(lines) if "entering sleeping state" in line and "1.059063 s" in line
              and "┬" in line)  # fmt: skip
    assert "asleep 309 ms" in lines[at + 1]
    assert "exiting sleeping state" in lines[at + 2]


def test_long_timelines_say_how_many_moments_they_leave_out(
    sample: Callable[[str], Report], terminal: Terminal
) -> None:
    # GIVEN a day of sleeping and waking WHEN rendered THEN what is left out is counted, its sleeps as well
    report = sample("no_fault")
    text = terminal(report)
    part = text[text.index("Timeline") : text.index("All moments: --html or --json")]
    left = [int(number) for number in re.findall(r"│ (\d+) more", part)]
    shown = re.findall(r"^  \d\d-\d\d ", part, flags=re.MULTILINE)
    assert sum(left) + len(shown) == len(report.timeline)
    assert re.search(r"\d+ more, \d+ sleeps among them", part)
    assert part.count("entering sleeping state") >= 8


def test_gaps_name_what_is_missing_why_and_the_command(
    sample: Callable[[str], Report], terminal: Terminal
) -> None:
    text = terminal(sample("undetermined"))
    missing = text[text.index("What is missing") :]
    assert "the stack: no core was given" in missing
    assert "$ coredumpctl list llama-server" in missing


def test_a_benign_verdict_asks_for_nothing(sample: Callable[[str], Report], terminal: Terminal) -> None:
    text = terminal(sample("no_fault"))
    assert "NO ACTION NEEDED" in text
    assert re.search(r"What to do\n  Nothing\.", text)


def test_follow_up_prints_only_what_is_new(sample: Callable[[str], Report]) -> None:
    # GIVEN a report as printed, and the same with gdb's frames, a hash and one more gap
    before = sample("d2_recursion")
    gdb = before.threads[0].model_copy(update={"rung": "gdb"})
    hashed = before.inputs[0].model_copy(update={"sha256": "ab" * 32})
    gap = Gap(what="gdb's variables", why="cut off after 5 s")
    after = before.model_copy(
        update={"threads": [*before.threads, gdb], "inputs": [hashed, before.inputs[1]], "gaps": [gap]}
    )
    # WHEN the follow-up is printed THEN it holds those three and no second verdict
    buffer = io.StringIO()
    render_follow_up(after, Console(file=buffer, width=80), before)
    text = buffer.getvalue()
    assert "read by gdb" in text
    assert "read by stride" not in text
    assert "ab" * 32 in text
    assert "gdb's variables: cut off after 5 s" in text
    assert "FAULT FOUND" not in text
