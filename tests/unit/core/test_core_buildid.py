"""Build-ids, the comparison of core and file, and which mapped file is the server; marks in binaries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.catalogue.loader import load_defects
from analyzers.catalogue.model import Sign
from analyzers.core import marks as marks_module
from analyzers.core.buildid import (
    Executables,
    Match,
    Mismatch,
    Unknown,
    build_id_of_file,
    compare,
    find_executable,
)
from analyzers.core.marks import find_names
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.errors import UserError
from elfcore import CoreBuilder, R, X, shared_object

ID = bytes(range(20))
BASE = 0x7F00_0000_0000


def core_with(tmp_path: Path, mapped: str, page: bytes, auxv: dict[int, int] | None = None) -> Core:
    builder = CoreBuilder(auxv=auxv or {}).thread(1)
    builder.load(BASE, page[:4096], R, 4096).load(BASE + 4096, b"", R | X, 4096)
    builder.file(BASE, BASE + 4096, 0, mapped).file(BASE + 4096, BASE + 8192, 1, mapped)
    return read_core(builder.write(tmp_path / "core"))


def test_the_build_id_of_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(ID))
    assert build_id_of_file(path) == ID.hex()


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", shared_object(b""), shared_object(ID)[:100]])
def test_a_file_without_one_has_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert build_id_of_file(path) is None


def test_the_build_id_in_the_core_is_that_of_the_dumped_first_page(tmp_path: Path) -> None:
    core = core_with(tmp_path, "/opt/libllama.so", shared_object(ID))
    assert core.build_ids == {"/opt/libllama.so": ID.hex()}


def test_a_file_whose_first_page_was_not_dumped_has_no_build_id(tmp_path: Path) -> None:
    assert core_with(tmp_path, "/opt/libllama.so", b"").build_ids == {}


def test_core_and_file_match_mismatch_or_cannot_be_compared(tmp_path: Path) -> None:
    # GIVEN a core that mapped one build
    core = core_with(tmp_path, "/opt/libllama.so", shared_object(ID))
    same, other, bare = tmp_path / "same", tmp_path / "other", tmp_path / "bare"
    same.write_bytes(shared_object(ID))
    other.write_bytes(shared_object(b"\xff" * 20))
    bare.write_bytes(shared_object(b""))
    # WHEN files are compared THEN the ids are named
    assert compare(core, same, "/opt/libllama.so") == Match(ID.hex())
    assert compare(core, other, "/opt/libllama.so") == Mismatch(ID.hex(), "ff" * 20)
    assert isinstance(compare(core, bare, "/opt/libllama.so"), Unknown)
    assert isinstance(compare(core, same), Unknown)  # not mapped under this name
    with pytest.raises(UserError, match="no such file"):
        compare(core, tmp_path / "none")


@pytest.mark.parametrize(
    ("paths", "server"),
    [
        (("/usr/bin/python3.11", "/site/xllamacpp/xllamacpp.abi3.so", "/lib/libc.so.6"), 1),
        (("/opt/llama-server", "/opt/libllama.so.0", "/lib/libc.so.6"), 0),
        (("/opt/main", "/opt/libllama.so", "/opt/libllama-server-impl.so"), 2),
        (("/opt/wrapper", "/opt/libllama.so"), 1),
        (("/usr/bin/python3.11", "/lib/libc.so.6"), None),
        (("/usr/bin/python3.11", "/opt/xllamacpp.abi3.so (deleted)"), 1),  # replaced by an update
        (("/home/llama-server/bin/other",), None),  # a folder's name says nothing
    ],
)
def test_main_program_and_server_are_told_apart(
    tmp_path: Path, paths: tuple[str, ...], server: int | None
) -> None:
    # GIVEN mapped files, the first of which holds the program headers that AT_PHDR points at
    builder = CoreBuilder(auxv={3: 0x10040}).thread(1)
    for index, path in enumerate(paths):
        builder.file(0x10000 * (index + 1), 0x10000 * (index + 1) + 4096, 0, path)
    # WHEN asked THEN main is that file and server the likeliest holder of the server's code
    found = find_executable(read_core(builder.write(tmp_path / "core")))
    assert found == Executables(paths[0], paths[server] if server is not None else None)


def test_without_program_headers_the_name_of_the_executed_file_decides(tmp_path: Path) -> None:
    builder = CoreBuilder(auxv={31: 0x9000}).thread(1).load(0x9000, b"./bin/llama-server\0junk")
    builder.file(0x1000, 0x2000, 0, "/lib/libc.so.6").file(0x3000, 0x4000, 0, "/opt/bin/llama-server")
    assert find_executable(read_core(builder.write(tmp_path / "core"))).main == "/opt/bin/llama-server"


SIGNS = tuple(load_defects().every_sign())
TAKES_VOCAB = "_ZN13server_routes19handle_count_tokensEPK11llama_vocab"
AFFECTED = TAKES_VOCAB + "P12mtmd_contextRK15server_http_req18task_response_type"
NEW_SHAPE = TAKES_VOCAB + "P9something"
SOUND = "_ZN13server_routes19handle_count_tokensERK15server_http_req18task_response_type"


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("malloc", AFFECTED), ("d1-count-tokens-takes-vocab", "d1-takes-vocab-and-mtmd")),
        ((NEW_SHAPE,), ("d1-count-tokens-takes-vocab",)),
        ((SOUND, "free"), ("d1-takes-the-request-only",)),
        ((SOUND + "b",), ()),  # a longer name is another function
        (("x" + AFFECTED,), ()),  # inside another name
        ((AFFECTED[:40],), ()),
        ((), ()),
    ],
)
def test_names_are_found_whole_or_by_their_beginning(
    tmp_path: Path, names: tuple[str, ...], ids: tuple[str, ...]
) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(ID, names))
    assert find_names(path, SIGNS) == ids


def test_a_mark_across_two_windows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "WINDOW", 16)
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(ID, ("a" * 11, "needle_of_sixty", "b")))
    assert len(find_names(path, (Sign("m", "needle_of_s", prefix=True),))) == 1


def test_code_that_contains_the_needle_is_not_a_symbol(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(ID, ("a",), code=b"\0" + AFFECTED.encode() + b"\0"))
    assert find_names(path, SIGNS) == ()


def test_a_pipe_named_as_binary_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        find_names(tmp_path / "pipe", SIGNS)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(at=st.integers(0, 5200), new=st.binary(min_size=1, max_size=8), keep=st.integers(0, 5400))
def test_perturbed_binaries_never_crash(
    tmp_path_factory: pytest.TempPathFactory, at: int, new: bytes, keep: int
) -> None:
    data = bytearray(shared_object(ID, (AFFECTED,), code=bytes(900)))
    data[at : at + len(new)] = new
    path = tmp_path_factory.getbasetemp() / "binary"
    path.write_bytes(bytes(data[:keep]))
    assert build_id_of_file(path) is None or build_id_of_file(path)
    assert len(find_names(path, SIGNS)) <= 2
