"""A death is judged in a child process: its report comes back, and whatever goes wrong is one line."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact, to_evidence
from collector.agent.deaths import judging
from collector.agent.deaths.judging import BUNDLE, REPORT, Judge, Judged, Material, judge

WHO = Incarnation(pid=7, start_time=1.0, boot_id="0123456789abcdef0123456789abcdef")


def fact(payload, trust, number):
    return to_evidence(
        payload, id=f"e{number}", source="s", text="t", trust=trust, wall=1.0, mono=2.0, incarnation=WHO
    )


def material() -> Material:
    kernel = fact(KernelFact(shape="oom-kill", tid=7, name="llama-server"), Trust.KERNEL, 1)
    ended = fact(ExitFact(by="waitpid", signal=9), Trust.KERNEL, 2)
    return Material(WHO, None, (kernel, ended))


def until(done, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, "nothing came in time"
        time.sleep(0.01)
    return found


def test_the_report_and_the_bundle_come_back(tmp_path):
    judged = judge(material(), tmp_path)
    assert judged.problem is None
    assert judged.report is not None
    assert judged.report.verdict.class_ == "HOST-OOM"
    assert judged.report.process.pid == 7
    assert set(judged.files) == {BUNDLE, REPORT}
    assert list(tmp_path.iterdir()) == []


def test_the_child_gets_nothing_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LLAMA_BLACKBOX_KEY", "s3cret")
    seen = {}

    def run(command, **options):
        seen.update(options["env"])
        return subprocess.CompletedProcess(command, 2)

    monkeypatch.setattr(judging.subprocess, "run", run)
    assert judge(material(), tmp_path).problem == "triage ended with status 2"
    assert "s3cret" not in str(seen)


def test_the_child_limits_itself_before_it_reads_anything():
    words = (
        "import resource; from collector.agent.deaths import child; child.limit(); "
        "print(resource.getrlimit(resource.RLIMIT_AS)[0] == child.MEMORY, "
        "resource.getrlimit(resource.RLIMIT_CORE))"
    )
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "(0,", "0)"]


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"{", b"null", b"\xff\xfe", b"[" * 100_000])
def test_an_answer_that_is_no_report_is_a_problem(tmp_path, monkeypatch, answer):
    def run(command, **options):
        (Path(command[-1]) / REPORT).write_bytes(answer)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(judging.subprocess, "run", run)
    judged = judge(material(), tmp_path)
    assert judged.report is None
    assert judged.problem == "the report cannot be read"


def test_a_child_that_never_ends_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "TIMEOUT", 0.05)
    judged = judge(material(), tmp_path)
    assert judged.report is None
    assert "took over" in str(judged.problem)


def test_a_folder_that_is_gone_is_a_problem_of_that_death_alone(tmp_path):
    judge_one = Judge(tmp_path / "none")
    judge_one.take("a", material())
    ((name, outcome),) = until(judge_one.done)
    assert name == "a"
    assert outcome.report is None
    assert outcome.problem
    judge_one.close()


def test_one_at_a_time_and_the_same_incident_once(tmp_path):
    go, started = threading.Event(), []

    def slowly(of: Material, folder) -> Judged:
        started.append(of.incarnation.pid)
        assert go.wait(30)
        return Judged(None, {}, "x")

    worker = Judge(tmp_path, run=slowly)
    for name in ("a", "a", "b"):
        worker.take(name, material())
    assert worker.busy == {"a", "b"}
    until(lambda: started)
    assert worker.done() == []
    assert len(started) == 1
    go.set()
    got = []
    until(lambda: (got.extend(worker.done()), len(got) == 2)[1])
    assert [name for name, _ in got] == ["a", "b"]
    worker.close()
