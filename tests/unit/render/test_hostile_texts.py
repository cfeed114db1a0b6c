"""Texts that try to be more than text, behind every string of a report."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.report import Report, Tool, Verdict
from analyzers.render import render_html, render_markdown
from analyzers.render.markdown import code, fenced, prose
from analyzers.render.safe import clean, impersonal

Rendering = Callable[[Report], str]
SCRIPT = "</pre></code></details><script>alert(1)</script><img src=x onerror=alert(2)>"
ESCAPES = "\x1b[31mred\x1b]8;;http://e/\x07link\x9b2J\x08\x00\x7f"
BIDI = "\u202eevil\u2066\u200b\u2028next\ud800"
FENCES = "\n```\n~~~\n# heading\n````js\n</details>\n| a | b |\n"
RICH = "[bold red]loud[/bold red][link=http://e]x[/link]:skull:"


@pytest.mark.parametrize("text", [ESCAPES, BIDI], ids=["escapes", "bidi"])
def test_no_control_or_hidden_character_reaches_a_reader(
    text: str, rendering: Rendering, hostile: Callable[[str], Report]
) -> None:
    # GIVEN terminal escapes, bidi marks, lone surrogates behind every string WHEN rendered
    made = rendering(hostile(text))
    # THEN nothing but line ends is invisible, and the text can be written as UTF-8
    hidden = {c for c in made if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert hidden == set()
    made.encode("utf-8")


def test_rich_markup_is_shown_as_it_stands(
    hostile: Callable[[str], Report], terminal: Callable[..., str]
) -> None:
    made = terminal(hostile(RICH), width=200, force_terminal=True, color_system="truecolor")
    stripped = re.sub(r"\x1b\[[\d;]*m", "", made)
    assert "[bold red]loud[/bold red]" in stripped
    assert ":skull:" in stripped
    assert "\x1b]8" not in made


class Tags(HTMLParser):
    """Tags and attributes a browser would see, and whether they nest."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[tuple[str, str]] = []
        self.mistakes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(tag)


@pytest.mark.parametrize("text", ["", SCRIPT, ESCAPES, BIDI, FENCES, "\"' x=y onload=z <!--", "]]>&amp;&#0;"])
def test_page_stays_balanced_and_runs_nothing(text: str, hostile: Callable[[str], Report]) -> None:
    # GIVEN a hostile text WHEN a parser reads the page
    tags = Tags()
    tags.feed(render_html(hostile(text)))
    tags.close()
    # THEN tags balance, and there is neither script, handler, frame nor anything to fetch
    assert (tags.mistakes, tags.open) == ([], [])
    assert not tags.seen & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "a:x"}
    assert not {
        name for name in tags.attributes if name.startswith("on") or name in {"src", "srcset", "style"}
    }
    links = {value for name, value in tags.values if name == "href"}
    assert "#verdict" in links
    assert all(re.fullmatch(r"#(?:verdict|group-\d+)", link) for link in links)


def test_hostile_text_adds_no_tag_or_attribute(hostile: Callable[[str], Report]) -> None:
    quiet, loud = Tags(), Tags()
    quiet.feed(render_html(hostile("")))
    loud.feed(render_html(hostile(SCRIPT + "\"' a=b")))
    assert loud.seen <= quiet.seen
    assert loud.attributes <= quiet.attributes


def markdown_outside_fences(text: str) -> list[str]:
    """The lines a Markdown reader takes for prose, by its own rule for fences."""
    outside: list[str] = []
    fence = ""
    for line in text.splitlines():
        run = re.match(r"`{3,}", line)
        if fence:
            fence = "" if run and line.strip("`") == "" and len(run[0]) >= len(fence) else fence
        elif run:
            fence = run[0]
        else:
            outside.append(line)
    assert fence == "", "a fence was left open"
    return outside


