"""What became of each input stands in every rendering: joined, to which incident, or not used and why."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from analyzers.contracts.report import Death, Gap, Incident, InputFile, Report, Tool, Verdict
from analyzers.render.uses import left_over, use_of

Rendering = Callable[[Report], str]
WHY = "they do not say to which of these incidents they belong, so they were not counted"


def listed(name: str, kind: str = "server-log") -> InputFile:
    return InputFile(name=name, kind=kind, size=10)


def death(number: int, *inputs: str) -> Death:
    return Death.model_validate({"number": number, "class": "SEGV", "inputs": list(inputs), "pid": number})


def several(*gaps: Gap, inputs: list[InputFile]) -> Report:
    made = Incident(
        key="k",
        title="A fault.",
        class_="SEGV",
        count=2,
        deaths=[death(1, "one.core", "kernel.txt"), death(2, "two.core", "kernel.txt")],
    )
    return Report(
        tool=Tool(version="0", catalogue="0"),
        verdict=Verdict.model_validate({"class": "SEGV"}),
        inputs=inputs,
        incidents=[made],
        incident=1,
        gaps=list(gaps),
    )


CORES = [listed("one.core", "core"), listed("two.core", "core"), listed("kernel.txt", "kernel-log")]


def test_an_input_of_two_incidents_names_both() -> None:
    report = several(inputs=CORES)
    assert use_of(CORES[2], report) == "read, of incidents 1, 2"
    assert use_of(CORES[0], report) == "read, of incident 1"
    assert left_over(report) == []


def test_a_log_that_was_read_and_not_joined_says_why(rendering: Rendering) -> None:
    # GIVEN two cores, and a log that could be of either WHEN it is rendered
    log = listed("loose.log")
    report = several(Gap(what="14 facts of loose.log", why=WHY), inputs=[*CORES, log])
    # THEN nobody takes the log for one that was never looked at, or for one that was joined
    text = " ".join(html.unescape(rendering(report)).split())
    assert use_of(log, report) == f"read, of no incident: {WHY}"
    assert f"read, of no incident: {WHY}" in text.replace("│", "").replace("\\", "")


def test_two_inputs_of_one_fate_are_one_row() -> None:
    loose = [listed(f"{number}.log") for number in range(6)]
    ((names, use, items),) = left_over(several(inputs=[*CORES, *loose]))
    assert names == "0.log, 1.log, 2.log, 3.log and 2 more"
    assert use == "read, of no incident"
    assert len(items) == 6


@pytest.mark.parametrize("name", ["log", "one.log", "dir/log"])
def test_another_inputs_gap_is_not_this_ones(name: str) -> None:
    # GIVEN a gap about an input whose name holds this one's
    report = several(Gap(what=f"14 facts of my{name}", why=WHY), inputs=[listed(name), listed(f"my{name}")])
    assert use_of(report.inputs[0], report) == "read, of no incident"
    assert WHY in use_of(report.inputs[1], report)


def test_a_file_of_a_folder_that_is_no_evidence_says_so() -> None:
    report = several(inputs=[listed("d/notes.md", "unused"), listed("d", "folder")])
    assert use_of(report.inputs[0], report) == "not used: its content is no evidence"
    assert "listed by itself" in use_of(report.inputs[1], report)


def test_of_a_single_incident_the_evidence_tells(sample: Callable[[str], Report]) -> None:
    # GIVEN one incident's report, with an input beside its own that nothing was read in
    report = sample("d1")
    own = report.verdict.evidence[0].source.partition(":")[0]
    inputs = [listed(own, "core"), listed("stranger.log")]
    report = report.model_copy(update={"inputs": inputs})
    # THEN the one is joined and of the other the report has nothing
    assert use_of(inputs[0], report).startswith("read, joined")
    assert use_of(inputs[1], report) == "read, nothing of it stands in this report"


@pytest.mark.parametrize("kind", ["bundle", "journal", "issue"])
def test_of_what_holds_parts_nothing_is_claimed(kind: str) -> None:
    # GIVEN a bundle, whose facts name what told them (/proc/7, a probe) and not the bundle
    report = several(inputs=[*CORES, listed("a.tar.zst", kind)])
    # THEN it is not said to be of no incident
    assert use_of(report.inputs[3], report) == "read"
    assert left_over(report) == []
