"""The cache takes in and gives out only the build that a folder is named after, and stays within bounds."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from analyzers.errors import UserError
from analyzers.symbols import cache as caching
from analyzers.symbols.cache import DEBUG, PROGRAM, STRIPPED, Cache, WrongBuildError
from analyzers.symbols.elffile import read_elf
from analyzers.symbols.names import function_names
from analyzers.symbols.strip import stripped_copy
from elffiles import BUILD, ElfBuilder

ID, OTHER = BUILD.hex(), "99" * 20


def put(cache: Cache, build_id: str = ID, data: bytes | None = None) -> Path:
    return cache.put(build_id, PROGRAM, lambda out: void(out.write(data or ElfBuilder().bytes())))


def void(_: object) -> None:
    return None


def test_what_was_put_in_is_given_out_and_private(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "symbols")
    path = put(cache)
    assert cache.get(ID, PROGRAM) == path
    assert cache.get(ID, DEBUG) is None
    assert stat.S_IMODE((tmp_path / "symbols").stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [PROGRAM]


def test_another_build_is_not_stored_and_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with pytest.raises(WrongBuildError, match="not the one wanted"):
        put(cache, OTHER)
    assert cache.get(OTHER, PROGRAM) is None
    assert os.listdir(tmp_path / OTHER) == []


def test_a_cut_file_is_not_stored(tmp_path: Path) -> None:
    # GIVEN a file whose build-id survived the cut
    cut = ElfBuilder().section(".text", b"\x90" * 4096).bytes()[:2048]
    with pytest.raises(WrongBuildError, match="is cut"):
        put(Cache(tmp_path), data=cut)
    assert Cache(tmp_path).get(ID, PROGRAM) is None


def test_a_file_that_was_replaced_in_the_cache_is_not_given_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = put(cache)
    path.write_bytes(ElfBuilder(build_id=b"\x99" * 20).bytes())
    assert cache.get(ID, PROGRAM) is None
    path.unlink()
    path.symlink_to(ElfBuilder().write(tmp_path / "elsewhere"))
    assert cache.get(ID, PROGRAM) is None


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / ID).symlink_to(target)
    with pytest.raises(UserError, match="cannot be written"):
        put(Cache(root))
    assert os.listdir(target) == []


@pytest.mark.parametrize("build_id", ["../../x", "", "zz" * 20])
def test_a_name_that_is_no_build_id_makes_no_folder(tmp_path: Path, build_id: str) -> None:
    with pytest.raises(UserError, match="not a build-id"):
        put(Cache(tmp_path), build_id)
    assert os.listdir(tmp_path) == []


def test_the_oldest_builds_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    old = put(cache, "aa" * 20, ElfBuilder(build_id=b"\xaa" * 20).bytes())
    os.utime(old.parent, (1, 1))
    monkeypatch.setattr(caching, "MAX_BYTES", 1)
    newest = put(cache)
    assert not old.exists()
    assert newest.exists()


def test_what_is_missing_is_remembered_for_a_day_and_by_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.note_missing(ID, DEBUG, "https://one")
    assert cache.known_missing(ID, DEBUG, "https://one")
    assert not cache.known_missing(ID, DEBUG, "https://two")
    assert not cache.known_missing(ID, PROGRAM, "https://one")
    monkeypatch.setattr(caching, "MISSING_SECONDS", 0)
    assert not cache.known_missing(ID, DEBUG, "https://one")


@pytest.mark.parametrize("text", ["", "[1]", '{"debuginfo https://one": "x"}', "x" * 5000])
def test_a_damaged_note_of_what_is_missing_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ID).mkdir()
    (tmp_path / ID / "missing").write_text(text)
    assert not Cache(tmp_path).known_missing(ID, DEBUG, "https://one")


def test_the_stripped_copy_keeps_names_and_loses_debug_information(tmp_path: Path) -> None:
    # GIVEN a program with 3 MB of debug information
    made = ElfBuilder(functions=[("f", 16, 16)]).section(".debug_info", b"\x5c" * (3 << 20))
    source, cache = made.section(".text", b"\x90" * 64).write(tmp_path / "server"), Cache(tmp_path / "cache")
    before = source.read_bytes()
    copy = stripped_copy(source, cache)
    # THEN the copy is that build, names its functions, holds no debug bytes and little disk
    assert copy is not None
    assert copy == cache.get(ID, STRIPPED)
    described = read_elf(copy)
    assert described is not None
    assert [row.name for row in described.sections if row.name.startswith(".debug") and row.type] == []
    assert function_names([copy], [16]) == {16: "f"}
    assert copy.stat().st_blocks * 512 < 1 << 20
    assert b"\x5c" * 64 not in copy.read_bytes()
    assert source.read_bytes() == before
    assert stripped_copy(source, cache) == copy


def test_what_is_no_program_has_no_copy(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert stripped_copy(tmp_path / "text", Cache(tmp_path / "cache")) is None
    assert (
        stripped_copy(ElfBuilder(build_id=b"").write(tmp_path / "anonymous"), Cache(tmp_path / "c")) is None
    )
