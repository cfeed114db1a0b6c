"""Several reports in one page: every report whole, under ids of its own, and nothing foreign comes alive."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from analyzers.contracts.report import Report
from analyzers.render.html import render_html, render_html_many
from analyzers.render.html_many import lowered, prefixed
from analyzers.render.html_report import body, sections

VOID = frozenset({"meta", "br"})
HEADS = ("provoked", "found", "diagnosis")
ROWS = (("D1", "D1 SEGV", "right"), ("D2", "D2 SEGV", "WRONG"), ("D3", "nothing", "right"))
LOOK_ALIKE = ' id="verdict" href="#x" fill="url(#y)" aria-labelledby="h-do" <h1>big</h1> data-head="z"'
SCRIPT = "</td></table></article><script>alert(1)</script><img src=x onerror=alert(2)>"
BIDI = "\x1b[31m\u202eevil\u2028next\ud800\x00"


class Page(HTMLParser):
    """What a browser would see: tags in order, attributes, and mistakes in nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.values: list[tuple[str, str]] = []
        self.mistakes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(tag)

    def all(self, attribute: str) -> list[str]:
        return [value for name, value in self.values if name == attribute]


@pytest.fixture
def three(sample: Callable[[str], Report]) -> list[Report]:
    return [sample("d1"), sample("d2_recursion"), sample("d3")]


def test_every_id_is_unique_and_every_reference_finds_its_id(three: list[Report]) -> None:
    # GIVEN three reports whose own pages share all their ids WHEN they stand in one page
    page = Page(render_html_many(three, "three", ROWS, HEADS))
    ids = page.all("id")
    # THEN no id occurs twice, and links, labels and fills all lead somewhere in the page
    assert len(ids) == len(set(ids))
    wanted = [value.removeprefix("#") for value in page.all("href")]
    wanted += [name for value in page.all("aria-labelledby") for name in value.split()]
    wanted += [value[5:-1] for value in page.all("fill") if value.startswith("url(#")]
    assert len(wanted) > 60
    assert set(wanted) <= set(ids)


def test_a_fill_belongs_to_the_picture_of_its_own_report(three: list[Report]) -> None:
    page = render_html_many(three, "three")
    for number in (1, 2, 3):
        part = page[page.index(f'<article id="r{number}"') :].partition("</article>")[0]
        assert set(re.findall(r'"url\(#(r\d)-', part)) == {f"r{number}"}


def test_each_part_is_the_reports_own_body_and_data(three: list[Report]) -> None:
    # GIVEN and WHEN
    page = render_html_many(three, "three")
    # THEN every report stands there whole: its sections under new ids, and its JSON unchanged
    for number, report in enumerate(three, 1):
        assert lowered(prefixed(sections(report), f"r{number}-")) in page
    blocks = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.S)
    assert [Report.model_validate(json.loads(html.unescape(block))) for block in blocks] == three


def test_renamed_ids_are_the_only_change_to_a_body(any_sample: Report) -> None:
    before = sections(any_sample)
    after = lowered(prefixed(before, "r1-"))
    assert after != before
    assert re.sub(r"(</?h)([2-6])\b", lambda m: f"{m[1]}{int(m[2]) - 1}", after).replace("r1-", "") == before


def test_one_report_without_rows_is_its_own_page(any_sample: Report) -> None:
    # GIVEN one report WHEN rendered as many THEN only the page's title may differ
    alone = render_html_many([any_sample], "a title")
    assert body(any_sample) in alone
    assert re.sub(r"<title>.*?</title>", "", alone) == re.sub(
        r"<title>.*?</title>", "", render_html(any_sample)
    )


def test_overview_leads_from_each_row_to_its_report(three: list[Report]) -> None:
    page = render_html_many(three, "three", ROWS, HEADS)
    links = re.findall(r'<th scope="row"><a href="#(r\d)">(.*?)</a>', page)
    assert links == [("r1", "D1"), ("r2", "D2"), ("r3", "D3")]
    for number, report in enumerate(three, 1):
        part = page[page.index(f'<article id="r{number}"') :].partition("</article>")[0]
        assert html.escape(report.verdict.summary) in part


