"""Several incidents: one table first, bounded, as wide as the window; the rest when asked for."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from analyzers.contracts.report import Incident, Report
from analyzers.render import deaths, render_html, render_markdown
from analyzers.render.columns import UNKNOWN, Column, Grid, fitted, shared, shortened

Sample = Callable[[str], Report]
Terminal = Callable[..., str]
WIDTHS = [40, 60, 72, 80, 120, 200]
COPIED = re.compile(r"^\s+\$ ")  # commands are never wrapped
HOSTILE = [
    "\x1b[31mred\x1b]8;;http://e/\x07x\x9b2J",
    "\u202eevil\u2066\u2028next",
    "a | b\n| c |",
    "[bold]x[/]",
]


def head_of(text: str) -> str:
    """What stands above the verdict."""
    return re.split(r"[✗x] FAULT FOUND", text)[0]


def test_the_table_says_everything_once(sample: Sample, terminal: Terminal) -> None:
    # GIVEN eight cores of one defect WHEN rendered as a person meets it first
    report = sample("eight_cores")
    head = head_of(terminal(report, details=None, width=120))
    # THEN overview, group, and a line for each death with all that was asked of it
    assert head.startswith(report.overview)
    assert "8 × SEGV-UAF-SLEEP, D1, proven, under handle_count_tokens: D1 under POST" in " ".join(
        head.split()
    )
    assert "top frames tokenize 6, tokenizer_st_partition 2" in head
    assert "PIDs 3159, 3176, 3193, 3210, 3227, 3244 and 2 more" in head
    assert "2026-12-01 04:00:05 to 06:18:35 UTC (2 h 18 min)" in head
    for death in report.incidents[0].deaths:
        row = rf"\b{death.number} +{death.pid} +\d\d:\d\d:\d\d +proven +{deaths.frame(death)} +"
        assert len(re.findall(rf"{row}core\.{death.pid}, kernel\.log +core, kernel", head)) == 1


def test_the_verdict_and_its_advice_follow_and_the_rest_waits(sample: Sample, terminal: Terminal) -> None:
    report = sample("eight_cores")
    text = terminal(report, details=None)
    order = ["one group", "Incident 1 of 8: PID 3159", "FAULT FOUND", "What it means", "What to do", "More"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    for part in ("Crashed thread", "Timeline", "Evidence", "Signature", "Why this verdict", "Inputs"):
        assert f"\n{part}" not in text
    assert "--incident 2" in text
    assert "--details" in text


def test_details_come_when_asked_for(sample: Sample, terminal: Terminal) -> None:
    report = sample("eight_cores")
    text = terminal(report, details=True)
    for part in ("one group", "Crashed thread", "Timeline", "Evidence", "Signature", "Inputs"):
        assert part in text
    alone = terminal(report, table=False)
    assert "Incident 1 of 8" in head_of(alone)
    assert "seen in" not in alone
    assert "Crashed thread" in alone


def test_one_incident_has_no_table(sample: Sample, terminal: Terminal) -> None:
    text = terminal(sample("d1"), details=None)
    assert "Crashed thread" in text
    assert "--incident" not in text


def test_a_hundred_deaths_stay_readable(sample: Sample, terminal: Terminal) -> None:
    # GIVEN a hundred deaths of one bug and two others WHEN rendered
    report = sample("many_deaths")
    head = head_of(terminal(report, details=None))
    # THEN the first ones are there, the one the verdict is about as well, and the others are counted
    assert re.findall(r"^ [▶ ] +(\d+) +200", head, flags=re.MULTILINE) == [*"12345678", "57"]
    assert "and 91 more in the JSON" in head
    assert re.search(r"▶ +57 ", head)
    assert len(head.splitlines()) < 32  # inputs that no incident has are told in two of them


@pytest.mark.parametrize("kinds", [1, 13, 400])
def test_many_groups_are_bounded_and_counted(kinds: int, sample: Sample, terminal: Terminal) -> None:
    # GIVEN as many groups of fifty deaths each, the verdict about one in the last group
    report = sample("many_deaths")
    crowd = report.incidents[0].deaths[:50]
    groups = [
        Incident.model_validate(
            {
                **report.incidents[0].model_dump(by_alias=True),
                "count": 50,
                "title": f"kind {kind}",
                "deaths": [
                    each.model_copy(update={"number": kind * 50 + n}) for n, each in enumerate(crowd, 1)
                ],
            }
        )
        for kind in range(kinds)
    ]
    report = report.model_copy(update={"incidents": groups, "incident": kinds * 50})
    head = head_of(terminal(report, details=None))
    # THEN the table fits on a few screens, says how much it leaves out, and holds the chosen one
    assert len(head.splitlines()) < 140
    assert (f"and {kinds - deaths.MAX_GROUPS:,} more groups in the JSON" in head) == (
        kinds > deaths.MAX_GROUPS
    )
    assert re.search(rf"▶ +{kinds * 50} ", head)
    assert len(render_markdown(report)) < 65_536
    assert len(re.findall(r"<tr>", render_html(report))) < deaths.MAX_GROUPS * 400


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["eight_cores", "many_deaths", "eight_incidents"])
def test_no_line_is_wider_than_the_window(width: int, name: str, sample: Sample, terminal: Terminal) -> None:
    for details in (None, True):
        lines = terminal(sample(name), details=details, width=width).splitlines()
        unbreakable = re.compile(r"^\s+(?:\$ |bug |site |sha256 )")
        assert [line for line in lines if cell_len(line) > width and not unbreakable.match(line)] == []


@pytest.mark.parametrize("text", [*HOSTILE, "漢字" * 60, "x" * 3000, ""])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_stay_one_row_each(text: str, width: int, sample: Sample, terminal: Terminal) -> None:
    # GIVEN functions, inputs, witnesses, titles that try to be more than text
    report = sample("eight_cores")
    group = report.incidents[0]
    names = {"top_frame": text, "inputs": [text, text], "witnesses": [text], "confidence": f"proven{text}"}
    told = [death.model_copy(update=names) for death in group.deaths]
    foul = group.model_copy(update={"title": text, "deaths": told, "explain": [text], "keys": [text]})
    report = report.model_copy(update={"incidents": [foul], "overview": f"8 of 8{text}"})
    # WHEN rendered THEN nothing hidden is left, no line is too wide, and every death is there
    shown = terminal(report, details=None, width=width)
    hidden = {c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert hidden == set()
    assert [line for line in shown.splitlines() if cell_len(line) > width and not COPIED.match(line)] == []
    assert len(re.findall(r"^ *▶? *\d\.? .*?\b3\d\d\d\b", head_of(shown), flags=re.MULTILINE)) >= 8


def test_ascii_has_no_foreign_character(sample: Sample, as_ascii: Callable[[Report], str]) -> None:
    for name in ("eight_cores", "many_deaths"):
        text = as_ascii(sample(name))
        assert text.isascii()
        assert "\\u" not in text


def test_times_are_as_fine_as_they_must_be(sample: Sample) -> None:
    report = sample("eight_cores")
    group = report.incidents[0]

    def at(*times: float | None) -> Report:
        told = [each.model_copy(update={"at": time}) for each, time in zip(group.deaths, times, strict=False)]
        return report.model_copy(update={"incidents": [group.model_copy(update={"deaths": told})]})

    same_second, two_days, two_years = at(100.1, 100.2), at(100.0, 90_000.0), at(100.0, 4e7)
    assert deaths.time_pattern(same_second) == "%H:%M:%S.mmm"
    assert deaths.time_pattern(two_days) == "%m-%d %H:%M:%S"
    assert deaths.time_pattern(two_years).startswith("%Y")
    for odd in (float("nan"), float("inf"), 1e300, -1e300, None):
        assert deaths.period(at(odd, 5.0).incidents[0])
        assert render_html(at(odd, odd))


def test_markdown_is_a_table_without_names_of_inputs(sample: Sample) -> None:
    report = sample("many_deaths")
    text = render_markdown(report)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert "| # | group | PID | when (UTC) | sure | top frame | seen in |" in tables
    assert len([line for line in tables if re.match(r"\| \d+ \| 1 \| 20\d{3} \|", line)]) >= 50
    assert "core.2" not in text
    assert "router's log" not in text
    assert "49 more are in the JSON" in text
    assert text.index("102 incidents") < text.index("SEGV-UAF-SLEEP, defect D1, proven")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_of_markdown_breaks_out_of_its_row(text: str, sample: Sample) -> None:
    report = sample("eight_cores")
    group = report.incidents[0]
    told = [each.model_copy(update={"top_frame": text, "witnesses": [text]}) for each in group.deaths]
    report = report.model_copy(
        update={"incidents": [group.model_copy(update={"deaths": told, "title": text})]}
    )
    rows = [line for line in render_markdown(report).splitlines() if line.startswith("| ")]
    bars = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert set(bars[:3]) == {6}
    assert set(bars[3:]) == {8}


def test_the_page_leads_from_the_table_to_each_group(sample: Sample) -> None:
    page = render_html(sample("many_deaths"))
    section = page[page.index('id="incidents"') : page.index('id="verdict"')]
    links = re.findall(r'<a class="nowrap" href="#(group-\d)">', section)
    assert links == ["group-1", "group-2", "group-3"]
    assert all(f'id="{link}"' in section for link in links)
    # one line per death, folded where they are many; why they are one group in a fold of its own
    assert section.count("core.200") >= 99
    assert "<details><summary>100 deaths, one a line</summary>" in section
    assert "<details><summary>Why these are group 1</summary>" in section
    assert "Incident 57 of 102" in html.unescape(section)


def test_a_group_that_lists_no_deaths_still_names_its_processes(sample: Sample, terminal: Terminal) -> None:
    report = sample("eight_incidents")
    assert "8 kinds of incident, 15 in all" in terminal(report)
    assert "PIDs 4101, 4377, 5120" in terminal(report)
    assert "4101, 4377, 5120" in render_html(report)


def test_groups_say_how_their_deaths_differ(sample: Sample) -> None:
    group = sample("eight_cores").incidents[0]
    mixed = [each.model_copy(update={"confidence": "weak"}) for each in group.deaths[:3]]
    assert deaths.confidence(group) == "proven"
    group = group.model_copy(update={"deaths": [*mixed, *group.deaths[3:]]})
    assert deaths.confidence(group) == "proven 5, weak 3"


def test_room_is_dealt_to_those_who_need_it() -> None:
    assert shared(30, [5, 40, 40]) == [5, 12, 13]
    assert shared(100, [5, 40, 40]) == [5, 40, 40]
    assert shared(-4, [5, 5]) == [0, 0]
    assert shared(10, []) == []


@pytest.mark.parametrize(
    ("cell", "width", "shown"),
    [
        (("core.1", "kern"), 12, "core.1, kern"),
        (("core.1", "kern"), 11, "core.1 +1"),
        (("core.1", "kern", "log"), 15, "core.1, kern +1"),
        (("abcdefghijkl",), 7, "ab…ijkl"),
        (("abcdefghijkl", "b"), 10, "ab…ijkl +1"),
    ],
)
def test_cells_are_counted_and_abridged(cell: tuple[str, ...], width: int, shown: str) -> None:
    assert fitted(cell, width, "…") == shown


def test_wide_characters_are_cut_by_columns() -> None:
    assert cell_len(shortened("漢字" * 20, 11, "…")) <= 11
    assert shortened("abc", 3, "…") == "abc"


def test_a_column_of_question_marks_is_left_out() -> None:
    columns = (Column("#"), Column("when"), Column("frame", stretches=True))
    rows = [[("1",), (UNKNOWN,), ("tokenize",)], [("2",), (UNKNOWN,), (UNKNOWN,)]]
    grid = Grid.fitting(columns, rows, 60, "…")
    assert grid.head() == "#  frame"
    assert grid.line(rows[1]) == "2  ?"
