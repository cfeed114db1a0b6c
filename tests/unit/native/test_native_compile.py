"""Configuring and compiling: progress, every known failure by its name, and nothing left running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.native import compile as compiling
from collector.lab.native.compile import (
    compile_server,
    default_jobs,
    duration,
    require_disk,
    require_tools,
    where_in_build,
)
from collector.lab.native.failures import BuildFailedError, told
from collector.lab.native.recipe import FLAGS
from collector.lab.native.steps import Step, StepFailedError, clean_environment, run_step
from collector.lab.native.tree import Tree
from collector.lab.reference.environments import quiet

GONE_DEADLINE = 30.0


@pytest.fixture
def tree(tmp_path) -> Tree:
    made = Tree(tmp_path / "tree")
    made.source.mkdir(parents=True)
    (made.source / "CMakeLists.txt").write_text("project()")
    return made


def test_a_build_is_configured_compiled_and_measured(tree, tools) -> None:
    tools()
    made = compile_server(tree, FLAGS, 2, quiet)
    assert os.access(made.binary, os.X_OK)
    assert made.seconds > 0
    assert made.cpu_seconds > 0
    assert (made.cache_hits, made.cache_misses) == (1, 1)
    assert "[2/2] Linking" in tree.log.read_text()


def test_without_a_compiler_cache_there_are_no_figures_of_it(tree, tools, monkeypatch) -> None:
    folder = tools()
    (folder / "ninja").write_text((folder / "ninja").read_text().replace("CCACHE_STATSLOG", "NOTHING"))
    made = compile_server(tree, FLAGS, 2, quiet)
    assert (made.cache_hits, made.cache_misses) == (None, None)


def test_progress_is_said_as_it_goes(tree, tools, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "PROGRESS_SECONDS", 0.0)
    tools()
    said: list[str] = []
    compile_server(tree, FLAGS, 2, said.append)
    assert said[0] == "configuring with cmake"
    assert [each.split(",")[0] for each in said[1:]] == ["compiling: 1 of 2", "compiling: 2 of 2"]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("[37/204] Building CXX object x", "37 of 204"),
        ("[ 18%] Building CXX object x", "18 %"),
        ("[100%] Built target llama-server", "100 %"),
        ("warning: [37/204]", None),
        ("", None),
    ],
)
def test_where_a_build_is_from_ninja_or_make(line: str, where: str | None) -> None:
    assert where_in_build(line) == where


def test_durations_are_for_people() -> None:
    assert [duration(each) for each in (0.4, 59.6, 419.0)] == ["0 s", "1 min 0 s", "6 min 59 s"]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "/tmp/x.s: fatal error: error writing to -: No space left on device\ncompilation terminated.",
            "disk is full",
        ),
        ("c++: fatal error: Killed signal terminated program cc1plus", "compiler was killed"),
        ("cc1plus: out of memory allocating 65536 bytes", "ran out of memory"),
        ("virtual memory exhausted: Cannot allocate memory", "ran out of memory"),
        ("/usr/bin/ld: cannot find libasan_preinit.o: No such file", "AddressSanitizer library"),
        ("a.cpp:3:1: error: 'x' was not declared\nnote: error limit", "'x' was not declared"),
    ],
)
def test_a_failed_compile_is_named_in_one_line(said: str, named: str, tree, tools) -> None:
    """GIVEN a compiler that fails like this WHEN built THEN the error names it and the log has it all."""
    tools(build="printf '%s\\n' \"" + said.replace("\n", '" "') + '"; exit 1')
    with pytest.raises(BuildFailedError) as caught:
        compile_server(tree, FLAGS, 2, quiet)
    assert named in str(caught.value)
    assert str(caught.value).isprintable()
    assert said.split("\n")[0] in tree.log.read_text()


def test_a_disk_that_is_really_full_is_named(tree, tools) -> None:
    """The kernel's own message: /dev/full refuses every byte."""
    tools(build="dd if=/dev/zero of=/dev/full bs=1k count=1 || exit 1")
    with pytest.raises(BuildFailedError, match="disk is full"):
        compile_server(tree, FLAGS, 2, quiet)


