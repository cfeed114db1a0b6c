"""The timeline as a picture and as a story."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.report import Report, TimelineItem, Tool, Verdict
from analyzers.render.axis import Scale, Shelves, place_all, ticks
from analyzers.render.moments import duration, tell
from analyzers.render.svg import lens_window, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"


def report_of(*rows: tuple[float, str], clock: str = "elapsed") -> Report:
    items = [TimelineItem(at=at, clock=clock, event=event, text=f"{event} text") for at, event in rows]
    verdict = Verdict.model_validate({"class": "SEGV"})
    return Report(tool=Tool(version="0", catalogue="0"), verdict=verdict, timeline=items)


def drawn(report: Report, width: int = 860) -> ET.Element:
    return ET.fromstring(timeline_svg(report, width))  # noqa: S314


@pytest.mark.parametrize("width", [860, 360])
def test_picture_is_well_formed_and_described(width: int, any_sample: Report) -> None:
    root = drawn(any_sample, width)
    assert root.findtext(f"{SVG}title")
    assert "moments" in (root.findtext(f"{SVG}desc") or "")
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))


def test_hostile_texts_leave_the_picture_well_formed(hostile: Callable[[str], Report]) -> None:
    root = drawn(hostile("</text></svg><script>x</script>\x1b\x00\ud800&\"'"))
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg", "title", "desc", "style", "defs", "pattern", "rect", "path", "circle", "g", "text"
    }  # fmt: skip


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """Bounding boxes of all texts, by a width that is not the picture's own estimate."""
    found = []
    for node in root.iter(f"{SVG}text"):
        text, x, y = node.text or "", float(node.get("x", 0)), float(node.get("y", 0))
        width = len(text) * 6.0
        left = {"middle": x - width / 2, "end": x - width}.get(node.get("text-anchor", "start"), x)
        found.append((left, y - 9, left + width, y + 2))
    return found


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e5, allow_nan=False),
            st.sampled_from(
                ["enter-sleep", "exit-sleep", "loading", "loaded", "request", "probe", "fault", "odd"]
            ),
        ),
        min_size=1,
        max_size=25,
    ),
    st.sampled_from([860, 360]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_labels_never_overlap_and_stay_inside(rows: list[tuple[float, str]], width: int) -> None:
    # GIVEN any moments at all WHEN drawn
    root = drawn(report_of(*rows), width)
    height = float(root.get("height", 0))
    found = boxes(root)
    # THEN no text touches another, or leaves the picture
    for number, one in enumerate(found):
        assert one[0] >= -1
        assert one[2] <= width + 1
        assert one[1] >= 0
        assert one[3] <= height
        for other in found[number + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


@given(st.lists(st.tuples(st.floats(0, 800), st.floats(10, 300)), max_size=20))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_leader_crosses_a_label(points: list[tuple[float, float]]) -> None:
    shelves = Shelves(0, 800, levels=6)
    labels = place_all(points, shelves)
    for label in labels:
        for level in range(label.level):
            assert not any(low < label.x < high for low, high in shelves.texts[level])


@pytest.mark.parametrize("length", [1e-5, 0.0137, 1.4, 47.0, 600.0, 7200.0, 86400.0, 4e6, 1e9])
def test_ticks_are_round_rising_and_few(length: float) -> None:
    scale = Scale(1.3, 1.3 + length, 0, 800)
    step, found = ticks(scale, 8)
    assert found == sorted(found)
    assert 1 <= len(found) <= 20
    assert all(math.isclose(at / step, round(at / step), rel_tol=1e-9) for at in found)


def test_fault_squeezed_against_the_wake_gets_a_lens(sample: Callable[[str], Report]) -> None:
    # GIVEN a wake 10 ms before the fault in a life of 1.4 s WHEN the lens is chosen
    window = lens_window(tell(sample("d1")))
    # THEN it holds wake and fault, not the sleep's beginning
    assert window is not None
    assert 1.059063 < window[0] < 1.368530
    assert window[1] > 1.378902
    assert "enlarged" in timeline_svg(sample("d1"))
    assert "enlarged" not in timeline_svg(sample("no_fault"))


def test_sleep_until_the_death_is_a_span(sample: Callable[[str], Report]) -> None:
    spans = [span for span in tell(sample("d2_recursion")).spans if span.kind == "asleep"]
    assert [(span.start, span.end, span.cut) for span in spans] == [(2.226588, 2.2402, True)]


def test_a_stranded_server_stays_asleep_past_the_hang() -> None:
    story = tell(report_of((1, "enter-sleep"), (4, "stranded"), (9, "exit-sleep")))
    assert [(span.start, span.end) for span in story.spans] == [(1, 9)]
    assert story.death is None


def test_an_exit_is_the_fault_only_when_nothing_else_is() -> None:
    alone = tell(report_of((1, "enter-sleep"), (2, "exit")))
    after = tell(report_of((1, "fault"), (2, "exit")))
    assert [moment.kind for moment in alone.moments] == ["sleep", "fault"]
    assert [moment.kind for moment in after.moments] == ["fault", "stop"]


def test_a_clean_exit_ends_the_last_sleep_without_a_fault() -> None:
    report = report_of((1, "enter-sleep"), (2, "exit"))
    story = tell(report.model_copy(update={"verdict": Verdict.model_validate({"class": "NO-FAULT"})}))
    assert story.fault is None
    assert [(span.end, span.cut) for span in story.spans] == [(2, True)]


def test_a_load_ends_a_sleep_whose_last_line_is_lost() -> None:
    story = tell(report_of((1, "enter-sleep"), (5, "loading"), (6, "loaded")))
    assert [(span.kind, span.start, span.end) for span in story.spans] == [
        ("asleep", 1, 5),
        ("loading", 5, 6),
    ]


def test_nothing_is_called_awake_without_evidence(sample: Callable[[str], Report]) -> None:
    # GIVEN one kernel line and no log THEN the picture claims no state
    picture = timeline_svg(sample("undetermined"))
    assert "awake" not in re.sub(r"<style>.*?</style>", "", picture, flags=re.S)
    assert '"tl-unknown"' in picture


def test_items_on_another_clock_are_kept_apart() -> None:
    report = report_of((1, "loaded"), (2, "fault"))
    late = TimelineItem(at=1.7e9, clock="wall", event="exit", text="unit failed")
    story = tell(report.model_copy(update={"timeline": [*report.timeline, late]}))
    assert story.clock == "elapsed"
    assert story.others == (late,)


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_impossible_times_do_not_break_the_picture(at: float) -> None:
    assert timeline_svg(report_of((1, "loaded"), (at, "fault"), (2, "request")))


@pytest.mark.parametrize("at", [1e300, -1e300, 253402300800.0])
def test_times_beyond_the_calendar_are_drawn(at: float) -> None:
    assert drawn(report_of((0.0, "loaded"), (at, "fault"), clock="wall")) is not None


def test_empty_timeline_gives_no_picture() -> None:
    assert timeline_svg(report_of()) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0000132, "13 µs"), (0.0136, "13.6 ms"), (0.309, "309 ms"), (6.0, "6.0 s"), (75, "1 min 15 s"),
     (5395, "1 h 29 min"), (190000, "2 d 4 h"), (0.9999, "1.0 s"), (59.7, "1 min 0 s")],
)  # fmt: skip
def test_durations_read_naturally(seconds: float, text: str) -> None:
    assert duration(seconds) == text
