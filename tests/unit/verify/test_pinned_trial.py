"""One pinned trial against stand-ins: what is kept, what is dropped, what is proven before it counts."""

from types import SimpleNamespace

import pytest

from analyzers.contracts.trials import INCONCLUSIVE, SERVER_ERROR, STRANDED, Judgement, Signature, Trial
from analyzers.errors import UserError
from collector.lab.faults.pinning import Pinned
from collector.lab.reference import Answer, Ending
from collector.lab.reference.output import Line
from collector.lab.verify.pinned import trial as module
from collector.lab.verify.pinned import verdicts
from collector.lab.verify.pinned.calibration import Awake
from collector.lab.verify.pinned.seen import Seen
from collector.lab.verify.pinned.shapes import shapes_for
from collector.lab.verify.pinned.trial import Plan, pinned_trial, prove
from collector.lab.verify.pinned.windows import Window
from collector.lab.verify.pinned.witness import Held, patience_for

AWAKE = Answer("/completion", 200, b'{"content": "ok"}', None, 0.0, 0.5)
SENT = 100.0


class Server:
    def __init__(self, folder, answer, lines=(), ending=None):
        self.folder, self.pid = folder, 7
        self.finished = ending is not None
        self.ending = ending
        self.dumping = False
        self.pending = SimpleNamespace(answer=answer, waiting=answer is None, wait=lambda _: self.released)
        self.released = None
        self.output = SimpleNamespace(lines=lambda: list(lines))

    def wait_until(self, condition, deadline):
        return condition(self)

    def send(self, request):
        return AWAKE

    def get(self, route):
        return AWAKE


class Warm:
    def __init__(self, server, error=None):
        self.server, self.error, self.proven, self.dropped = server, error, False, 0
        self.base = SimpleNamespace(model="m.gguf")

    def take(self, *, poisoned):
        if self.error:
            raise self.error
        return self.server

    def drop(self):
        self.dropped += 1


class Pin:
    asked = "a stand-in"

    def __init__(self, server, obedient=True, early=False):
        self.server, self.obedient, self.early, self.learnt = server, obedient, early, []

    def place(self, server, request, offset):
        return Pinned(server.pending, SENT + offset, self.early, SENT, SENT + offset)

    def learn(self, pinned, arrival):
        self.learnt.append(arrival)

    def handled(self, pinned):
        return pinned.poked

    def obeys(self, server):
        return self.obedient


@pytest.fixture
def plan():
    shape = shapes_for("D3", unpoisoned=False)[0]
    return Plan(7, shape, Awake(AWAKE, 0.5, Window(0.05, 0.1, 0.15)), 0.0)


@pytest.fixture
def judged(monkeypatch):
    """Records what triage was asked; its word is always D3."""
    asked = []
    verdict = (Judgement(**{"class": "HANG-STRANDED"}, defect="D3"), Signature(bug_key="k"))
    monkeypatch.setattr(verdicts, "of_life", lambda *given: asked.append(given) or verdict)
    monkeypatch.setattr(verdicts, "of_crash", lambda *given: asked.append(given) or verdict)
    return asked


def sleep_line(after):
    return Line("que    start_loop: entering sleeping state", 0.0, SENT + after)


def answered(status=200, body=b'{"content": "ok"}'):
    return Answer("/completion", status, body, None, SENT, SENT + 0.4)


def test_a_server_that_does_not_start_is_named_and_not_counted(plan):
    error = UserError("the port cannot be used", where="127.0.0.1:8080", remedy="choose another")
    trial = pinned_trial(Warm(None, error), Pin(None), plan)
    assert (trial.outcome, trial.reached) == (INCONCLUSIVE, False)
    assert "port cannot be used" in trial.notes[0]


def test_a_killed_server_is_not_counted_and_not_judged(tmp_path, plan, judged):
    broken = Answer("/completion", None, b"", "ConnectionResetError", SENT, SENT + 0.1)
    server = Server(tmp_path, broken, [sleep_line(0.1)], Ending(9, None, SENT + 0.1, 0.0))
    warm = Warm(server)
    trial = pinned_trial(warm, Pin(server), plan)
    assert (trial.outcome, trial.reached, trial.signal) == (INCONCLUSIVE, False, 9)
    assert trial.notes[0] == "killed by SIGKILL from outside, not counted"
    assert judged == []
    assert warm.dropped == 1


def test_a_crash_is_judged_and_keeps_its_signature(tmp_path, plan, judged):
    broken = Answer("/completion", None, b"", "RemoteDisconnected", SENT, SENT + 0.1)
    server = Server(tmp_path, broken, [], Ending(11, None, SENT + 0.1, 0.0))
    trial = pinned_trial(Warm(server), Pin(server), plan)
    assert (trial.outcome, trial.reached, trial.signal) == ("crashed", True, 11)
    assert trial.signature.bug_key == "k"
    assert trial.placement_error is None