def test_a_full_disk_wins_over_the_errors_that_follow_it(tmp_path) -> None:
    lines = ["x.cpp:1: error: unterminated", "as: x.o: No space left on device", "ninja: error: failed"]
    assert "disk is full" in str(told(StepFailedError(1, lines), tmp_path / "log"))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", "no compiler that works"),
        ("  No CMAKE_CXX_COMPILER could be found.", "no compiler that works"),
        ("  CMake 3.99 or higher is required.  You are running version 3.10.0", "cmake is too old"),
        ("CMake Error at CMakeLists.txt:3 (message): odd", "odd"),
    ],
)
def test_a_failed_configure_is_named(said: str, named: str, tree, tools) -> None:
    tools(configure=f"echo '{said}'; exit 1")
    with pytest.raises(BuildFailedError, match=named):
        compile_server(tree, FLAGS, 2, quiet)


def test_a_tool_killed_from_outside_is_no_error_of_the_source(tree, tools) -> None:
    tools(build="kill -9 $$")
    with pytest.raises(BuildFailedError, match="killed from outside"):
        compile_server(tree, FLAGS, 2, quiet)


def test_a_build_without_a_result_is_an_error(tree, tools) -> None:
    tools(build="exit 0")
    with pytest.raises(UserError, match="made no llama-server"):
        compile_server(tree, FLAGS, 2, quiet)


def test_what_a_compiler_prints_cannot_steer_the_terminal(tree, tools) -> None:
    tools(build="printf 'error: \\033[2J\\n'; exit 1")
    with pytest.raises(BuildFailedError) as caught:
        compile_server(tree, FLAGS, 2, quiet)
    assert str(caught.value).isprintable()


def test_each_missing_tool_is_named_with_the_line_that_installs_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError) as caught:
        require_tools(FLAGS)
    line = str(caught.value)
    assert "a C++ compiler and a C compiler and cmake and ninja or make is missing" in line
    assert "apt-get install -y --no-install-recommends g++ cmake ninja-build ccache" in line


def test_only_what_is_missing_is_named(tools, monkeypatch) -> None:
    folder = tools()
    monkeypatch.setenv("PATH", str(folder))
    require_tools(FLAGS)
    (folder / "cmake").unlink()
    with pytest.raises(UserError, match="native build: cmake is missing"):
        require_tools(FLAGS)


def test_a_compiler_named_by_the_user_is_the_one_looked_for(tools, monkeypatch) -> None:
    folder = tools()
    for name in ("c++", "cc"):
        (folder / name).unlink()
    for name in ("my-c++", "my-cc"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    require_tools(("-DCMAKE_CXX_COMPILER=my-c++", "-DCMAKE_C_COMPILER=my-cc"))


@pytest.mark.parametrize(("flag", "variable"), [("C", "CC"), ("CXX", "CXX")])
def test_a_missing_compiler_of_the_user_is_named_though_another_is_there(tools, flag, variable) -> None:
    tools()
    with pytest.raises(UserError, match=f"^{variable}=/nope: no such compiler"):
        require_tools((*FLAGS, f"-DCMAKE_{flag}_COMPILER=/nope"))


def test_a_first_configuration_that_fails_leaves_nothing_of_what_it_did_not_find(tree, tools) -> None:
    # GIVEN cmake that writes its cache and gives up, as with a compiler that does not work
    notes = "mkdir -p build && echo CMAKE_CXX_COMPILER:FILEPATH=NOTFOUND > build/CMakeCache.txt"
    tools(configure=f"{notes}; echo 'is not able to compile a simple test program'; exit 1")
    with pytest.raises(BuildFailedError, match="no compiler that works"):
        compile_server(tree, FLAGS, 2, quiet)
    assert not tree.build.exists()
    # WHEN it is set right THEN the build is made
    tools()
    assert compile_server(tree, FLAGS, 2, quiet).binary.is_file()


def test_a_later_configuration_that_fails_keeps_what_was_compiled(tree, tools) -> None:
    tools()
    compile_server(tree, FLAGS, 2, quiet)
    tools(configure="exit 1")
    with pytest.raises(BuildFailedError):
        compile_server(tree, FLAGS, 2, quiet)
    assert (tree.build / "bin" / "llama-server").is_file()


def test_a_disk_too_small_is_said_before_anything_is_compiled(tmp_path, monkeypatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 << 20))
    with pytest.raises(UserError, match="5 MB are free"):
        require_disk(tmp_path)


