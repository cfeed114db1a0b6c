"""`llama-blackbox verify routes`: what is chosen, written and returned."""

import json
from pathlib import Path

import pytest

from analyzers.contracts.routes import RouteMatrix, RouteTrial
from analyzers.contracts.trials import (
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_INTERRUPTED,
    EXIT_SOUND,
    EXIT_UNUSABLE,
    Subject,
    TrialRun,
)
from analyzers.errors import UserError
from collector.lab.verify.routes import cli
from collector.lab.verify.subject import Wanted


def trial(**more):
    made = {"number": 1, "route": "GET /props", "handler": "get_props", "state": "asleep"}
    return RouteTrial(
        **{**made, "outcome": "answered", "promise": "kept", "wakes": False, "awake_status": 200, **more}
    )


class Runs:
    """Stands in for session.run: hands out prepared trials, one list a subject."""

    def __init__(self, *lists, sleeps=True, interrupted=False):
        self.lists = list(lists)
        self.sleeps = sleeps
        self.interrupted = interrupted
        self.asked = []

    def __call__(self, method, survey, conclude, wanted, outputs, *, seed, options):
        self.asked.append((wanted, outputs))
        trials = self.lists.pop(0)
        if isinstance(trials, Exception):
            raise trials
        survey.sleeps = self.sleeps
        version = wanted.version or "2026.10.11549"
        return TrialRun(
            tool="1",
            catalogue="1",
            method=method,
            subject=Subject(kind="hosted", name=version, version=version, build=int(version.split(".")[2])),
            date="2026-12-02",
            started=0.0,
            seed=seed,
            options=options,
            trials=trials,
            findings=conclude(trials),
            interrupted=self.interrupted,
        )


@pytest.fixture
def runs(monkeypatch):
    def prepare(*lists, **more):
        made = Runs(*lists, **more)
        monkeypatch.setattr(cli, "run", made)
        return made

    return prepare


def read(path):
    return RouteMatrix.model_validate_json(Path(path).read_text())


def test_a_sound_build_writes_matrix_and_picture_and_returns_0(runs, tmp_path):
    runs([trial()])

    status = cli.routes(json=str(tmp_path / "m.json"), picture=str(tmp_path / "m.svg"))

    assert status == EXIT_SOUND
    assert [build.subject.build for build in read(tmp_path / "m.json").builds] == [11549]
    assert (tmp_path / "m.svg").read_text().startswith("<svg")


def test_json_on_standard_output_stands_there_alone(runs, capsys):
    runs([trial()])

    cli.routes(json="-")

    printed = capsys.readouterr()
    assert json.loads(printed.out)["schema"] == "llama-blackbox/routes/1"
    assert "two" in printed.err  # the table of states


def test_a_broken_promise_returns_1(runs):
    runs([trial(promise="broken", wakes=True)])

    assert cli.routes() == EXIT_DEFECT


def test_missed_states_return_125(runs):
    runs([trial(reached=False, outcome="inconclusive", promise="none")])

    assert cli.routes() == EXIT_INCONCLUSIVE


def test_several_builds_become_one_document_oldest_first(runs, tmp_path):
    made = runs([trial()], [trial(promise="broken", wakes=True)])

    status = cli.routes(
        version=["2026.10.11549", "2026.9.11063"], json=str(tmp_path / "m.json"), output=tmp_path / "kept"
    )

    assert status == EXIT_DEFECT
    assert [build.subject.build for build in read(tmp_path / "m.json").builds] == [11063, 11549]
    assert [places.folder.name for _, places in made.asked] == ["build-1", "build-2"]


def test_a_build_that_fails_does_not_take_the_finished_ones(runs, tmp_path):
    runs([trial()], UserError("cannot be installed", where="x", remedy="y"))

    with pytest.raises(UserError, match="cannot be installed"):
        cli.routes(version=["2026.10.11549", "2026.9.11063"], json=str(tmp_path / "m.json"))

    assert [build.subject.build for build in read(tmp_path / "m.json").builds] == [11549]


def test_an_interrupted_build_is_written_and_ends_the_run(runs, tmp_path):
    made = runs([trial()], [trial()], interrupted=True)

    status = cli.routes(version=["2026.10.11549", "2026.9.11063"], json=str(tmp_path / "m.json"))

    assert status == EXIT_INTERRUPTED
    assert len(made.asked) == 1
    assert read(tmp_path / "m.json").builds[0].interrupted


