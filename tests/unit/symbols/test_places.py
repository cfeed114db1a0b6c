"""Only a file of the very build counts as its symbol file, wherever it stands and whatever it is called."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest

from analyzers.symbols.elffile import alternate_link, debug_link, read_elf
from analyzers.symbols.places import Places, find
from elffiles import BUILD, ElfBuilder

ID, MAPPED = BUILD.hex(), "/opt/srv/llama-server"
SPLIT = Path(".build-id", ID[:2], f"{ID[2:]}.debug")
OTHER = b"\x99" * 20


def linked(name: bytes, crc: int) -> ElfBuilder:
    data = name + b"\0" + b"\0" * (-(len(name) + 1) % 4) + struct.pack("<I", crc)
    return ElfBuilder().section(".gnu_debuglink", data)


@pytest.mark.parametrize(
    "place",
    [f".build-id/{ID[:2]}/{ID[2:]}", f"{ID}/executable", MAPPED[1:], "llama-server", "renamed.bin"],
)
def test_a_handed_folder_is_searched_in_every_common_layout(tmp_path: Path, place: str) -> None:
    file = ElfBuilder().write(tmp_path / place)
    assert find(ID, MAPPED, Places((tmp_path,), debug=None)).program == file


def test_a_file_of_the_right_name_and_another_build_is_refused_and_said(tmp_path: Path) -> None:
    # GIVEN the look-alike: same name, other build
    file = ElfBuilder(build_id=OTHER).write(tmp_path / "llama-server")
    found = find(ID, MAPPED, Places((tmp_path,), debug=None))
    assert found.program is None
    assert found.refused == (f"{file} has build-id {OTHER.hex()}",)


def test_the_cores_own_path_counts_only_while_it_is_that_build(tmp_path: Path) -> None:
    file = ElfBuilder().write(tmp_path / "server")
    assert find(ID, str(file), Places(debug=None)).program == file
    ElfBuilder(build_id=OTHER).write(file)
    assert find(ID, str(file), Places(debug=None)).program is None


def test_a_core_cannot_lead_out_of_a_handed_folder(tmp_path: Path) -> None:
    ElfBuilder().write(tmp_path / "outside")
    folder = tmp_path / "symbols"
    folder.mkdir()
    assert find(ID, "/../outside", Places((folder,), debug=None, local=False)).program is None


@pytest.mark.parametrize("build_id", ["", "..", "ab/../../etc", "A" * 40, "ab" * 100, "abc"])
def test_what_is_no_build_id_is_no_part_of_a_path(tmp_path: Path, build_id: str) -> None:
    assert find(build_id, MAPPED, Places((tmp_path,))).files == ()


def test_split_debug_files_are_found_by_build_id(tmp_path: Path) -> None:
    file = ElfBuilder().write(tmp_path / SPLIT)
    assert find(ID, MAPPED, Places(debug=tmp_path)).debug == file


@pytest.mark.parametrize("place", ["server.dbg", ".debug/server.dbg"])
def test_a_debuglink_is_followed_when_its_crc_is_right(tmp_path: Path, place: str) -> None:
    debug = ElfBuilder(build_id=b"").write(tmp_path / place)
    program = linked(b"server.dbg", zlib.crc32(debug.read_bytes())).write(tmp_path / "server")
    assert find(ID, str(program), Places(debug=None)).debug == debug


@pytest.mark.parametrize("build_id", [b"", OTHER])
def test_a_debuglink_with_a_wrong_crc_or_build_is_refused(tmp_path: Path, build_id: bytes) -> None:
    # GIVEN a file where the link leads that is not the one it means
    debug = ElfBuilder(build_id=build_id).write(tmp_path / "server.dbg")
    crc = zlib.crc32(debug.read_bytes()) ^ (0 if build_id else 1)
    program = linked(b"server.dbg", crc).write(tmp_path / "server")
    found = find(ID, str(program), Places(debug=None))
    assert found.debug is None
    assert len(found.refused) == 1


@pytest.mark.parametrize("name", [b"../server.dbg", b"/etc/passwd", b"..", b""])
def test_a_debuglink_names_a_file_and_no_path(tmp_path: Path, name: bytes) -> None:
    described = read_elf(linked(name, 1).write(tmp_path / "server"))
    assert described is not None
    assert debug_link(described) is None


def test_a_dwz_file_is_found_by_its_build_id(tmp_path: Path) -> None:
    data = b"../../.dwz/server.dwz\0" + OTHER
    ElfBuilder().section(".gnu_debugaltlink", data).write(tmp_path / SPLIT)
    shared = ElfBuilder(build_id=OTHER).write(tmp_path / ".dwz" / "server.dwz")
    assert find(ID, MAPPED, Places(debug=tmp_path)).alternate == shared
    ElfBuilder(build_id=b"\x77" * 20).write(shared)
    assert find(ID, MAPPED, Places(debug=tmp_path)).alternate is None


def test_hostile_files_are_no_symbol_files_and_raise_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "llama-server")
    (tmp_path / "cut").write_bytes(ElfBuilder().bytes()[:90])
    (tmp_path / "loop").symlink_to("loop")
    assert find(ID, MAPPED, Places((tmp_path,), debug=None, local=False)).files == ()


def test_every_cut_of_a_file_is_read_without_an_error(tmp_path: Path) -> None:
    whole = linked(b"a.dbg", 7).section(".gnu_debugaltlink", b"x\0" + OTHER).bytes()
    for length in range(0, len(whole), 13):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        described = read_elf(path)
        assert described is None or (debug_link(described), alternate_link(described)) is not None
