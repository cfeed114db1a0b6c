"""What a person sees who types ``llama-blackbox explain``."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from analyzers.catalogue.loader import load_catalogue
from analyzers.cli.verbs.explain import explain
from analyzers.contracts.registry import CLASSES
from analyzers.errors import EXIT_OK, EXIT_UNUSABLE, UserError


def _shown(topic: str | None, width: int = 100) -> str:
    out = io.StringIO()
    assert explain(topic, Console(file=out, width=width, force_terminal=False)) == EXIT_OK
    return out.getvalue()


@pytest.mark.parametrize("topic", [None, "", "  "])
def test_without_a_topic_every_id_is_listed(topic: str | None) -> None:
    text = _shown(topic)
    listed = {id for rows in load_catalogue().ids().values() for id, _ in rows}
    assert set(CLASSES) < listed
    assert all(id in text for id in listed)


def test_a_defect_page_leads_with_what_to_do() -> None:
    text = _shown("d1")
    assert text.index("What to do now") < text.index("What it looks like")
    assert "fixed in b11149" in text
    assert "29188" in text


def test_commands_are_never_wrapped() -> None:
    # GIVEN a narrow terminal WHEN a page is printed THEN each command stands whole on one line
    page = load_catalogue().explain("D1")
    assert page is not None
    lines = [line.strip() for line in _shown("D1", width=40).splitlines()]
    wanted = [step.command for section in page.sections for step in section.steps if step.command]
    assert wanted
    assert all(command in lines for command in wanted)


def test_square_brackets_are_text_not_markup() -> None:
    assert "[Service]" in _shown("D1")
    assert "[affected-mark]" in _shown("D1", width=200)


def test_an_id_with_two_meanings_shows_both() -> None:
    text = _shown("asleep")
    assert "As a state" in text
    assert "As a state" not in _shown("phase:asleep")
    assert "As a" not in _shown("state:asleep")


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("segv-sleep", "SEGV-UAF-SLEEP"),
        ("HANG-STRAND", "HANG-STRANDED"),
        ("asleeep", "asleep"),
        ("stale", "D1"),
        ("strandedtask", "D3"),
        ("D9", "D8"),
    ],
)
def test_a_near_miss_is_answered_with_the_nearest_ids(topic: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        _shown(topic)
    assert caught.value.status == EXIT_UNUSABLE
    assert f"did you mean {hint}" in str(caught.value) or f" or {hint}" in str(caught.value)


def test_nonsense_gets_no_guess_but_a_way_on() -> None:
    with pytest.raises(UserError) as caught:
        _shown("zzzzqqq")
    assert "did you mean" not in str(caught.value)
    assert "lists all ids" in str(caught.value)


def test_control_characters_of_a_topic_never_come_back() -> None:
    with pytest.raises(UserError) as caught:
        _shown("D1\x1b]0;owned\x07" + "x" * 10_000)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@given(st.text(max_size=120))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_topic_ends_in_a_page_or_one_line(topic: str) -> None:
    said = ""
    try:
        _shown(topic)
    except UserError as error:
        said = str(error)
    assert said.isprintable()
