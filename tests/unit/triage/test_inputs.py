"""Inputs are listed once, told apart, hashed each for itself, and known when they change meanwhile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from analyzers.contracts.report import InputFile
from analyzers.errors import UserError
from analyzers.triage.inputs import MAX_HASHED, demand_program, lost, sources, with_hashes


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def listed(found):
    return [InputFile(name=source.name, kind="server-log", size=source.size or 0) for source in found]


def test_one_file_by_five_paths_is_one_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a" / "log", "x")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    monkeypatch.chdir(tmp_path)
    ways = [Path("a/log"), path, Path("a/../a/log"), tmp_path / "link", tmp_path / "hard"]
    other = put(tmp_path / "b", "y")
    assert [source.path for source in sources([ways[0], other, *ways[1:]])] == [ways[0], other]


def test_equal_names_are_told_apart_by_as_little_as_needed(tmp_path: Path) -> None:
    paths = [put(tmp_path / name, name) for name in ("a/log", "b/log", "c/other", "x/a/core", "y/a/core")]
    names = [source.name for source in sources(paths)]
    assert names[:3] == ["a/log", "b/log", "other"]
    assert len(set(names)) == len(names)
    assert all(name.endswith("a/core") for name in names[3:])


def test_each_input_gets_its_own_hash(tmp_path: Path) -> None:
    found = sources([put(tmp_path / "a" / "log", "one"), put(tmp_path / "b" / "log", "two")])
    hashed, gaps = with_hashes(listed(found), found)
    assert [item.sha256 for item in hashed] == [hashlib.sha256(t).hexdigest() for t in (b"one", b"two")]
    assert gaps == []


def test_what_changed_or_went_away_is_a_gap(tmp_path: Path) -> None:
    paths = [put(tmp_path / name, name) for name in ("same", "grown", "gone")]
    found = sources(paths)
    paths[1].write_text("grown, and then some")
    paths[2].unlink()
    hashed, gaps = with_hashes(listed(found), found)
    assert hashed[2].sha256 is None
    assert [gap.what for gap in gaps] == [
        f"agreement of {name} with this report" for name in ("grown", "gone")
    ]
    assert "changed" in gaps[0].why
    assert "is gone" in gaps[1].why


def test_a_missing_input_is_still_listed_for_its_refusal(tmp_path: Path) -> None:
    (found,) = sources([tmp_path / "nothing"])
    assert (found.size, found.changed_ns) == (None, None)
    refusal = lost(found, FileNotFoundError(2, "No such file or directory"))
    assert "no such file" in str(refusal)
    assert str(tmp_path / "nothing") in str(refusal)


def test_a_name_of_control_characters_is_shown_harmless(tmp_path: Path) -> None:
    (found,) = sources([put(tmp_path / "a\x1b[31m\nb\udcff", "x")])
    assert found.name == "a?[31m?b?"


def test_a_folder_counts_what_is_in_it(tmp_path: Path) -> None:
    put(tmp_path / "b" / "one", "12345")
    put(tmp_path / "b" / "sub" / "two", "67")
    (tmp_path / "b" / "loop").symlink_to(tmp_path / "b")
    (found,) = sources([tmp_path / "b"])
    assert found.size == 7


@pytest.mark.parametrize(
    ("content", "told"),
    [("#!/bin/sh\nexec llama-server\n", "not a script"), ("", "no ELF"), (None, "no such file")],
)
def test_an_executable_that_is_none_is_refused(tmp_path: Path, content: str | None, told: str) -> None:
    exe = tmp_path / "exe" if content is None else put(tmp_path / "exe", content)
    with pytest.raises(UserError, match=told) as caught:
        demand_program(exe)
    assert str(exe) in str(caught.value)


def test_a_program_passes() -> None:
    demand_program(Path("/proc/self/exe"))


def test_a_file_that_claims_more_than_any_core_has_is_not_hashed(tmp_path: Path) -> None:
    # GIVEN a hole of more than the bound
    path = tmp_path / "core"
    path.touch()
    os.truncate(path, MAX_HASHED + 1)
    given = sources([path])
    # WHEN hashes are asked for THEN there is none at once, and a gap with the command
    hashed, gaps = with_hashes([InputFile(name="core", kind="core", size=MAX_HASHED + 1)], given)
    assert hashed[0].sha256 is None
    assert [(gap.what, gap.command) for gap in gaps] == [("the hash of core", "sha256sum core")]
