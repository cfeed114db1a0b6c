"""The installed command as a person types it: terminal, JSON, Markdown, HTML and exit statuses."""

from __future__ import annotations

import hashlib
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from e2e_ask import UNDETERMINED, VERDICT, ask, command
from e2e_stage import Plays

from analyzers.cli.main import main
from analyzers.contracts.report import Report

pytestmark = pytest.mark.real
LOADS = ("src", "srcset", "data", "poster", "background", "action", "xlink:href")
REMOTE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)


class Loads(HTMLParser):
    """Collects what a page would fetch by itself; links that a person may follow are no loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script" and "src" in given
        names = LOADS if tag == "a" else (*LOADS, "href")
        self.found += [given[name] for name in names if REMOTE.match(given.get(name, ""))]


def loads(page: str) -> list[str]:
    """Addresses that the page would load, those of its styles included."""
    parser = Loads()
    parser.feed(page)
    styles = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", page, re.IGNORECASE)
    return [*parser.found, *styles, *(["<script src>"] if parser.scripts else [])]


def test_the_terminal_shows_the_verdict_and_then_what_only_gdb_knows(plays: Plays) -> None:
    # GIVEN the core and the log of D2
    play = plays("d2-completion")
    before = hashlib.sha256(play.core.read_bytes()).hexdigest()
    # WHEN
    done = command("triage", play.core, play.log)
    # THEN the verdict comes first, whole
    assert (done.returncode, done.stderr.count("Traceback")) == (VERDICT, 0)
    for word in ("SEGV-UAF-SLEEP", "D2", "sleep", "handle_completions_impl", "proven"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout
    # AND what takes longer follows it, from the same core, which is as it was
    assert done.stdout.index("SEGV-UAF-SLEEP") < done.stdout.index(before[:12])
    assert hashlib.sha256(play.core.read_bytes()).hexdigest() == before


def test_json_is_the_report_with_the_hashes_and_gdbs_view(plays: Plays) -> None:
    play = plays("d1")
    done = command("triage", play.core, play.bundle, "--json")
    assert done.returncode == VERDICT
    report = Report.from_json(done.stdout)
    hashes = {item.kind: item.sha256 for item in report.inputs}
    assert hashes["core"] == hashlib.sha256(play.core.read_bytes()).hexdigest()
    # the verdict is the same one that the quick way gives
    assert report.verdict.model_dump() == ask(play.core, play.bundle).report.verdict.model_dump()
    if shutil.which("gdb"):
        seen = [thread for thread in report.threads if thread.rung == "gdb"]
        assert any("tokenize" in (frame.function or "") for thread in seen for frame in thread.frames)


def test_markdown_can_be_pasted_into_a_bug_tracker(plays: Plays) -> None:
    play = plays("overflow")
    done = command("triage", play.bundle, play.core, "--markdown", "--fast")
    assert done.returncode == VERDICT
    assert "SEGV-STACK" in done.stdout
    assert "handle_completions_impl" in done.stdout
    assert re.search(r"^#+ ", done.stdout, re.MULTILINE)


def test_the_html_page_loads_nothing_and_tells_the_stranded_request(plays: Plays, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = command("triage", *plays("d3").inputs, "--html", page, "--fast")
    assert done.returncode == VERDICT
    text = page.read_text()
    assert loads(text) == []
    for word in ("HANG-STRANDED", "D3", "proven", "<svg"):
        assert word in text


def test_an_undetermined_verdict_has_its_own_status(plays: Plays) -> None:
    done = command("triage", plays("d1").log, "--json", "--fast")
    assert done.returncode == UNDETERMINED
    assert Report.from_json(done.stdout).verdict.class_ == "UNDETERMINED"


def test_explain_knows_every_id_that_a_real_verdict_named(
    plays: Plays, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = [ask(*plays(name).inputs).report.verdict for name in ("d1", "d3", "bus", "stop")]
    ids = {word for verdict in verdicts for word in (verdict.class_, verdict.defect, verdict.phase) if word}
    for word in sorted(ids):
        assert main(["explain", word]) == VERDICT
        assert word in capsys.readouterr().out