def test_a_build_without_sleep_mode_is_unusable_and_named_by_its_version(runs, tmp_path):
    runs([], sleeps=False)

    with pytest.raises(UserError, match=r"^2026.10.11549: this server has no sleep mode") as caught:
        cli.routes(json=str(tmp_path / "m.json"), junit=str(tmp_path / "m.xml"))

    assert caught.value.status == EXIT_UNUSABLE
    assert read(tmp_path / "m.json").builds[0].sleeps is False


def test_beside_a_build_with_a_defect_one_without_sleep_mode_does_not_count(runs, monkeypatch):
    made = runs([], [trial(promise="broken", wakes=True)], sleeps=False)

    def run(*given, **more):
        done = made(*given, **more)
        made.sleeps = True
        return done

    monkeypatch.setattr(cli, "run", run)
    assert cli.routes(version=["2026.9.11063", "2026.10.11549"]) == EXIT_DEFECT


def test_every_output_of_every_build_is_looked_at_before_the_first_one(runs, tmp_path):
    made = runs([trial()], [trial()])
    (tmp_path / "m-2.xml").mkdir()

    with pytest.raises(UserError, match=r"m-2\.xml"):
        cli.routes(version=["2026.9.11063", "2026.10.11549"], junit=str(tmp_path / "m.xml"))

    assert made.asked == []


@pytest.mark.parametrize("option", ["picture", "json", "junit"])
def test_each_document_may_stand_alone_on_standard_output(runs, capsys, option):
    runs([trial()])

    assert cli.routes(**{option: "-"}) == EXIT_SOUND

    printed = capsys.readouterr()
    begins = {"picture": "<svg", "json": "{", "junit": "<?xml"}
    assert printed.out.startswith(begins[option])
    assert "two" in printed.err  # the table of states
    assert "ANSWERS" in printed.err


TARGET = {"target": "http://127.0.0.1:1", "touch_host": "127.0.0.1"}


@pytest.mark.parametrize(
    "given",
    [
        {"junit": "x.xml"},
        {"output": Path("x")},
        {"reproducer": Path("x")},
        {"update_catalogue": True},
        {"state": ["asleep"]},
        {"sample": 3},
        {"seed": 3},
        {"version": ["2026.9.11063"]},
        {"server_bin": [Path("x")]},
        {"build": [11368]},
        {"fix": "count-requests"},
        {"asan": True},
        {"model": Path("x")},
    ],
)
def test_what_a_running_server_cannot_follow_is_refused_and_named(runs, monkeypatch, given):
    asked = []
    monkeypatch.setattr(cli.foreign, "find", lambda *_: asked.append(1))

    (name,) = given
    with pytest.raises(
        UserError, match=f"--{name.replace('_', '-')} is for servers that the verifier starts"
    ):
        cli.routes(**TARGET, **given)

    assert asked == []


@pytest.mark.parametrize(
    "given", [{"touch_host": "127.0.0.1"}, {"all_routes": True}, {"api_key_file": Path("x")}]
)
def test_what_belongs_to_a_running_server_is_refused_without_one(runs, given):
    made = runs()

    with pytest.raises(UserError, match="belongs to --target"):
        cli.routes(**given)

    assert made.asked == []


@pytest.mark.parametrize("route", [["/tokenize"], ["GET /health", "POST /completion"], ["/slots"]])
def test_a_named_route_that_would_disturb_a_running_server_is_refused_not_left_out(monkeypatch, route):
    monkeypatch.setattr(cli.foreign, "find", lambda *_: pytest.fail("it was asked"))

    with pytest.raises(UserError, match="--all-routes"):
        cli.routes(**TARGET, route=route)


def test_standard_output_takes_the_junit_of_one_build_only(runs):
    made = runs()

    with pytest.raises(UserError, match="2 builds make 2 documents"):
        cli.routes(version=["2026.9.11063", "2026.10.11549"], junit="-")

    assert made.asked == []


