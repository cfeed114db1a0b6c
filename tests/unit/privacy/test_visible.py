from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.privacy.visible import visible

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\x00b\rc\nd\te\x7f", "a\\0b\\rc\\nd\\te\\x7f"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("a\u200bb\u2060c\ufeffd\u00ade", "a\\u200bb\\u2060c\\ufeffd\\xade"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2028\u2029\u3164", "\\u2028\\u2029\\u3164"),
        ("\ud800", "\\ud800"),
        ("plain «text» über 日本 😀", "plain «text» über 日本 😀"),
        ("", ""),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_newlines_can_stay_and_nothing_else() -> None:
    assert visible("a\n\x1bb\r\nc", keep_newlines=True) == "a\n\\x1bb\\r\nc"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet=st.characters(), max_size=200))
def test_no_hidden_character_ever_passes(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(char) in HIDDEN for char in shown)
    assert visible(shown) == shown
    assert shown.encode("utf-8").decode("utf-8") == shown


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_only_line_feeds_pass_when_asked_for(text: str) -> None:
    shown = visible(text, keep_newlines=True)
    assert shown.count("\n") == text.count("\n")
    assert not any(unicodedata.category(char) in HIDDEN for char in shown.replace("\n", ""))