def test_a_stranded_client_is_released_and_its_answer_compared(tmp_path, plan, judged, monkeypatch):
    # GIVEN
    server = Server(tmp_path, None, [sleep_line(0.101)])
    server.released = AWAKE
    found = SimpleNamespace(evidence=("seen from outside",))
    monkeypatch.setattr(module, "watch", lambda *_: None)
    monkeypatch.setattr(module, "look", lambda _: Held(True, found))
    warm = Warm(server)
    # WHEN
    trial = pinned_trial(warm, Pin(server), plan)
    # THEN the server is kept for the next trial, and triage saw what the collector saw
    assert (trial.outcome, trial.reached) == (STRANDED, True)
    assert trial.notes[0] == "released by one waking call, answered as when awake"
    assert warm.dropped == 0
    assert ("seen from outside",) in judged[0]
    assert trial.placement_error == pytest.approx(0.001)


def test_a_released_answer_that_differs_is_said(tmp_path, plan, judged, monkeypatch):
    server = Server(tmp_path, None, [sleep_line(0.1)])
    server.released = answered(body=b'{"content": "other"}')
    monkeypatch.setattr(module, "watch", lambda *_: None)
    monkeypatch.setattr(module, "look", lambda _: Held(True, SimpleNamespace(evidence=())))
    trial = pinned_trial(Warm(server), Pin(server), plan)
    assert "NOT as when awake" in trial.notes[0]


def test_a_hang_that_no_waking_call_ends_is_not_called_stranded(tmp_path, plan, judged, monkeypatch):
    server = Server(tmp_path, None, [sleep_line(0.1)])
    monkeypatch.setattr(module, "watch", lambda *_: None)
    monkeypatch.setattr(module, "look", lambda _: Held(True, SimpleNamespace(evidence=())))
    warm = Warm(server)
    trial = pinned_trial(warm, Pin(server), plan)
    assert (trial.outcome, trial.reached) == (INCONCLUSIVE, False)
    assert "hang of another kind" in trial.notes[0]
    assert warm.dropped == 1


def test_sockets_that_may_not_be_looked_at_leave_it_open(tmp_path, plan, judged, monkeypatch):
    server = Server(tmp_path, None, [sleep_line(0.1)])
    monkeypatch.setattr(module, "watch", lambda *_: None)
    monkeypatch.setattr(module, "look", lambda _: Held(True, None, "the sockets cannot be looked at (no)"))
    trial = pinned_trial(Warm(server), Pin(server), plan)
    assert trial.outcome == INCONCLUSIVE
    assert any("cannot be looked at" in note for note in trial.notes)


def test_an_error_answer_is_judged_and_the_server_kept(tmp_path, plan, judged):
    server = Server(tmp_path, answered(500, b'{"error": {"message": "x"}}'), [sleep_line(0.1)])
    warm = Warm(server)
    trial = pinned_trial(warm, Pin(server), plan)
    assert (trial.outcome, trial.reached, trial.status) == (SERVER_ERROR, True, 500)
    assert len(judged) == 1
    assert warm.dropped == 0


def test_what_was_seen_is_learnt_from(tmp_path, plan, judged):
    server = Server(tmp_path, answered(), [sleep_line(0.104)])
    pin = Pin(server)
    pinned_trial(Warm(server), pin, plan)
    assert pin.learnt == [pytest.approx(SENT + 0.104)]


def test_a_server_that_declined_to_sleep_counts_only_once_it_was_seen_to_sleep(tmp_path, plan, judged):
    server = Server(tmp_path, answered())
    assert pinned_trial(Warm(server), Pin(server, obedient=True), plan).reached
    deaf = pinned_trial(Warm(server), Pin(server, obedient=False), plan)
    assert not deaf.reached
    assert "did not sleep when told to" in deaf.notes[0]


def test_a_proven_server_is_not_asked_again(tmp_path):
    warm = Warm(Server(tmp_path, answered()))
    warm.proven = True
    seen = Seen(SENT, SENT, answer=answered(), handled=SENT)
    assert prove(warm, Pin(None, obedient=False), seen).proven


def test_a_client_is_watched_longer_than_any_awake_answer():
    assert patience_for(3.0) > 3.0
    assert patience_for(0.001) >= 1.0


def test_every_core_but_the_first_few_goes(tmp_path):
    made = []
    for number in range(verdicts.CORES_KEPT + 2):
        folder = tmp_path / f"server-{number}"
        folder.mkdir()
        core = folder / "core.123"
        core.write_bytes(b"core")
        verdicts._forget_core(core, folder)
        made.append(core.exists())
    assert made == [True] * verdicts.CORES_KEPT + [False] * 2


def test_a_core_outside_the_servers_folder_is_never_touched(tmp_path):
    elsewhere = tmp_path / "core"
    elsewhere.write_bytes(b"core")
    folder = tmp_path / "lab" / "server"
    folder.mkdir(parents=True)
    for _ in range(verdicts.CORES_KEPT + 2):
        verdicts._forget_core(elsewhere, folder)
    assert elsewhere.exists()


def test_the_record_names_shape_and_offset(tmp_path, plan, judged):
    server = Server(tmp_path, answered(), [sleep_line(0.1)])
    trial = pinned_trial(Warm(server), Pin(server), plan)
    assert isinstance(trial, Trial)
    assert trial.offset == pytest.approx(0.1)
    assert trial.notes[-1] == "schema-heavy"
    assert trial.trial_seconds is not None