@pytest.mark.parametrize("text", [FENCES, SCRIPT, "```", "`" * 9, "@everyone #1 ![x](http://e/p.png) <b>"])
def test_markdown_quotes_stay_in_their_fences(text: str, hostile: Callable[[str], Report]) -> None:
    # GIVEN texts that try to leave a fence or to make tags, pictures, mentions WHEN rendered
    outside = markdown_outside_fences(render_markdown(hostile(text)))
    # THEN the prose holds our own tags only, and nothing of theirs is live
    spans = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
    live = [spans.sub("", line) for line in outside]
    tags = {tag for line in live for tag in re.findall(r"<[^>]*>?", line)}
    assert tags <= {"<details>", "<details open>", "</details>", "<summary>", "</summary>", "<!-- -->"}
    assert not [line for line in live if re.search(r"@(?!<!-- -->)|(?<!&)#\d|!\[|(?<!\\)\]\(|\w://", line)]
    headings = [line for line in outside if line.startswith("#")]
    assert "# heading" not in headings


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_clean_is_one_visible_line(text: str) -> None:
    made = clean(text)
    assert not {c for c in made if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert clean(made) == made


@given(st.text(alphabet="`~a \n<&", max_size=60))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_text_ends_its_own_fence_or_span(text: str) -> None:
    lines = [clean(line) for line in text.split("\n")]
    assert markdown_outside_fences(fenced(lines)) == []
    span = code(text)
    ticks = re.match(r"`+", span)
    assert ticks is not None
    assert not re.search(rf"(?<!`){ticks[0]}(?!`)", span[len(ticks[0]) : -len(ticks[0])])


@given(st.text(alphabet="<>&\"'@#`*_[]|~$\\ax", max_size=60))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_prose_has_no_live_character(text: str) -> None:
    made = prose(text)
    assert not re.search(r"@(?!<!-- -->)", made)
    made = made.replace("<!-- -->", "")
    assert not re.search(r"[<>]|(?<!&)#", made)
    assert not re.search(r"(?<!\\)(?:\\\\)*(?<!\\)[`*_\[\]|~$]", made)


@pytest.mark.parametrize(
    ("private", "public"),
    [
        ("loading /home/jane doe/models/x.gguf", "jane"),
        (r"C:\Users\jane\x.gguf", "jane"),
        ("/srv/customers/acme/x.gguf", "acme"),
        ("client 10.1.2.3:443 asked", "10.1.2.3"),
        ("peer 192.168.7.9", "192.168.7.9"),
        ("http://build.corp.example/x", "build.corp.example"),
        ("mail jane@corp.example", "jane@corp"),
    ],
)
def test_public_text_names_no_person_place_or_host(private: str, public: str) -> None:
    assert public in private
    assert public not in impersonal(private)


@pytest.mark.parametrize(
    "text",
    [
        "POST /v1/chat/completions/input_tokens closed",
        "GET /slots/0/x answered",
        "server_routes::handle_count_tokens(llama_vocab const*, mtmd_context*)",
        "xllamacpp.abi3.so[c22c81,7f93b708f000+e03000]",
        "listening on http://127.0.0.1:8080",
        "10.57.649.356 I que start_loop: entering sleeping state",
    ],
)
def test_public_text_keeps_what_a_maintainer_needs(text: str) -> None:
    assert impersonal(text) == text


def test_markdown_leaves_out_arguments_paths_and_boot(sample: Callable[[str], Report]) -> None:
    made = render_markdown(sample("d1"))
    for secret in ("--api-key", "/srv/models", "/usr/bin", "5e0f4a52", "core.3142", "kernel.log:359"):
        assert secret not in made


def test_markdown_says_when_private_content_was_asked_for(sample: Callable[[str], Report]) -> None:
    report = sample("d3").model_copy(update={"redaction": "off"})
    assert "read it before you paste it" in render_markdown(report)


def test_overlong_text_is_cut_and_says_so() -> None:
    report = Report(
        tool=Tool(version="0", catalogue="0"),
        verdict=Verdict.model_validate({"class": "SEGV", "summary": "a" * 10_000_000}),
    )
    made = render_markdown(report)
    assert len(made) < 10_000
    assert "9998000 more characters" in made
