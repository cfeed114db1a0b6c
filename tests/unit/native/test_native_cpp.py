"""Declarations are found by names and braces, whatever stands in comments and literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.lab.native.cpp import Span, bodies, closing, masked


def inside(text: str, *steps: str) -> list[str]:
    """The bodies that ``steps`` lead to, as text."""
    plain = masked(text)
    spans = [Span(0, len(plain))]
    for step in steps:
        spans = [found for span in spans for found in bodies(plain, step, span)]
    return [text[span.start : span.end].strip() for span in spans]


@pytest.mark.parametrize(
    "hidden",
    [
        "// struct a { x }",
        "// continued \\\nstruct a { x }",
        "/* struct a { x }\n */",
        'auto s = "struct a { x }";',
        'auto s = "\\" struct a { x }";',
        'auto s = R"(struct a { " x })";',
        'auto s = R"--(struct a { )" x })--";',
        "auto c = '{';",
        "auto c = '\\'';",
    ],
)
def test_what_a_comment_or_a_literal_says_is_no_declaration(hidden: str) -> None:
    assert inside(f"{hidden}\nstruct a {{ real; }};", "struct a") == ["real;"]


def test_digit_separators_are_no_character_literals() -> None:
    assert inside("int big = 1'000'000; struct a { real; };", "struct a") == ["real;"]


def test_a_forward_declaration_has_no_body() -> None:
    assert inside("struct a; struct a * p; struct a { real; };", "struct a") == ["real;"]


def test_a_base_class_may_stand_before_the_body() -> None:
    assert inside("struct a : public b<c> { real; };", "struct a") == ["real;"]


def test_a_longer_name_is_another_one() -> None:
    assert inside("struct ab { x; }; struct a_b { x; };", "struct a") == []


@pytest.mark.parametrize(
    "text",
    [
        "void a::f() { real; }",
        "void a::f(int x, std::function<void(int)> y) const noexcept { real; }",
        "auto a::f() -> std::vector<int> { real; }",
        "a::f(int x) : b(x), c(g(x)) { real; }",
    ],
)
def test_a_definition_is_found_whatever_stands_before_its_body(text: str) -> None:
    assert inside(text, "function a::f") == ["real;"]


@pytest.mark.parametrize(
    "text",
    [
        "void a::f();",
        "if (a::f()) { x; }",
        "while (g(a::f(1))) { x; }",
        "int y = a::f() + 1; struct b { x; };",
        "void a::f_other() { x; }",
        "void b::a::f() { x; }",
        "obj.f() ;",
    ],
)
def test_a_declaration_a_call_and_another_function_are_no_definition(text: str) -> None:
    assert inside(text, "function a::f") == []


def test_a_constructor_is_told_from_the_destructor() -> None:
    text = "struct a { a(int x) : b(x) { made; } ~a() { gone; } };"
    assert inside(text, "struct a", "function a") == ["made;"]


def test_two_definitions_are_two() -> None:
    assert inside("void f() { one; } void f(int) { two; }", "function f") == ["one;", "two;"]


@pytest.mark.parametrize(
    "text",
    [
        "auto l = [&]() -> bool { real; };",
        "auto l = [this, x] { real; };",
        "l = [=](int y) mutable { real; };",
    ],
)
def test_a_lambda_is_found_by_its_variable(text: str) -> None:
    assert inside(text, "lambda l") == ["real;"]


def test_a_step_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not a step"):
        bodies("", "module a", Span(0, 0))


def test_an_unclosed_brace_closes_nowhere() -> None:
    assert closing("{ { }", 0) is None
    assert inside("struct a { never closed", "struct a") == []


@given(st.text(alphabet="ab/*\"'\\\n{}()R ", max_size=60))
def test_masking_keeps_length_and_lines(text: str) -> None:
    plain = masked(text)
    assert len(plain) == len(text)
    assert [at for at, letter in enumerate(plain) if letter == "\n"] == [
        at for at, letter in enumerate(text) if letter == "\n"
    ]
