"""What holds for the terminal, Markdown and the page alike."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from analyzers.contracts.report import Report, Tool, Verdict
from analyzers.render import words

Rendering = Callable[[Report], str]


def plain(text: str) -> str:
    """Blanks joined, entities and Markdown escapes undone: what a reader's eye gets."""
    return " ".join(re.sub(r"\\([_*])", r"\1", html.unescape(text)).replace("│", " ").split())


def minimal(**verdict: str) -> Report:
    return Report(
        tool=Tool(version="0", catalogue="0"), verdict=Verdict.model_validate({"class": "SEGV", **verdict})
    )


def test_headline_names_class_defect_and_confidence(any_sample: Report, rendering: Rendering) -> None:
    # GIVEN any sample report WHEN it is rendered
    text = plain(rendering(any_sample))
    # THEN one sentence holds all three
    sentence = words.headline(any_sample.verdict)
    assert sentence in text
    assert any_sample.verdict.class_ in sentence
    assert any_sample.verdict.defect is None or f"defect {any_sample.verdict.defect}" in sentence
    assert words.confidence_word(any_sample.verdict).upper() in sentence.upper()


def test_meaning_of_the_confidence_stands_in_words(any_sample: Report, rendering: Rendering) -> None:
    text = plain(rendering(any_sample))
    assert words.confidence_meaning(any_sample.verdict) in text


@pytest.mark.parametrize("number", range(6))
def test_reasons_follow_the_advice_and_the_advice_follows_the_verdict(
    number: int, sample: Callable[[str], Report], terminal: Callable[..., str]
) -> None:
    # GIVEN a report with everything WHEN it is read from the top
    text = terminal(sample("d1"))
    order = ["FAULT FOUND", "What it means", "What to do", "Why this verdict", "Evidence", "Crashed thread",
             "Queue loop"]  # fmt: skip
    # THEN each part comes before the next
    assert text.index(order[number]) < text.index(order[number + 1])


def test_unknown_ids_are_shown_not_refused(rendering: Rendering) -> None:
    # GIVEN ids another version invented
    report = minimal(**{"class": "MELTED", "cause": "moon", "phase": "dreaming", "confidence": "sworn"})
    # WHEN rendered THEN each of them is there
    text = plain(rendering(report))
    for word in ("MELTED", "moon", "dreaming", "sworn"):
        assert word in text


def test_fields_of_a_newer_writer_are_shown(rendering: Rendering, sample: Callable[[str], Report]) -> None:
    # GIVEN a report with fields this version does not know, at the top and deep inside
    data = sample("d1").model_dump(mode="json", by_alias=True)
    data["weather"] = "thunderstorm"
    data["threads"][0]["frames"][0]["colour"] = "octarine"
    # WHEN rendered THEN name and value are there
    text = plain(rendering(Report.model_validate(data)))
    for word in ("weather", "thunderstorm", "octarine"):
        assert word in text


def test_another_major_schema_is_named(sample: Callable[[str], Report], terminal: Callable[..., str]) -> None:
    report = sample("d3").model_copy(update={"schema_": "llama-blackbox/report/9"})
    assert "llama-blackbox/report/9" in terminal(report)


def test_a_report_with_nothing_in_it_still_renders(rendering: Rendering) -> None:
    assert "SEGV" in rendering(minimal())


def test_recursion_is_one_row_with_its_count(rendering: Rendering, sample: Callable[[str], Report]) -> None:
    # GIVEN a stack with a frame repeated 65,393 times WHEN rendered
    text = plain(rendering(sample("d2_recursion")))
    # THEN the count stands beside the one frame, and the handler at the far end is there
    assert re.search(r"resegment.{0,60}?[×x] (</span> ?)?65,393|resegment.{0,80}65,393", text)
    assert "#65406" in text or "65406 server_routes::handle_completions_impl" in text


@pytest.mark.parametrize("flavour", ["html", "terminal"])
def test_every_advice_command_stands_there_verbatim(
    flavour: str, any_sample: Report, terminal: Callable[..., str]
) -> None:
    from analyzers.render import render_html

    # GIVEN advice with commands WHEN rendered, on a terminal too narrow for them
    text = terminal(any_sample, width=40) if flavour == "terminal" else html.unescape(render_html(any_sample))
    # THEN each can be copied in one piece
    commands = [step.command for step in any_sample.verdict.advice] + [gap.command for gap in any_sample.gaps]
    assert [command for command in commands if command and command not in text] == []


def test_importing_the_package_loads_no_renderer() -> None:
    # GIVEN a fresh interpreter WHEN the package is imported, as --json does
    code = "import sys, analyzers.render; print([m for m in sys.modules if m.split('.')[0] == 'rich' "
    code += "or m.startswith('analyzers.render.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # THEN neither rich nor any rendering came along
    assert found.stdout.strip() == "[]"


def test_html_and_markdown_need_no_rich() -> None:
    code = "import sys; sys.modules['rich'] = None\n"
    code += "from analyzers.contracts.report import Report, Tool, Verdict\n"
    code += "from analyzers.render import render_html, render_markdown\n"
    code += "r = Report(tool=Tool(version='0', catalogue='0'), verdict=Verdict(**{'class': 'SEGV'}))\n"
    code += "print(len(render_html(r)) > 0, len(render_markdown(r)) > 0)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]
