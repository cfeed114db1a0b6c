"""What a try's end is called, when a try says anything, and how tries become a trial."""

import random
from types import SimpleNamespace

import pytest
from directed_stub import HANDLER_STACK, SIGNAL, FakeServer

from analyzers.contracts.trials import INCONCLUSIVE, Judgement, Signature, Trial
from analyzers.stacks.mi import MiError
from collector.lab.reference.client import Answer, Request
from collector.lab.reference.output import Line
from collector.lab.verify.directed import attempt as attempts
from collector.lab.verify.directed import ending, method, trial
from collector.lab.verify.directed.ending import Attempt, Seen, conclude
from collector.lab.verify.directed.method import Plan, concluding, order
from collector.lab.verify.directed.points import BY_NAME, POINTS
from collector.lab.verify.directed.steps import Sleep
from collector.lab.verify.directed.watch import Became

COUNT = BY_NAME["token-count"]


def answer(status=200, body=b'{"tokens":[1]}'):
    return Answer("/tokenize", status, body, None, 1.0, 1.5)


@pytest.fixture
def this():
    request = Request("POST", "/tokenize", {})
    made = Attempt(BY_NAME["tokeniser"], request, FakeServer(), Seen(reached=True), awake=answer())
    made.pending = SimpleNamespace(waiting=False, answer=answer())
    return made


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b'{"tokens":[1]}', "answered"),
        (200, b'{"tokens":[]}', "wrong-answer"),
        (500, b'{"error":{"message":"_Map_base::at"}}', "server-error"),
        (400, b'{"error":{"message":"_Map_base::at"}}', "server-error"),
        (503, b"", "refused"),
    ],
)
def test_an_answer_is_compared_with_the_awake_one(this, monkeypatch, status, body, outcome):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.ANSWERED)
    this.pending.answer = answer(status, body)
    conclude(this)
    assert (this.seen.outcome, this.seen.status, this.seen.seconds) == (outcome, status, 0.5)
    assert bool(this.seen.notes) == (outcome != "answered")


def test_silence_says_nothing(this, monkeypatch):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.SILENT)
    conclude(this)
    assert (this.seen.outcome, this.seen.reached) == (INCONCLUSIVE, False)


def test_a_strand_is_one_that_waking_releases(this, monkeypatch):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.STRANDED)
    monkeypatch.setattr(ending, "release", lambda *_: True)
    conclude(this)
    assert this.seen.outcome == "stranded"
    assert "answered with 200" in this.seen.notes[-1]
    # WHEN waking does not help THEN it is another hang, and no D3
    monkeypatch.setattr(ending, "release", lambda *_: False)
    conclude(this)
    assert this.seen.outcome == INCONCLUSIVE


def test_a_strand_that_dies_when_it_is_woken_is_judged_as_the_crash_it_is(this, monkeypatch, tmp_path):
    said = Judgement(class_="SEGV"), Signature()
    monkeypatch.setattr(ending, "watch", lambda *_: Became.STRANDED)
    monkeypatch.setattr(ending, "judge", lambda *_: said)
    this.server.folder, this.server._saved = tmp_path, None

    def woken(server, _):
        server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10))
        return False

    monkeypatch.setattr(ending, "release", woken)
    conclude(this)
    assert (this.seen.outcome, this.seen.judgement) == ("crashed", said[0])


TWO_WAYS = answer(body=b'{"tokens":[2]}')


@pytest.mark.parametrize(
    ("again", "status", "body", "outcome"),
    [
        (TWO_WAYS, 200, b'{"tokens":[1]}', "answered"),
        (TWO_WAYS, 200, b'{"tokens":[2]}', "answered"),
        (TWO_WAYS, 200, b'{"tokens":[3]}', INCONCLUSIVE),
        (TWO_WAYS, 500, b"{}", "server-error"),
        (answer(), 200, b'{"tokens":[3]}', "wrong-answer"),
    ],
)
def test_an_answer_unlike_two_that_differ_already_is_not_called_wrong(
    this, monkeypatch, again, status, body, outcome
):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.ANSWERED)
    this.again, this.pending.answer = again, answer(status, body)
    conclude(this)
    assert (this.seen.outcome, this.seen.reached) == (outcome, True)
    assert any("differ already" in note for note in this.seen.notes) == (outcome == INCONCLUSIVE)
    assert outcome != INCONCLUSIVE or "differ already" in this.seen.notes[0]


