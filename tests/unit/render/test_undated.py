"""A fault whose time is unknown is never given a duration."""

from __future__ import annotations

from analyzers.contracts.report import Report, TimelineItem, Tool, Verdict
from analyzers.render.moments import tell
from analyzers.render.svg import describe


def report(dated: bool) -> Report:
    items = [("listening", 0.0, True), ("enter-sleep", 1.0, True), ("fault", 1.5, dated)]
    return Report(
        tool=Tool(version="1", catalogue="1"),
        verdict=Verdict(class_="SEGV"),
        timeline=[TimelineItem(at=at, clock="elapsed", event=e, text=e, dated=d) for e, at, d in items],
    )


def test_a_dated_fault_ends_the_sleep_with_its_length() -> None:
    story = tell(report(True))
    assert [span.text for span in story.spans] == ["asleep 500 ms until the end"]
    assert "1.500 s" in describe(story)


def test_an_undated_fault_gives_no_length_and_no_time() -> None:
    story = tell(report(False))
    assert [span.text for span in story.spans] == ["asleep until the end"]
    assert "unknown time" in describe(story)