def test_a_row_without_a_report_is_no_link_and_shifts_no_other(three: list[Report]) -> None:
    page = render_html_many([three[0], None, three[2]], "three", ROWS, HEADS)
    assert re.findall(r'<a href="#(r\d)">(.*?)</a>', page) == [("r1", "D1"), ("r3", "D3")]
    assert '<th scope="row">D2</th>' in page
    assert re.findall(r'<article id="(r\d)"', page) == ["r1", "r3"]


@pytest.mark.parametrize("rows", [(), ROWS[:1], (*ROWS, ("D4", "none", "WRONG"))])
def test_rows_need_not_match_the_reports(three: list[Report], rows: Sequence[Sequence[str]]) -> None:
    page = Page(render_html_many(three, "three", rows, HEADS if rows else ()))
    assert (page.mistakes, page.open) == ([], [])
    assert {"#r1", "#r2", "#r3"} <= set(page.all("href"))


def test_without_rows_the_verdicts_fill_the_overview(three: list[Report]) -> None:
    overview = render_html_many(three, "three").partition("</section>")[0]
    for report in three:
        assert report.verdict.class_ in overview
        assert f'<td data-head="Phase">{report.verdict.phase}</td>' in overview


def test_no_reports_at_all_is_still_a_page() -> None:
    page = Page(render_html_many([], "nothing"))
    assert (page.mistakes, page.open) == ([], [])


def test_landmarks_and_headings_of_the_whole_page(three: list[Report]) -> None:
    page = Page(render_html_many(three, "three", ROWS, HEADS))
    for once in ("main", "header", "footer", "h1", "style"):
        assert page.tags.count(once) == 1, once
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_policy_admits_only_the_one_style_sheet(three: list[Report]) -> None:
    page = render_html_many(three, "three", ROWS, HEADS)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert style is not None
    assert policy is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy[1].startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert page.count("<style") == page.count("Content-Security-Policy") == 1
    assert not re.search(r' style="| on\w+="|<script|(?:src|href|action)="(?!#)', page)


@pytest.mark.parametrize("text", [LOOK_ALIKE, SCRIPT, BIDI, "\"' x=y onload=z <!--", "&amp;&#0;]]>"])
def test_hostile_texts_stay_texts(text: str, hostile: Callable[[str], Report]) -> None:
    # GIVEN a hostile text behind every string of the reports, in the title, the heads and every cell
    quiet = Page(render_html_many([hostile(""), hostile("")], "t", [["a", "right"], ["b", "c"]], ["h", "k"]))
    made = render_html_many(
        [hostile(text), hostile(text)], text, [[text, text], [text, text]], ["h" + text, "k" + text]
    )
    # WHEN a parser reads the page THEN it finds what it finds without the text, and nothing hidden
    loud = Page(made)
    assert (loud.mistakes, loud.open) == ([], [])
    assert set(loud.tags) <= set(quiet.tags)
    assert {name for name, _ in loud.values} <= {name for name, _ in quiet.values}
    assert loud.all("id") == quiet.all("id")
    assert loud.all("href") == quiet.all("href")
    hidden = {c for c in made if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert hidden == {"\n"}


def test_text_that_looks_like_our_markup_is_shown_unchanged(sample: Callable[[str], Report]) -> None:
    # GIVEN a summary that spells the very attributes that are renamed
    report = sample("d1")
    told = report.model_copy(update={"verdict": report.verdict.model_copy(update={"summary": LOOK_ALIKE})})
    # WHEN it is one of several THEN a reader sees it as it was written
    page = render_html_many([told, report], "two")
    shown = re.search(r'<p class="summary">(.*?)</p>', page)
    assert shown is not None
    assert html.unescape(shown[1]) == LOOK_ALIKE
