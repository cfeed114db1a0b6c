"""What a pinned crash is called: by the sanitizer where it reported, by triage where it did not."""

from types import SimpleNamespace

import pytest
from test_judge_oracle import HEAD, LAST, READ, REPORT, SLEPT, WOKEN, lines
from trial_builder import made

from analyzers.contracts.trials import CRASHED, Judgement, Signature
from collector.lab.verify.pinned import verdicts
from collector.lab.verify.pinned.shapes import shapes_for
from collector.lab.verify.pinned.witness import dying, watch

TRIAGED = (Judgement(**{"class": "ABRT-ABORT"}), Signature(bug_key="k"))


@pytest.fixture
def triaged(monkeypatch):
    """What triage was asked about; its word is always an abort, as it sees the sanitizer's own."""
    asked = []
    monkeypatch.setattr(verdicts, "judge", lambda *given: asked.append(given) or TRIAGED)
    provoked = SimpleNamespace(core=SimpleNamespace(path=None))
    monkeypatch.setattr(verdicts, "closed", lambda *_, **__: provoked)
    return asked


def crashed(tmp_path, defect, *log):
    server = SimpleNamespace(folder=tmp_path, pid=7, output=SimpleNamespace(lines=lambda: lines(*log)))
    trial = made(CRASHED, defect, signal=6, notes=["about"])
    return verdicts.crashed(trial, server, shapes_for(defect, unpoisoned=False)[0], None, tmp_path)


@pytest.mark.parametrize(
    ("made_for", "log", "defect"),
    [
        ("D1", (*SLEPT, *WOKEN, *REPORT), "D1"),
        ("D1", (*SLEPT, *WOKEN, *SLEPT, *REPORT), None),
        ("D2", (*SLEPT, *REPORT), "D2"),
        ("D3", (*SLEPT, *REPORT), "D2"),  # a reader that the sleep met too early
    ],
)
def test_the_sanitizers_report_decides_and_not_the_abort_that_ends_it(
    tmp_path, triaged, made_for, log, defect
):
    trial = crashed(tmp_path, made_for, *log)
    assert trial.judgement.defect == defect
    assert trial.oracle == list(REPORT)
    assert "read by llama_vocab::impl::tokenize" in trial.notes[0]
    assert trial.notes[-1] == "about"
    assert triaged == []


def test_another_report_is_another_crash(tmp_path, triaged):
    overflow = HEAD.replace("heap-use-after-free", "heap-buffer-overflow")
    trial = crashed(tmp_path, "D2", *SLEPT, overflow, *READ, LAST)
    assert (trial.outcome, trial.judgement.defect) == (CRASHED, None)
    assert "heap-buffer-overflow" in trial.judgement.summary


def test_without_a_report_triage_decides(tmp_path, triaged):
    trial = crashed(tmp_path, "D2", *SLEPT)
    assert (trial.judgement, trial.signature) == TRIAGED
    assert (trial.oracle, trial.notes) == ([], ["about"])
    assert len(triaged) == 1


class Reporting:
    """A server that prints its report for the first looks, asleep and with its client waiting, then ends."""

    def __init__(self, *log, looks=3):
        self.log, self.looks, self.dumping, self.ending = log, looks, False, None
        self.output = SimpleNamespace(lines=lambda: lines(*self.log))
        self.waited = []

    @property
    def finished(self):
        return self.ending is not None

    def wait_until(self, condition, deadline):
        self.waited.append(deadline)
        self.looks -= 1
        if self.looks <= 0:
            self.ending = SimpleNamespace(signal=6)
        return condition(self)


def test_a_client_of_a_server_that_prints_its_report_is_not_stranded():
    pending = SimpleNamespace(waiting=True, answer=None, wait=lambda _: None)
    server = Reporting(*SLEPT, *REPORT[:-1], looks=2)
    assert dying(server)
    assert watch(server, SimpleNamespace(pending=pending), 0.0) is None
    # THEN its end was waited for, and no longer for its answer
    assert server.ending is not None
    assert len(server.waited) == 2
    assert not dying(Reporting(*SLEPT))
