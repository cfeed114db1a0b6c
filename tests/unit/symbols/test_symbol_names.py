"""Names come from a symbol that covers the address, never from the nearest one."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.model import Core, MappedFile
from analyzers.symbols.names import function_names
from analyzers.symbols.naming import Symbols, named
from analyzers.symbols.places import Places
from elffiles import DYNSYM, ElfBuilder

FUNCTIONS = [("_ZN11llama_vocab4impl8tokenizeEv", 0x1000, 0x100), ("outer", 0x2000, 0x200), ("in", 0x2040, 8)]
BASE = 0x7F00_0000_0000


def test_an_address_is_named_by_the_smallest_function_around_it(tmp_path: Path) -> None:
    file = ElfBuilder(functions=FUNCTIONS).write(tmp_path / "a")
    assert function_names([file], [0x1000, 0x10FF, 0x2044, 0x2100]) == {
        0x1000: FUNCTIONS[0][0],
        0x10FF: FUNCTIONS[0][0],
        0x2044: "in",
        0x2100: "outer",
    }


def test_behind_the_end_of_a_function_there_is_no_name(tmp_path: Path) -> None:
    # GIVEN addresses right behind one function and far behind another: a nearest-name tool names both
    file = ElfBuilder(functions=FUNCTIONS).write(tmp_path / "a")
    assert function_names([file], [0x1100, 0x1FFF, 0x2200]) == {}


def test_a_program_linked_at_an_address_is_read_by_offset(tmp_path: Path) -> None:
    file = ElfBuilder(base=0x400000, functions=[("f", 0x401000, 16)]).write(tmp_path / "a")
    assert function_names([file], [0x1008]) == {0x1008: "f"}


def test_the_fuller_file_comes_first_and_dynamic_symbols_count(tmp_path: Path) -> None:
    full = ElfBuilder(functions=[("full", 0x10, 16)]).write(tmp_path / "full")
    short = ElfBuilder(functions=[("short", 0x10, 16), ("only", 0x40, 8)], table=DYNSYM).write(
        tmp_path / "short"
    )
    assert function_names([full, short], [0x10, 0x40]) == {0x10: "full", 0x40: "only"}


def stack(*frames: Frame) -> StackFact:
    return StackFact(tid=1, crashed=True, rung="notes", frames=frames)


def test_frames_are_named_only_from_a_file_of_the_cores_build(tmp_path: Path) -> None:
    file = ElfBuilder(functions=FUNCTIONS).write(tmp_path / "server")
    mapped = (MappedFile(BASE, BASE + 0x10000, 0, str(file)),)
    frame = Frame(ip=BASE + 0x1010, offset=0x1010, module="server")
    for build_id, name in (
        ("".join(f"{n:02x}" for n in range(1, 21)), "llama_vocab::impl::tokenize"),
        ("aa" * 20, None),
    ):
        core = Core(tmp_path / "core", mapped=mapped, build_ids={str(file): build_id})
        (made,) = named([stack(frame)], Symbols(core, Places(debug=None)))
        assert (made.frames[0].function or "").removesuffix("()") == (name or "")


def test_without_the_cores_build_id_a_file_at_the_same_path_names_nothing(tmp_path: Path) -> None:
    # GIVEN a core that lacks the first page, and a file that may well be another build
    file = ElfBuilder(functions=FUNCTIONS).write(tmp_path / "server")
    core = Core(tmp_path / "core", mapped=(MappedFile(BASE, BASE + 0x10000, 0, str(file)),))
    (made,) = named([stack(Frame(ip=BASE + 0x1010, offset=0x1010))], Symbols(core, Places(debug=None)))
    assert made.frames[0].function is None


def test_a_return_address_behind_a_call_that_never_returns_names_the_caller(tmp_path: Path) -> None:
    file = ElfBuilder(functions=[("calls_abort", 0x100, 16), ("next", 0x110, 16)]).write(tmp_path / "server")
    core = Core(
        tmp_path / "core",
        mapped=(MappedFile(BASE, BASE + 0x10000, 0, str(file)),),
        build_ids={str(file): bytes(range(1, 21)).hex()},
    )
    frames = (
        Frame(ip=BASE + 0x110, offset=0x110, trust="register"),
        Frame(ip=BASE + 0x110, offset=0x110, trust="scanned"),
    )
    (made,) = named([stack(*frames)], Symbols(core, Places(debug=None)))
    assert [frame.function for frame in made.frames] == ["next", "calls_abort"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=12), st.integers(0, 1 << 63))
def test_damaged_symbol_files_raise_nothing(tmp_path_factory, damage, offset) -> None:  # type: ignore[no-untyped-def]
    data = bytearray(ElfBuilder(functions=FUNCTIONS).bytes())
    for at, value in damage:
        data[at % len(data)] = value
    struct.pack_into("<Q", data, 40, struct.unpack_from("<Q", data, 40)[0] if offset % 2 else offset)
    path = tmp_path_factory.mktemp("elf") / "a"
    path.write_bytes(data)
    assert isinstance(function_names([path], [0x1010]), dict)