def test_a_crash_is_judged_from_the_core_of_the_thread_that_died(this, monkeypatch, tmp_path):
    said = Judgement(class_="SEGV-UAF-SLEEP", defect="D2"), Signature(bug_key="k")
    handed = []
    monkeypatch.setattr(ending, "watch", lambda *_: Became.DIED)
    monkeypatch.setattr(ending, "judge", lambda provoked, folder: handed.append(provoked) or said)
    this.server.folder, this.server._saved = tmp_path, None
    this.server.gdb.happen(SIGNAL % ("SIGSEGV", 10, 10))
    this.server.absorb()
    this.server.gdb.on = {"console generate-core-file": []}
    (tmp_path / "core.gdb").write_bytes(b"core")
    conclude(this)
    assert (this.seen.outcome, this.seen.signal) == ("crashed", 11)
    assert (this.seen.judgement, this.seen.signature) == said
    assert handed[0].core.path == tmp_path / "core.gdb"
    assert handed[0].kernel.note
    sent = this.server.gdb.sent
    assert sent.index("-thread-select 10") < sent.index("console generate-core-file core.gdb")


def test_a_crash_without_core_is_still_a_crash_and_says_so(this, monkeypatch, tmp_path):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.DIED)
    monkeypatch.setattr(ending, "judge", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    this.server.folder, this.server._saved = tmp_path, None
    this.server.gdb.happen(SIGNAL % ("SIGABRT", 10, 10))
    this.server.absorb()
    this.server.gdb.answers = {"console generate-core-file": MiError("no room\x1b[31m")}
    conclude(this)
    assert (this.seen.outcome, this.seen.signal) == ("crashed", 6)
    assert any("no room?[31m" in note for note in this.seen.notes)
    # and what nobody could judge shows no defect
    assert (this.seen.judgement.class_, this.seen.judgement.defect) == ("UNDETERMINED", None)
    assert "No space left" in this.seen.judgement.summary


USED = "    #0 0x1 in llama_vocab::impl::tokenize(bool) /s/llama-vocab.cpp:1"
HANDLER = "    #1 0x2 in server_routes::handle_count_tokens(server_http_req const&) /s/server.cpp:2"
UNLOADED = (
    "freed by thread T0 here:",
    "    #0 0x3 in server_context_impl::destroy() /s/server.cpp:3",
    "    #1 0x4 in server_queue::start_loop(long) /s/queue.cpp:4",
)


LAST = "==7==ABORTING"
WOKEN = ["x", "I que    start_loop: entering sleeping state", "I que    start_loop: exiting sleeping state"]


def reported(kind, *lines):
    return [
        f"==7==ERROR: AddressSanitizer: {kind} on address 0x1",
        "READ of size 8 at 0x1 thread T1",
        *lines,
        LAST,
    ]


def sanitized(this, monkeypatch, report):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.DIED)
    this.server.output = SimpleNamespace(lines=lambda: [Line(text, 0, 0) for text in [*WOKEN, *report]])
    this.server.gdb.happen(SIGNAL % ("SIGABRT", 10, 10))
    this.server.absorb()
    conclude(this)
    return this.seen


@pytest.mark.parametrize(("point", "defect"), [("tokeniser", "D2"), ("token-count", "D1")])
def test_the_sanitizers_report_is_the_oracle_and_no_core_is_taken(this, monkeypatch, point, defect):
    # GIVEN a handler that reads what the unload has freed
    this.point = BY_NAME[point]
    report = reported("heap-use-after-free", USED, HANDLER, *UNLOADED)
    # WHEN concluded
    seen = sanitized(this, monkeypatch, report)
    # THEN it is what the hold was made for
    assert seen.outcome == "crashed"
    assert seen.oracle.lines == report
    assert "read by llama_vocab::impl::tokenize under handle_count_tokens" in seen.oracle.short
    assert (seen.judgement.defect, seen.judgement.confidence) == (defect, "proven")
    assert "freed by server_context_impl::destroy" in seen.judgement.summary
    assert this.server.gdb.sent == []