def test_chosen_routes_and_states_reach_the_survey(runs, monkeypatch):
    seen = {}
    made = runs([trial()])

    def run(method, survey, *rest, **more):
        seen["survey"] = survey
        return made(method, survey, *rest, **more)

    monkeypatch.setattr(cli, "run", run)
    cli.routes(route=["GET /props"], state=["waking", "asleep"], sample=3)

    assert [route.name for route in seen["survey"].routes] == ["GET /props"]
    assert seen["survey"].states == ("asleep", "waking")
    assert seen["survey"].sample == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"route": ["/nowhere\x1b"]}, "no such route"),
        ({"state": ["dreaming\x1b"]}, "no such state"),
        ({"target": "http://127.0.0.1:1"}, "did not start that server"),
        ({"target": "http://127.0.0.1:1", "touch_host": "elsewhere"}, "another host"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(runs, options, words):
    made = runs()

    with pytest.raises(UserError, match=words) as caught:
        cli.routes(**options)

    assert str(caught.value).isprintable()
    assert made.asked == []


def test_subjects_are_one_for_each_that_is_named():
    shared = Wanted(fix="count-requests", asan=True)

    made = cli.wanted(["1"], [Path("x")], [11368], shared)

    assert [(each.version, each.server_bin, each.build) for each in made] == [
        ("1", None, None),
        (None, Path("x"), None),
        (None, None, 11368),
    ]
    assert [(each.fix, each.asan) for each in made] == [
        (None, False),
        (None, False),
        ("count-requests", True),
    ]


def test_without_a_subject_the_newest_wheel_at_hand_is_asked():
    assert cli.wanted(None, None, None, Wanted()) == [Wanted()]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], EXIT_SOUND),
        ([0, 0], EXIT_SOUND),
        ([0, EXIT_INCONCLUSIVE], EXIT_INCONCLUSIVE),
        ([EXIT_INCONCLUSIVE, EXIT_DEFECT, 0], EXIT_DEFECT),
        ([EXIT_DEFECT, EXIT_INTERRUPTED], EXIT_INTERRUPTED),
        ([EXIT_UNUSABLE, EXIT_INCONCLUSIVE, 0], EXIT_UNUSABLE),
        ([EXIT_UNUSABLE, EXIT_DEFECT], EXIT_DEFECT),
    ],
)
def test_the_worst_status_wins(statuses, status):
    assert cli.worst(statuses) == status


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfe", b"two\nlines"])
def test_a_file_without_a_key_is_named(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)

    with pytest.raises(UserError, match="no API key"):
        cli._api_key(path)


def test_a_key_is_read_without_its_line_end(tmp_path):
    path = tmp_path / "key"
    path.write_text("letmein\n")

    assert cli._api_key(path) == "letmein"
    assert cli._api_key(None) is None


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ([{"promise": "kept"}, {"promise": "none"}], EXIT_SOUND),
        ([{"promise": "kept"}, {"promise": "broken"}], EXIT_DEFECT),
        # the server went away in the middle: it may have died of the very call that was asked
        ([{"promise": "kept"}, {"outcome": "inconclusive", "reached": False}], EXIT_INCONCLUSIVE),
        ([{"promise": "none"}], EXIT_INCONCLUSIVE),
        ([], EXIT_INCONCLUSIVE),
    ],
)
def test_a_running_server_is_only_good_where_it_was_seen_to_be(seen, status):
    assert cli.foreign_status([trial(**each) for each in seen]) == status


def test_an_interrupted_look_at_a_running_server_keeps_what_it_saw(monkeypatch, tmp_path):
    # GIVEN Ctrl-C after the first answer
    def survey(*_):
        yield trial(promise="kept", wakes=False)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.foreign, "find", lambda *_: cli.foreign.Found(11549, "b11549", True))
    monkeypatch.setattr(cli.foreign, "survey", survey)
    # WHEN
    status = cli.routes(target="http://127.0.0.1:1", touch_host="127.0.0.1", json=str(tmp_path / "m.json"))
    # THEN
    assert status == EXIT_INTERRUPTED
    (built,) = read(tmp_path / "m.json").builds
    assert built.interrupted
    assert len(built.rows) == 1


@pytest.mark.parametrize(
    ("seen", "build", "words"),
    [
        ([{"promise": "kept"}, {"promise": "none"}], 11549, "1 of 1 promises that were seen were kept"),
        ([{"promise": "kept"}, {"promise": "broken"}], 11549, "a promise was broken: GET /props asleep"),
        (
            [{"promise": "kept"}, {"outcome": "inconclusive", "reached": False}],
            11549,
            "no answer to GET /props",
        ),
        ([{"promise": "none"}], 11549, "nothing that this build promises was seen"),
        ([{"promise": "none"}], None, "which build this is"),
        ([], None, "which build this is"),
    ],
)
def test_the_last_line_says_what_the_status_means(monkeypatch, capsys, seen, build, words):
    monkeypatch.setattr(cli.foreign, "find", lambda *_: cli.foreign.Found(build, "b", True))
    monkeypatch.setattr(cli.foreign, "survey", lambda *_: iter([trial(**each) for each in seen]))

    status = cli.routes(**TARGET)

    last = capsys.readouterr().out.splitlines()[-1]
    assert words in last
    assert (status == EXIT_INCONCLUSIVE) == last.startswith("inconclusive")
