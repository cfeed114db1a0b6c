"""The reproducer as files: new ones only, for what was shown, standing on the standard library alone."""

from __future__ import annotations

import ast
import errno
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trial_builder import a_run, finding

from analyzers.contracts.trials import Subject
from analyzers.errors import UserError
from collector.lab.verify import reproduce, reproducer
from collector.lab.verify.reproducer import SOURCE, demand_new, script_for, write_reproducer


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cached.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    monkeypatch.setattr(reproducer, "cached_model", lambda: path)
    return path


def constants(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def test_script_and_model_are_written_for_the_defects_that_were_shown(tmp_path: Path, model: Path) -> None:
    # GIVEN a run that found D3 and not D2
    run = a_run(finding("D3"), finding("D2", "sound"), finding("D1", "inconclusive"))
    # WHEN written into a folder that is not there yet
    script, gguf = write_reproducer(run, tmp_path / "new" / "folder")
    # THEN
    known = constants(script.read_text())
    assert known["DEFECTS"] == ("D3",)
    assert known["FOUND_ON"] == "b12345 (llama-server), pinned, 2026-12-02"
    assert gguf.name == known["MODEL"]
    assert gguf.read_bytes() == model.read_bytes()


@pytest.mark.parametrize("conclusion", ["sound", "inconclusive"])
def test_nothing_shown_is_nothing_to_reproduce(tmp_path: Path, conclusion: str) -> None:
    with pytest.raises(UserError, match="nothing to reproduce"):
        write_reproducer(a_run(finding("D2", conclusion), finding("D5")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["reproduce.py", "model.gguf"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_what_is_there_is_never_overwritten(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    other = tmp_path / "other"
    if kind != "dangling":
        other.write_text("mine")
    if kind == "file":
        (folder / name).write_text("mine")
    else:
        (folder / name).symlink_to(other)
    with pytest.raises(UserError, match="something already"):
        demand_new(folder)
    with pytest.raises(UserError, match="something already"):
        write_reproducer(a_run(finding("D2")), folder)
    assert kind == "dangling" or (folder / name).read_text() == "mine"
    assert kind != "dangling" or not other.exists()


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="not a folder"):
        demand_new(tmp_path / "file")
    with pytest.raises(UserError):
        write_reproducer(a_run(finding("D2")), tmp_path / "file")


def test_a_full_disk_leaves_no_half_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(reproducer.shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="no space left"):
        write_reproducer(a_run(finding("D2")), tmp_path / "new")
    assert not (tmp_path / "new" / "model.gguf").exists()


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=80))
def test_a_hostile_name_stays_a_text_in_the_script(name: str) -> None:
    text = script_for(["D2"], name)
    shown = constants(text)["FOUND_ON"]
    assert isinstance(shown, str)
    assert shown.isprintable()
    assert text.count("\n") == SOURCE.read_text().count("\n")


def test_a_name_that_breaks_out_of_quotes_does_not(tmp_path: Path) -> None:
    subject = Subject(kind="native", name='"\nimport os  # \\')
    script, _ = write_reproducer(a_run(finding("D2"), subject=subject), tmp_path / "new")
    assert "\nimport os  #" not in script.read_text()


def test_the_script_imports_the_standard_library_alone() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_script_names_its_licence_and_no_machine() -> None:
    text = SOURCE.read_text()
    assert "SPDX-License-Identifier: Apache-2.0" in text[:200]
    assert str(Path.home()) not in text


GAUGES = b"llamacpp:requests_processing %d\nllamacpp:requests_deferred 0\n"
RIGHT = reproduce.Answer(200, b'[{"content":"{"}]', 10.0, 10.3)


class Pretended:
    """A server that lives. ``obeys``: it sleeps at a poke after its limit; ``released``: what a wake ends."""

    idle = 2

    def __init__(self, slept: tuple[float, ...] = (), obeys: bool = True, awake: bytes = RIGHT.body) -> None:
        self.slept = list(slept)
        self.obeys = obeys
        self.awake = awake
        self.pokes = 0
        self.released: list[reproduce.Answer] = []
        self.waiting: list[reproduce.Answer] = []

    def lives(self) -> bool:
        return True

    def is_asleep(self) -> bool:
        return True

    def sleeps(self) -> list[float]:
        return self.slept

    def died(self, _: float) -> None:
        return None

    def ask(self, request: tuple[str, str, object]) -> reproduce.Answer:
        if request[1] == "/slots":
            self.waiting += self.released
        self.pokes += request == reproduce.POKE
        if self.pokes == 2 and self.obeys:  # the first comes before the limit
            self.slept.append(99.0)
        return reproduce.Answer(200, self.awake, 0.0, 0.25)


def sent(monkeypatch, answers, poke=None, early=False):
    """What ``_pinned`` gave; nothing is waited for."""
    made = reproduce.Sent(answers, [poke] if poke else [], early)
    monkeypatch.setattr(reproduce, "_pinned", lambda *_: made)
    monkeypatch.setattr(reproduce, "_until", lambda condition, _: condition())
    monkeypatch.setattr(reproduce.time, "sleep", lambda _: None)


def poked(processing: int = 0, at: float = 10.02, status: int = 200) -> reproduce.Answer:
    return reproduce.Answer(status, GAUGES % processing, at, at + 0.002)


@pytest.mark.parametrize(
    ("late", "verdict"),
    [([200], reproduce.SEEN), ([None], reproduce.NOT_TRIED), ([], reproduce.NOT_TRIED)],
)
def test_only_a_hang_that_waking_ends_is_seen_as_the_strand(monkeypatch, late, verdict) -> None:
    # GIVEN a request without an answer on a server that sleeps
    server = Pretended()
    server.released = [reproduce.Answer(status, b"", 0.0, 1.0) for status in late]
    sent(monkeypatch, server.waiting)
    # WHEN it is woken THEN what becomes of the request decides
    assert reproduce.strand(server, 0).verdict == verdict


@pytest.mark.parametrize("way", [reproduce.strand, reproduce.read_unloaded])
def test_a_server_that_stays_awake_for_the_request_and_only_for_it_is_sound(monkeypatch, way) -> None:
    # GIVEN a loop that looked at its idle limit under the request, did not sleep, and sleeps when idle
    sent(monkeypatch, [RIGHT], poked())
    # WHEN THEN
    said = way(Pretended(), 0)
    assert (said.verdict, "stayed awake for it" in said.text) == (reproduce.NOT_SEEN, True)


@pytest.mark.parametrize("way", [reproduce.strand, reproduce.read_unloaded])
@pytest.mark.parametrize(
    ("server", "poke", "early"),
    [
        ({"obeys": False}, {}, False),  # as before b10519: a poke moves no sleep, so its absence says nothing
        ({}, {"processing": 1}, False),  # the request's task kept it awake
        ({}, {"at": 10.28}, False),  # the loop looked when the request was as good as over
        ({}, {"status": 501}, False),
        ({}, {}, True),
        ({"awake": b'[{"content":"x"}]'}, {}, False),  # no sleep, and yet another answer
    ],
)
def test_what_does_not_show_that_the_server_stayed_awake_stays_open(
    monkeypatch, way, server, poke, early
) -> None:
    sent(monkeypatch, [RIGHT], poked(**poke), early)
    assert way(Pretended(**server), 0).verdict == reproduce.NOT_TRIED


@pytest.mark.parametrize("way", [reproduce.strand, reproduce.read_unloaded])
def test_a_right_answer_around_a_sleep_is_sound_as_well(monkeypatch, way) -> None:
    sent(monkeypatch, [RIGHT], poked())
    said = way(Pretended(slept=(10.03,)), 0)
    assert (said.verdict, "a sleep during the request" in said.text) == (reproduce.NOT_SEEN, True)


@pytest.mark.parametrize(("way", "verdict"), [(reproduce.strand, 125), (reproduce.read_unloaded, 1)])
def test_a_wrong_answer_around_a_sleep_is_the_reader_s_defect_and_not_the_strand(
    monkeypatch, way, verdict
) -> None:
    sent(monkeypatch, [RIGHT], poked())
    assert way(Pretended(slept=(10.03,), awake=b'[{"content":"x"}]'), 0).verdict == verdict


def test_a_sleep_whose_line_came_late_is_not_taken_for_a_server_that_stayed_awake(monkeypatch) -> None:
    # GIVEN a sleep line 110 ms after the look at the idle limit, the request still under way
    sent(monkeypatch, [RIGHT], poked())
    # WHEN the answer is wrong THEN it is the defect; WHEN it is right THEN nobody says it stayed awake
    late = Pretended(slept=(10.13,), awake=b'[{"content":"x"}]')
    assert reproduce.read_unloaded(late, 0).verdict == reproduce.SEEN
    assert "stayed awake" not in reproduce.strand(Pretended(slept=(10.13,)), 0).text


def test_a_tokeniser_that_hangs_on_a_sleeping_server_is_not_called_sound(monkeypatch) -> None:
    # GIVEN /tokenize, which queues no task, without an answer
    sent(monkeypatch, [])
    assert reproduce.read_unloaded(Pretended(), 0).verdict == reproduce.NOT_TRIED


@pytest.mark.parametrize(
    ("verdicts", "decided"),
    [
        ([0] * 12, 0),
        ([0] * 7 + [125] * 5, 0),
        ([0] + [125] * 11, 125),
        ([125, 0] * 6, 125),
        ([125, 125, 0, 1], 1),
        ([125] * 6, 125),
    ],
)
def test_most_tries_must_have_said_something_before_a_server_is_called_sound(
    monkeypatch, capsys, verdicts, decided
) -> None:
    class Up(Pretended):
        def __init__(self, *_: object) -> None:
            super().__init__()

        def __enter__(self) -> Up:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def comes_up(self) -> bool:
            return True

        def last_lines(self) -> str:
            return ""

    monkeypatch.setattr(reproduce, "Server", Up)
    way = (lambda _, number: reproduce.Try(verdicts[number], "said"), 2, False, len(verdicts))
    monkeypatch.setitem(reproduce.WAYS, "D3", way)
    assert reproduce._decide("D3", None) == decided
    assert capsys.readouterr().out.count("said") == len(verdicts)


@pytest.mark.parametrize(
    ("line", "crashed"),
    [
        ("0.01 I que    start_loop: exiting sleeping state", True),
        ("failed to reload model after sleeping", False),
        ("==7==ERROR: AddressSanitizer: out of memory: failed to allocate 0x10 bytes", False),
        ("==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", True),
    ],
)
def test_an_abort_for_want_of_memory_or_of_the_model_is_no_crash_of_a_reader(line, crashed) -> None:
    server = object.__new__(reproduce.Server)
    server.process = SimpleNamespace(poll=lambda: -6)
    server.lines = [(0.0, line)]
    assert server.crashed() is crashed


def test_answers_are_compared_by_what_they_say() -> None:
    def told(body: bytes) -> object:
        return reproduce.Answer(200, body, 0.0, 1.0).told()

    assert told(b'{"tokens":[1],"id":1}') == told(b'{"tokens":[1],"id":2}')
    assert told(b'[{"content":"a"},{"content":"b"}]') != told(b'[{"content":"a"},{"content":"c"}]')
    assert told(b"not json") != told(b"other")


def test_the_script_is_short_enough_to_be_read() -> None:
    assert len(SOURCE.read_text().splitlines()) <= 400


def test_the_settings_of_the_shell_do_not_become_the_server_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a shell from which servers are run with variables, and a program that tells its own
    monkeypatch.setenv("LLAMA_ARG_SLEEP_IDLE_SECONDS", "-1")
    monkeypatch.setenv("KEPT", "yes")
    teller = tmp_path / "llama-server"
    teller.write_text("#!/bin/sh\nenv\n")
    teller.chmod(0o700)
    program = reproduce.Program(teller, None, tmp_path / "m.gguf", tmp_path)
    # WHEN it is started
    with reproduce.Server(program, 1, True) as server:
        assert server.process.wait(30) == 0
        assert reproduce._until(lambda: any(text == "KEPT=yes" for _, text in server.lines), 30)
        told = [text for _, text in server.lines]
    # THEN
    assert not [text for text in told if text.startswith("LLAMA_")]
    assert "MALLOC_PERTURB_=165" in told
