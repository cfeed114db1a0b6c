"""Functions of an ELF file, and the copy of it without debug information."""

import shutil
import struct
import subprocess

import pytest

from analyzers.core.buildid import build_id_of_file
from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed import places
from collector.lab.verify.directed.symbols import read_binary, slim_copy

SOURCE = """
namespace server_queue { int wait_until_no_sleep(int n) { return n + 1; } int post(int n) { return n; } }
int other(int n) { return server_queue::wait_until_no_sleep(n); }
"""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elf")
    source, made = folder / "x.cpp", folder / "x.so"
    source.write_text(SOURCE)
    options = ["-g", "-shared", "-fPIC", "-Wl,--build-id", "-x", "c++"]
    subprocess.run(["gcc", *options, str(source), "-o", str(made)], check=True, timeout=60)
    return made


def sections(path):
    data = path.read_bytes()
    offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * at) for at in range(count)]
    names = rows[struct.unpack_from("<H", data, 62)[0]]
    text = data[names[4] : names[4] + names[5]]
    return {text[row[0] :].split(b"\0")[0].decode(): (row[1], row[4], row[5]) for row in rows}


@needs_gcc
def test_functions_are_found_by_the_beginning_of_their_names(library):
    found = read_binary(library, ["_ZN12server_queue", "_Z5other", "_Z7missing"])
    assert found.first_address == 0
    names = {function.name for function in found.functions["_ZN12server_queue"]}
    assert names == {"_ZN12server_queue19wait_until_no_sleepEi", "_ZN12server_queue4postEi"}
    assert set(found.functions) == {"_ZN12server_queue", "_Z5other"}
    assert all(function.address for each in found.functions.values() for function in each)


@needs_gcc
def test_addresses_are_those_of_the_symbol_table(library):
    listed = subprocess.run(
        ["nm", str(library)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    (row,) = (line.split() for line in listed.splitlines() if line.endswith(" _Z5otheri"))
    (function,) = read_binary(library, ["_Z5other"]).functions["_Z5other"]
    assert function.address == int(row[0], 16)


@needs_gcc
def test_a_stripped_library_still_shows_what_it_exports(library, tmp_path):
    bare = tmp_path / "bare.so"
    subprocess.run(["strip", "-o", str(bare), str(library)], check=True, timeout=60)
    assert set(read_binary(bare, ["_Z5other"]).functions) == {"_Z5other"}


@needs_gcc
def test_the_copy_has_no_debug_information_and_everything_else(library, tmp_path):
    # GIVEN a library with debug information
    before = library.read_bytes()
    assert ".debug_info" in sections(library)
    # WHEN the copy is made THEN those sections are empty in name only, and the rest is byte for byte the same
    copy = tmp_path / "0.elf"
    slim_copy(library, copy)
    whole, slim = sections(library), sections(copy)
    assert set(whole) == set(slim)
    for name, (kind, offset, size) in slim.items():
        if name.startswith(".debug"):
            assert kind == 8
        else:
            assert (kind, offset, size) == whole[name]
            assert kind == 8 or copy.read_bytes()[offset : offset + size] == before[offset : offset + size]
    assert build_id_of_file(copy) == build_id_of_file(library)
    assert library.read_bytes() == before
    assert read_binary(copy, ["_Z5other"]).functions == read_binary(library, ["_Z5other"]).functions


def test_other_files_are_no_binaries(tmp_path):
    text = tmp_path / "model.gguf"
    text.write_bytes(b"GGUF" + bytes(200))
    assert read_binary(text, ["_Z"]) is None
    with pytest.raises(UserError):
        read_binary(tmp_path / "missing", ["_Z"])


@needs_gcc
@pytest.mark.parametrize("length", [10, 64, 200, 2000, 9000])
def test_a_cut_file_is_read_as_far_as_it_goes(library, tmp_path, length):
    cut = tmp_path / "cut.so"
    cut.write_bytes(library.read_bytes()[:length])
    found = read_binary(cut, ["_Z5other"])
    assert found is None or not found.functions


MAPS = """\
7f0000000000-7f0000100000 r--p 00000000 08:01 11 /srv/wheels/xllamacpp/xllamacpp.abi3.so
7f0000100000-7f0000200000 r-xp 00100000 08:01 11 /srv/wheels/xllamacpp/xllamacpp.abi3.so
7f1000000000-7f1000100000 r--p 00000000 08:01 12 /srv/bin dir/libllama.so
7f2000000000-7f2000100000 r--p 00000000 08:01 13 /usr/lib/libc.so.6
7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0 [stack]
7ffd00000000-7ffd00100000 rw-p 00000000 00:00 0
"""


def test_the_servers_own_files_are_told_from_the_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(places.Path, "read_text", lambda self, *_: MAPS)
    mapped = places.mapped_files(1)
    assert [str(path) for path in mapped] == [
        "/srv/wheels/xllamacpp/xllamacpp.abi3.so",
        "/srv/bin dir/libllama.so",
        "/usr/lib/libc.so.6",
    ]
    assert mapped[places.Path("/srv/wheels/xllamacpp/xllamacpp.abi3.so")] == 0x7F0000000000
    hosted = ServerSpec(tmp_path, python=places.Path("/srv/wheels/bin/python"))
    assert [path.name for path in places.own_files(mapped, hosted)] == ["xllamacpp.abi3.so"]
    native = ServerSpec(tmp_path, binary=places.Path("/srv/bin dir/llama-server"))
    assert [path.name for path in places.own_files(mapped, native)] == ["libllama.so"]


def test_a_process_that_is_gone_has_no_files():
    assert places.mapped_files(2**22 + 1) == {}
