"""From a recipe to a binary in the cache, with tools that only pretend to compile."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess

import pytest

from analyzers.errors import UserError
from collector.lab.native import store
from collector.lab.native.build import Recipe, find_build, plan_of, prepare_build
from collector.lab.native.recipe import cmake_flags, described
from collector.lab.reference.environments import quiet


@pytest.fixture
def recipe(skeleton) -> Recipe:
    return Recipe(11138, source=skeleton)


def test_a_build_is_made_once_and_then_found(recipe, tools) -> None:
    tools()
    assert find_build(recipe) is None
    made = prepare_build(recipe)
    said: list[str] = []
    assert prepare_build(recipe, progress=said.append) == made == find_build(recipe)
    assert said == []
    assert subprocess.run([made.binary], capture_output=True, cwd=recipe.source.parent, check=False)


def test_the_record_says_how_it_was_made(recipe, tools, cache) -> None:
    tools()
    made = prepare_build(Recipe(11138, "count-requests", source=recipe.source), jobs=3)
    record = json.loads((made.binary.parent / "build.json").read_text())
    assert record == made.record
    assert record["schema"] == store.SCHEMA
    assert record["compiler"] == "pretend c++ 99.1"
    assert record["cmake"] == "cmake version 3.99.0"
    assert (record["build"], record["fix"], record["asan"], record["jobs"]) == (
        11138,
        "count-requests",
        False,
        3,
    )
    assert len(record["source_sha256"]) == len(record["fix_sha256"]) == 64
    assert "-DLLAMA_BUILD_NUMBER=11138" in record["flags"]
    assert record["bytes"]["binary"] == made.binary.stat().st_size
    assert record["bytes"]["tree"] > 0
    assert record["seconds"] >= 0  # rounded: a pretended compiler is done at once
    assert (made.binary.parent / "build.log").is_file()


def test_fix_asan_source_and_compiler_each_make_another_build(recipe, tools, monkeypatch) -> None:
    tools()
    keys = [plan_of(recipe).key]
    keys.append(plan_of(Recipe(11138, "count-requests", source=recipe.source)).key)
    keys.append(plan_of(Recipe(11138, "read-after-barrier", source=recipe.source)).key)
    keys.append(plan_of(Recipe(11138, asan=True, source=recipe.source)).key)
    keys.append(plan_of(Recipe(11139, source=recipe.source)).key)
    (recipe.source / "CMakeLists.txt").write_text("changed")
    keys.append(plan_of(recipe).key)
    monkeypatch.setenv("CXX", "c++")
    keys.append(plan_of(recipe).key)
    assert len(set(keys)) == len(keys)
    assert plan_of(recipe).key == keys[-1]


def test_names_are_for_people(recipe, tools) -> None:
    assert Recipe(11138, "read-after-barrier").name == "b11138+read-after-barrier"
    assert Recipe(11368, asan=True).name == "b11368 (ASan)"
    assert described("b1", "f", True) == "b1+f (ASan)"
    tools()
    made = prepare_build(Recipe(0, "count-requests", True, recipe.source))
    assert made.name == "mine+count-requests (ASan)"
    assert "abort_on_error=1" in made.environment["ASAN_OPTIONS"]
    assert prepare_build(recipe).environment == {}


def test_asan_covers_server_and_llama_and_not_ggml() -> None:
    flags = cmake_flags(Recipe(1, asan=True), {})
    assert "-DLLAMA_SANITIZE_ADDRESS=ON" in flags
    assert not any("GGML_SANITIZE" in flag for flag in flags)
    assert "-DLLAMA_SANITIZE_ADDRESS=ON" not in cmake_flags(Recipe(1), {})


def test_the_patch_reaches_the_compiler_and_the_users_tree_stays(recipe, tools, cache) -> None:
    tools(build="grep -q n_requests_open llama.cpp/tools/server/server-queue.cpp || exit 7")
    before = (recipe.source / "tools" / "server" / "server-queue.cpp").read_text()
    assert prepare_build(Recipe(0, "count-requests", source=recipe.source)).record["fix"] == "count-requests"
    with pytest.raises(UserError):  # the stock source again, in the same work tree
        prepare_build(Recipe(0, source=recipe.source))
    assert (recipe.source / "tools" / "server" / "server-queue.cpp").read_text() == before


def test_a_place_that_is_not_found_stops_before_the_compiler(recipe, tools, cache) -> None:
    tools(configure="touch ran")
    (recipe.source / "tools" / "server" / "server-queue.cpp").write_text("nothing")
    with pytest.raises(UserError, match=r"fix count-requests does not fit mine: .* is not found"):
        prepare_build(Recipe(0, "count-requests", source=recipe.source))
    assert not list(cache.rglob("ran"))
    assert not list((cache / "native").glob("builds/*"))


def test_a_failed_build_is_not_offered_and_its_next_run_succeeds(recipe, tools) -> None:
    tools(build="echo 'error: broken'; exit 1")
    with pytest.raises(UserError, match="broken"):
        prepare_build(recipe)
    assert find_build(recipe) is None
    tools()
    assert prepare_build(recipe) == find_build(recipe)


def test_an_interrupted_keeping_leaves_no_half_build(recipe, tools, monkeypatch) -> None:
    tools()

    def cut_short(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.shutil, "copyfile", cut_short)
        with pytest.raises(KeyboardInterrupt):
            prepare_build(recipe)
    assert list(store.builds_folder().iterdir()) == []


@pytest.mark.parametrize("damage", ["record", "binary", "mode", "schema", "empty"])
def test_a_damaged_build_is_not_handed_out(damage: str, recipe, tools) -> None:
    tools()
    made = prepare_build(recipe)
    record = made.binary.parent / "build.json"
    if damage == "record":
        record.write_text("{")
    elif damage == "schema":
        record.write_text(record.read_text().replace("native-build/1", "native-build/9"))
    elif damage == "binary":
        made.binary.write_bytes(made.binary.read_bytes()[:-1])
    elif damage == "mode":
        made.binary.chmod(0o644)
    else:
        record.write_text("[]")
    assert find_build(recipe) is None
    assert prepare_build(recipe).binary == made.binary


@pytest.mark.parametrize("number", [0, -1, 10_000_000])
def test_a_number_that_cannot_be_a_build_is_refused(number: int) -> None:
    with pytest.raises(UserError, match="not a llama"):
        prepare_build(Recipe(number))


def test_an_unknown_fix_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(UserError, match="no such fix"):
        prepare_build(Recipe(11138, "no-such-fix"))


def test_a_missing_compiler_is_said_before_anything_is_fetched(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="apt-get install"):
        prepare_build(Recipe(11138))


def test_offline_without_the_source_is_said(tools) -> None:
    tools()
    with pytest.raises(UserError, match="offline"):
        prepare_build(Recipe(11138), offline=True)


def _prepare(source, results) -> None:
    results.put(str(prepare_build(Recipe(0, source=source)).binary))


def test_two_processes_get_one_build_that_was_compiled_once(skeleton, tools, tmp_path) -> None:
    tools(build=f"echo x >> {tmp_path}/compiled; sleep 0.2")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_prepare, args=(skeleton, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert results.get(timeout=60) == results.get(timeout=60)
    for worker in workers:
        worker.join(30)
    assert (tmp_path / "compiled").read_text() == "x\n"


def test_a_killed_keepers_draft_is_cleared_by_the_next(recipe, tools) -> None:
    tools()
    made = prepare_build(recipe)
    draft = made.binary.parent.with_name(f".{made.binary.parent.name}.abc")
    draft.mkdir()
    made.binary.unlink()
    prepare_build(recipe, progress=quiet)
    assert not draft.exists()
    assert os.access(made.binary, os.X_OK)