@pytest.mark.parametrize(
    "report",
    [
        reported("heap-buffer-overflow", USED, HANDLER),
        reported("heap-use-after-free", USED, HANDLER, "freed by thread T1 here:", HANDLER),
        reported("heap-use-after-free", *UNLOADED[1:], *UNLOADED),
        reported("heap-use-after-free"),
        ["==7==ERROR: AddressSanitizer: requested allocation size 0xffffffff exceeds maximum", LAST],
    ],
)
def test_any_other_report_of_the_sanitizer_shows_no_sleep_defect(this, monkeypatch, report):
    seen = sanitized(this, monkeypatch, report)

    assert (seen.outcome, seen.oracle.lines) == ("crashed", report)
    assert (seen.judgement.class_, seen.judgement.defect) == ("UNDETERMINED", None)


def test_a_report_is_read_to_its_end_before_it_is_judged(this, monkeypatch):
    # GIVEN gdb's word of the end before the pipe with the report has been read
    report = reported("heap-use-after-free", USED, HANDLER, *UNLOADED)
    read = [Line(text, 0, 0) for text in [*WOKEN, *report[:3]]]
    monkeypatch.setattr(ending, "watch", lambda *_: Became.DIED)
    this.server.output = SimpleNamespace(lines=lambda: read)
    this.server.gdb.wait = lambda _: read.extend(Line(text, 0, 0) for text in report[3:])
    this.server.gdb.happen(SIGNAL % ("SIGABRT", 10, 10))
    this.server.absorb()
    # WHEN concluded THEN nothing of it is missing
    conclude(this)
    assert (this.seen.oracle.lines, this.seen.judgement.defect) == (report, "D2")


def test_a_report_that_never_ends_is_not_waited_for_for_ever(this, monkeypatch):
    monkeypatch.setattr(ending, "REPORT_DEADLINE", 0.0)
    assert sanitized(this, monkeypatch, reported("heap-use-after-free", USED)[:-1]).outcome == "crashed"


def test_a_server_that_ends_by_itself_says_nothing(this, monkeypatch):
    monkeypatch.setattr(ending, "watch", lambda *_: Became.DIED)
    this.server.gdb.happen('*stopped,reason="exited",exit-code="01"')
    this.server.absorb()
    conclude(this)
    assert (this.seen.outcome, this.seen.reached) == (INCONCLUSIVE, False)
    assert "status 1" in this.seen.notes[-1]


def woken(this, **seen):
    this.point, this.seen = COUNT, Seen(**seen)
    return this


def test_a_right_answer_counts_only_when_the_model_moved(this):
    assert attempts._met(woken(this, outcome="answered"), 0, before=0x1000, after=0x2000)
    assert not attempts._met(woken(this, outcome="answered"), 0, before=0x1000, after=0x1000)
    assert "by luck" in this.seen.notes[-1]
    # a wrong one counts wherever the model is
    assert attempts._met(woken(this, outcome="wrong-answer"), 0, before=0x1000, after=0x1000)


def test_a_count_that_did_not_come_by_counts_only_when_it_died_there(this):
    assert not attempts._met(woken(this, outcome="answered"), 0, before=1, after=None)
    this.server.fatal = ("10", 11)
    this.server.gdb.stacks = {"10": ["server_routes::handle_count_tokens(llama_vocab const*)"]}
    assert attempts._met(woken(this, outcome="crashed"), 0, before=1, after=None)
    this.server.gdb.stacks = {"10": HANDLER_STACK}
    assert not attempts._met(woken(this, outcome="crashed"), 0, before=1, after=None)


def test_a_sleep_after_the_read_that_the_sanitizer_reports_takes_nothing_from_it(this, monkeypatch):
    """Names are looked up for longer than the idle limit: the loop sleeps again during the report."""
    # GIVEN a stale read after the wake, and a sleep in the middle of its report
    this.point = COUNT
    report = reported("heap-use-after-free", USED, HANDLER, *UNLOADED)
    again = "I que    start_loop: entering sleeping state"
    sanitized(this, monkeypatch, [*report[:3], again, *report[3:]])
    # WHEN asked whether the trial says anything THEN it does
    assert attempts._met(this, 1, before=1, after=2)
    assert "the sleep before it had freed" in this.seen.notes[-1]


def test_a_sleep_before_the_read_leaves_the_trial_open_whatever_the_sanitizer_says(this, monkeypatch):
    this.point = COUNT
    report = reported("heap-use-after-free", USED, HANDLER, *UNLOADED)
    seen = sanitized(this, monkeypatch, ["I que    start_loop: entering sleeping state", *report])
    assert seen.judgement.defect is None
    assert not attempts._met(this, 1, before=1, after=2)
    assert "slept again" in this.seen.notes[-1]


