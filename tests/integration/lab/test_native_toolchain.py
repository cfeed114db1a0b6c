"""Native builds with the real cmake and compiler: two files in the gate, llama.cpp itself in full."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from analyzers.errors import UserError
from collector.lab.native import compile as compiling
from collector.lab.native.build import Recipe, find_build, prepare_build
from collector.lab.reference import ServerSpec, cached_model
from collector.lab.reference.conditions import asleep
from collector.lab.verify.identity import identify_native

pytestmark = pytest.mark.real

CMAKELISTS = """
cmake_minimum_required(VERSION 3.14)
project("llama.cpp" C CXX)
add_executable(llama-server tools/server/main.cpp tools/server/other.cpp)
target_compile_definitions(llama-server PRIVATE NUMBER=${LLAMA_BUILD_NUMBER})
if (LLAMA_SANITIZE_ADDRESS)
    add_compile_options(-fsanitize=address)
    target_compile_options(llama-server PRIVATE -fsanitize=address)
    target_link_options(llama-server PRIVATE -fsanitize=address)
endif()
set_target_properties(llama-server PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
"""
MAIN = """
#include <cstdio>
int other();
int main() {
    printf("version: %d (x)\\n", NUMBER);
    return BAD;
}
"""
# 48 MB of object code from one line of source.
HUGE = "unsigned char big[50331648] = {1}; int other() { return 0; }\n"
TMPFS_BYTES = 24 << 20


@pytest.fixture
def project(tmp_path, monkeypatch):
    missing = [tool for tool in ("cmake", "c++", "ninja") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; run deploy/setup.sh native")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = tmp_path / "mini" / "tools" / "server"
    server.mkdir(parents=True)
    (tmp_path / "mini" / "CMakeLists.txt").write_text(CMAKELISTS)
    (server / "main.cpp").write_text(MAIN.replace("BAD", "0"))
    (server / "other.cpp").write_text("int other() { return 0; }\n")
    return tmp_path / "mini"


def compiled(made) -> list[str]:
    """The sources that the last build compiled."""
    log = (made.binary.parent / "build.log").read_text()
    return re.findall(r"Building CXX object \S*/(\w+)\.cpp\.o", log)


def test_a_tree_is_compiled_runs_and_says_its_number(project) -> None:
    made = prepare_build(Recipe(12345, source=project))
    said = subprocess.run([made.binary, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == "version: 12345 (x)\n"
    assert sorted(compiled(made)) == ["main", "other"]
    assert re.search(r"\d+\.\d+", made.record["compiler"])
    assert made.record["cmake"].startswith("cmake version 3")


def test_after_a_change_only_what_changed_is_compiled(project) -> None:
    prepare_build(Recipe(1, source=project))
    other = project / "tools" / "server" / "other.cpp"
    other.write_text(other.read_text() + "// changed\n")
    assert compiled(prepare_build(Recipe(1, source=project))) == ["other"]


def test_the_asan_variant_is_another_tree_and_is_instrumented(project) -> None:
    plain = prepare_build(Recipe(1, source=project))
    asan = prepare_build(Recipe(1, asan=True, source=project))
    assert plain.binary != asan.binary
    assert b"__asan_init" in asan.binary.read_bytes()
    assert b"__asan_init" not in plain.binary.read_bytes()


def test_a_source_that_does_not_compile_is_told_by_its_first_error(project) -> None:
    (project / "tools" / "server" / "main.cpp").write_text(MAIN)
    with pytest.raises(UserError, match=r"failed: tools/server/main\.cpp:\S+ error: .BAD. was not declared"):
        prepare_build(Recipe(1, source=project))
    assert find_build(Recipe(1, source=project)) is None


def test_a_disk_that_fills_up_while_compiling_is_named(project, tmp_path, monkeypatch) -> None:
    """GIVEN a cache on 24 MB WHEN the compiler writes 48 THEN the disk is named, not the source."""
    disk = tmp_path / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        (project / "tools" / "server" / "other.cpp").write_text(HUGE)
        with pytest.raises(UserError, match="a build needs about"):
            prepare_build(Recipe(1, source=project))
        monkeypatch.setattr(compiling, "DISK_NEEDED", 0)
        with pytest.raises(UserError, match="the disk is full"):
            prepare_build(Recipe(1, source=project))
        assert find_build(Recipe(1, source=project)) is None
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.full
def test_a_published_build_is_made_from_nothing_patched_and_run(tmp_path, lab, monkeypatch) -> None:
    """GIVEN an empty cache WHEN build 11138 and its fix are asked for THEN both run, sleep and wake."""
    model = cached_model()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for fix, mark in ((None, "affected"), ("read-after-barrier", "fixed")):
        made = prepare_build(Recipe(11138, fix))
        subject = identify_native(made.binary)
        assert (subject.build, subject.marks["D1"]) == (11138, mark)
        server = lab.start(ServerSpec(model, binary=made.binary, idle_seconds=1))
        assert server.wait_until(asleep, 20)
        assert server.post("/completion", {"prompt": "hello", "n_predict": 1}).status == 200
