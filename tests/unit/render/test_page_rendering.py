"""The page: self-contained, accessible, complete."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256

from analyzers.contracts.report import Report
from analyzers.render import render_html


def test_policy_admits_only_the_pages_own_style(any_sample: Report) -> None:
    # GIVEN a page WHEN its style block is hashed as a browser does
    page = render_html(any_sample)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert style is not None
    assert policy is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    # THEN the policy names that hash, and nothing else may load or run
    assert "default-src 'none'" in policy[1]
    assert f"style-src 'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]
    assert page.count("<style") == 1
    assert "url(http" not in page
    assert "@import" not in page


def test_no_address_outside_the_page_is_loaded(any_sample: Report) -> None:
    page = render_html(any_sample)
    assert not re.search(r'(?:src|href|action|data|poster)="(?!#)', page)
    assert set(re.findall(r"url\(([^)]*)\)", page)) <= {
        f"#tl-{kind}-{width}" for kind in ("asleep", "loading") for width in (860, 360)
    }


def test_raw_report_in_the_page_is_the_report(any_sample: Report) -> None:
    page = render_html(any_sample)
    block = re.search(r"<pre><code>(.*?)</code></pre>", page, re.S)
    assert block is not None
    assert Report.model_validate(json.loads(html.unescape(block[1]))) == any_sample


def test_landmarks_headings_and_captions_for_screen_readers(any_sample: Report) -> None:
    page = render_html(any_sample)
    assert page.count("<main>") == page.count("<header>") == page.count("<footer>") == page.count("<h1 ") == 1
    assert '<html lang="en">' in page
    assert page.count("<table") == page.count("<caption>")
    named = set(re.findall(r'aria-labelledby="([^"]+)"', page))
    ids = re.findall(r' id="([^"]+)"', page)
    assert {part for name in named for part in name.split()} <= set(ids)
    assert len(ids) == len(set(ids))


def test_telling_frames_carry_a_word_and_plumbing_can_be_opened(sample: Callable[[str], Report]) -> None:
    page = render_html(sample("d1"))
    telling = re.findall(r'<li class="telling">(.*?)</li>', page)
    assert len(telling) == 3
    assert all("telling</span>" in row for row in telling)
    assert re.search(
        r"<details><summary>10 frames of plumbing.*?httplib::Server::dispatch_request", page, re.S
    )


def test_reproduce_command_quotes_names(sample: Callable[[str], Report]) -> None:
    report = sample("d3")
    odd = report.inputs[0].model_copy(update={"name": "a b; rm x"})
    page = html.unescape(render_html(report.model_copy(update={"inputs": [odd]})))
    assert "llama-blackbox triage 'a b; rm x'" in page


def test_dark_phone_and_print_are_provided_for(sample: Callable[[str], Report]) -> None:
    page = render_html(sample("d1"))
    for rule in ("prefers-color-scheme:dark", "max-width:640px", "@media print", 'name="viewport"'):
        assert rule in page