def test_a_second_sleep_meanwhile_says_nothing(this):
    this.server.sleeps()
    assert not attempts._met(woken(this, outcome="crashed"), 0, before=1, after=2)


def setting(say=lambda _: None):
    lab = SimpleNamespace(folder=None)
    return trial.Setting(SimpleNamespace(spec=None, lab=lab, chance=random.Random(0), say=say), None, "gdb")


def test_a_missed_window_is_tried_again_and_said(monkeypatch):
    tries = iter([Seen(notes=["late"]), Seen(outcome="stranded", reached=True, notes=["seen"])])
    monkeypatch.setattr(trial, "attempt", lambda *_: next(tries))
    made = trial.carry_out(setting(), BY_NAME["before-post"], 4)
    assert (made.number, made.defect, made.point, made.outcome) == (4, "D3", "before-post", "stranded")
    assert made.reached
    assert made.notes == ["seen", "try 1 missed its window: late"]


def test_a_window_that_is_never_met_is_inconclusive_whatever_was_seen(monkeypatch):
    made_tries = []

    def attempt(*_):
        made_tries.append(1)
        return Seen(outcome="answered", notes=["the model came back"])

    monkeypatch.setattr(trial, "attempt", attempt)
    made = trial.carry_out(setting(), COUNT, 1)
    assert len(made_tries) == trial.TRIES
    assert (made.outcome, made.reached) == (INCONCLUSIVE, False)
    assert len(made.notes) == trial.TRIES


def test_a_kill_from_outside_is_no_crash(monkeypatch):
    monkeypatch.setattr(trial, "attempt", lambda *_: Seen(outcome="crashed", reached=True, signal=9))
    made = trial.carry_out(setting(), COUNT, 1)
    assert (made.outcome, made.reached) == (INCONCLUSIVE, False)


def test_each_defect_gets_its_trials_over_all_of_its_points():
    bench = SimpleNamespace(chance=random.Random(1))
    names = [point.name for point in order(Plan(trials=6), POINTS, bench)]
    assert names.count("token-count") == names.count("before-post") == 6
    assert {names.count(name) for name in ("after-barrier", "tokeniser", "schema-conversion")} == {2}
    # a defect without usable points gets none, and is still concluded on
    few = [point for point in POINTS if point.defect != "D1"]
    assert {point.defect for point in order(Plan(trials=2), few, bench)} == {"D2", "D3"}
    assert [each.defect for each in concluding(Plan())([])] == ["D1", "D2", "D3"]


def test_the_same_seed_asks_the_same():
    first, second = (
        [p.name for p in order(Plan(), POINTS, SimpleNamespace(chance=random.Random(7)))] for _ in "ab"
    )
    assert first == second


def clean(number, reached=True):
    return Trial(number=number, defect="D3", route="POST /completion", outcome="answered", reached=reached)


def test_a_sound_build_needs_enough_trials_that_met_their_window():
    plan = Plan(defects=("D3",))
    enough = [clean(at) for at in range(method.ENOUGH)]
    (sound,) = concluding(plan)(enough)
    assert (sound.conclusion, sound.shown) == ("sound", 0)
    assert 0.4 < sound.upper_bound < 0.5
    (open_,) = concluding(plan)([*enough[1:], clean(9, reached=False)])
    assert open_.conclusion == INCONCLUSIVE


@pytest.mark.parametrize(("slept", "reached"), [(True, True), (False, False)])
@pytest.mark.parametrize("status", [200, 500])
def test_another_answer_of_a_server_that_never_slept_is_no_fault_of_sleep(
    this, monkeypatch, status, slept, reached
):
    # GIVEN a held request that is answered otherwise than awake
    monkeypatch.setattr(attempts, "catch", lambda *_: SimpleNamespace(thread="10"))
    monkeypatch.setattr(attempts, "_let_go", lambda *_: None)
    monkeypatch.setattr(ending, "watch", lambda *_: Became.ANSWERED)
    pending = SimpleNamespace(waiting=False, answer=answer(status, b'{"tokens":[9]}'))
    this.server.begin = lambda _: pending

    def held(server, _):
        if slept:
            server.sleeps()
        return Sleep.SLEPT if slept else Sleep.STAYED_AWAKE

    monkeypatch.setattr(attempts, "wait_for_sleep", held)
    # WHEN let go THEN it counts only where a sleep came between
    attempts._hold(this, [])
    assert this.seen.reached is reached
    assert ("no sleep came" in this.seen.notes[0]) is not reached
