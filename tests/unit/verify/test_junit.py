"""JUnit XML that every reader accepts, whatever a hostile server printed."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trial_builder import a_run, finding, judged, made

from analyzers.contracts.trials import CRASHED, Finding, Subject, Trial, TrialRun
from collector.lab.verify.junit import junit_xml


def suite_of(run: TrialRun) -> ET.Element:
    root = ET.fromstring(junit_xml(run).encode())  # noqa: S314 - our own
    suite = root.find("testsuite")
    assert suite is not None
    return suite


def test_one_suite_with_one_case_per_finding_and_the_counts_ci_reads() -> None:
    # GIVEN a run with one finding of each conclusion
    crash = made(CRASHED, "D2", signal=11, judgement=judged("D2"), trial_seconds=2.5, number=4)
    run = a_run(
        finding("D2"), finding("D3", "sound"), finding("D1", "inconclusive"), trials=[crash], method="pinned"
    )
    # WHEN written
    suite = suite_of(run)
    # THEN
    assert suite.get("name") == "verify pinned: b12345 (llama-server)"
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    assert suite.get("time") == "3.250"
    d2, d3, d1 = suite.findall("testcase")
    failure = d2.find("failure")
    assert failure is not None
    assert failure.get("message") == "1 of 2 showed it"
    assert "trial 4: POST /tokenize: crashed, SEGV-UAF-SLEEP D2" in (failure.text or "")
    assert d2.get("time") == "2.500"
    assert d2.find("skipped") is None
    assert list(d3) == []
    assert d1.find("failure") is None
    assert d1.find("skipped") is not None


def test_the_properties_name_the_build_its_id_and_the_seed() -> None:
    suite = suite_of(a_run(finding()))
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["build"] == "12345"
    assert properties["build-id"] == "ab" * 20
    assert properties["seed"] == "7"
    assert "fix" not in properties


def test_a_run_that_ended_early_is_an_error_and_an_interrupted_one_says_so() -> None:
    suite = suite_of(a_run(finding("D2", "inconclusive"), problem="the disk is full", interrupted=True))
    assert (suite.get("errors"), suite.get("tests")) == ("1", "2")
    assert [each.get("message") for each in suite.iter("error")] == ["the disk is full"]
    assert any(each.get("name") == "interrupted" for each in suite.iter("property"))


@pytest.mark.parametrize("findings", [(), (finding("D2", "inconclusive"),), (finding("D2"),)])
def test_an_interrupted_run_is_an_error_whatever_it_found(findings: tuple[Finding, ...]) -> None:
    suite = suite_of(a_run(*findings, interrupted=True))
    assert (suite.get("errors"), suite.get("tests")) == ("1", str(len(findings) + 1))
    (error,) = suite.iter("error")
    assert (error.get("type"), "no verdict" in str(error.get("message"))) == ("interrupted", True)
    assert len(suite.findall("testcase")) == len(findings) + 1


def test_the_declared_encoding_is_not_the_locale_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ANSI_X3.4-1968")
    assert junit_xml(a_run()).startswith('<?xml version="1.0" encoding="utf-8"?>')


def test_an_unknown_conclusion_of_a_newer_writer_is_no_success() -> None:
    suite = suite_of(a_run(finding(conclusion="half-sound")))
    assert suite.get("skipped") == "1"


HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=40) | st.sampled_from(
    ["]]>", "<!--", "\"&<>'", "\x00\x1b[31m", "\ud800", "\ufffe", "\x85\u2028", "a" * 5000]
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_hostile_texts_stay_texts(name: str, because: str, note: str) -> None:
    subject = Subject.model_construct(
        kind="native", name=name, version=note, build=None, build_id=None, fix=None, asan=False, marks={}
    )
    trial = Trial.model_construct(
        **{**made(CRASHED, "D2").__dict__, "notes": [note], "route": name, "judgement": None}
    )
    run = TrialRun.model_construct(
        **{
            **a_run().__dict__,
            "subject": subject,
            "trials": [trial],
            "findings": [finding().model_copy(update={"because": because, "defect": "D2"})],
        }
    )
    text = junit_xml(run)
    suite = ET.fromstring(text.encode())[0]  # noqa: S314 - our own
    assert len(suite.findall("testcase")) == 1
    assert all(letter.isprintable() or letter in "\n\t\r\xad" or ord(letter) > 0x9F for letter in text)


@pytest.mark.parametrize("count", [0, 51, 500])
def test_the_list_of_trials_is_bounded(count: int) -> None:
    run = a_run(finding(), trials=[made(CRASHED, "D2", signal=11)] * count)
    failure = suite_of(run).find("testcase/failure")
    assert failure is not None
    assert len((failure.text or "").splitlines()) <= 50