def test_little_memory_means_fewer_compilers_at_once(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    for free, jobs in ((100 << 30, 16), (3 << 30, 2), (0.1 * (1 << 30), 1)):
        monkeypatch.setattr(compiling, "_mem_available", lambda free=free: int(free))
        assert default_jobs() == jobs


def test_a_folder_made_for_make_is_not_used_with_ninja(tree, tools) -> None:
    tools()
    tree.build.mkdir()
    (tree.build / "CMakeCache.txt").write_text("made by make")
    (tree.build / "Makefile").write_text("")
    compile_server(tree, FLAGS, 2, quiet)
    assert not (tree.build / "Makefile").exists()


def test_settings_of_other_builds_do_not_leak_in() -> None:
    foreign = {
        "CXXFLAGS": "-O0",
        "CMAKE_GENERATOR": "Xcode",
        "DESTDIR": "/",
        "LC_ALL": "de_DE",
        "CCACHE_DIR": "/",
    }
    made = clean_environment({**foreign, "PATH": "/bin", "HOME": "/h"}, {"CCACHE_DIR": "/mine"})
    assert made == {"PATH": "/bin", "HOME": "/h", "LANG": "C.UTF-8", "CCACHE_DIR": "/mine"}


def test_a_flood_of_output_is_bounded_in_memory_and_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("collector.lab.native.steps.LOG_LIMIT", 10_000)
    script = "import sys; sys.stdout.write('x' * 200_000 + '\\n' + 'y\\n' * 9000); sys.exit(3)"
    with pytest.raises(StepFailedError) as caught:
        run_step(Step((sys.executable, "-c", script), tmp_path, tmp_path / "log", {}))
    assert caught.value.status == 3
    assert len(caught.value.lines) == 2000
    assert (tmp_path / "log").stat().st_size <= 10_000


def test_a_program_that_does_not_exist_fails_like_one(tmp_path) -> None:
    with pytest.raises(StepFailedError) as caught:
        run_step(Step(("no-such-program",), tmp_path, tmp_path / "log", {}))
    assert "no-such-program" in caught.value.lines[-1]


def alive(pid: int) -> bool:
    """Running, not merely a zombie that nobody has reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition) -> None:
    end = time.monotonic() + GONE_DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_no_compiler_and_no_build(number, skeleton, tools, tmp_path) -> None:
    """GIVEN a compile under way, with compilers of its own WHEN Ctrl-C or SIGTERM comes THEN all are gone,
    the command says 130, and the cache offers nothing."""
    pids = tmp_path / "pids"
    tools(build=f"sleep 300 & echo $! $$ > {pids}.draft; mv {pids}.draft {pids}; wait")
    command = [sys.executable, "-c", "from llama_blackbox_launcher import entry; entry()"]
    process = subprocess.Popen(
        [*command, "reference", "build", "--source", str(skeleton)], stdout=subprocess.PIPE
    )
    wait_for(pids.is_file)
    family = [int(each) for each in pids.read_text().split()]
    assert all(alive(each) for each in family)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 130
    wait_for(lambda: not any(alive(each) for each in family))
    builds = tmp_path / "cache" / "llama-blackbox" / "native" / "builds"
    assert not builds.is_dir() or list(builds.iterdir()) == []
