"""The model file before a wake: anything but the file of the last look forbids it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.contracts.facts import ModelFileFact
from collector.sources.modelfile import compare, look_again, look_at_file, look_at_model, parts


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + b"x" * 96)
    return path


def test_an_untouched_file_is_present(model: Path) -> None:
    seen = look_at_file(str(model))
    assert (seen.state, seen.size) == ("present", 100)
    assert look_again([seen]) == [seen]
    assert look_again([seen], pid=os.getpid()) == [seen]


def test_every_change_has_its_name(model: Path) -> None:
    # GIVEN
    seen = look_at_file(str(model))
    states = {}

    # WHEN
    os.utime(model, (1, 1))
    states["touched"] = look_again([seen])[0].state
    model.write_bytes(b"GGUF" + b"x" * 50)
    states["cut"] = look_again([seen])[0].state
    model.write_bytes(b"GGUF" + b"x" * 500)
    states["grown"] = look_again([seen])[0].state
    model.write_bytes(b"<html>")
    states["another kind"] = look_at_file(str(model)).state
    model.unlink()
    states["gone"] = look_again([seen])[0].state
    model.mkdir()
    states["a folder"] = look_again([seen])[0].state

    # THEN
    assert states == {
        "touched": "replaced",
        "cut": "cut",
        "grown": "replaced",
        "another kind": "replaced",
        "gone": "missing",
        "a folder": "unreadable",
    }


def test_a_bad_state_is_not_excused_by_equal_figures() -> None:
    now = ModelFileFact("a", "unreadable", 1, 1.0)
    assert compare(ModelFileFact("a", "present", 1, 1.0), now).state == "unreadable"


def test_a_relative_path_is_taken_from_the_servers_folder(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    assert look_at_file("a.gguf", pid=os.getpid()).state == "present"
    assert look_at_file("b.gguf", pid=os.getpid()).state == "missing"


def test_a_file_that_the_server_may_not_read_is_unreadable(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a server of another user, by its ids alone
    monkeypatch.setattr(
        "collector.sources.modelfile._ids", lambda _: ({model.stat().st_uid + 1}, {model.stat().st_gid + 1})
    )
    for mode, state in ((0o640, "unreadable"), (0o644, "present")):
        model.chmod(mode)

        # WHEN / THEN
        assert look_at_file(str(model), pid=os.getpid()).state == state


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    # GIVEN the second of three parts missing
    for number in (1, 3):
        (tmp_path / f"m-0000{number}-of-00003.gguf").write_bytes(b"GGUF")

    # WHEN
    states = [fact.state for fact in look_at_model([str(tmp_path / "m-00001-of-00003.gguf")])]

    # THEN
    assert states == ["present", "missing", "present"]


@pytest.mark.parametrize("name", ["m.gguf", "m-00001-of-00000.gguf", "m-00001-of-99999.gguf", "\0"])
def test_odd_names_stand_for_themselves(name: str) -> None:
    assert parts(name) == [name]
    assert look_at_file(f"/nowhere/{name}").state == "missing"
