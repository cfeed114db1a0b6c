"""A work tree is brought to exactly the wanted state, and only what changes is written."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from collector.lab.native import tree as trees
from collector.lab.native.tree import Tree, fill, locked_tree, original, put_texts, write_changed
from collector.lab.reference.environments import quiet

OLD = 1_000_000_000  # seconds; any moment long ago


@pytest.fixture
def tree(tmp_path) -> Tree:
    made = Tree(tmp_path / "tree")
    (made.source / "sub").mkdir(parents=True)
    for name in ("a.cpp", "sub/b.cpp", "c.cpp"):
        (made.source / name).write_text(f"stock {name}")
        os.utime(made.source / name, (OLD, OLD))
    return made


def written(tree: Tree) -> set[str]:
    """Files with a new time: what a build would compile again."""
    files = [each for each in tree.source.rglob("*") if each.is_file()]
    return {str(each.relative_to(tree.source)) for each in files if each.stat().st_mtime > OLD + 1}


def contents(tree: Tree) -> dict[str, str]:
    files = [each for each in tree.source.rglob("*") if each.is_file()]
    return {str(each.relative_to(tree.source)): each.read_text() for each in files}


STOCK = {"a.cpp": "stock a.cpp", "sub/b.cpp": "stock sub/b.cpp", "c.cpp": "stock c.cpp"}


def test_only_patched_files_are_written(tree) -> None:
    put_texts(tree, {"a.cpp": "patched"})
    assert contents(tree) == {**STOCK, "a.cpp": "patched"}
    assert written(tree) == {"a.cpp"}


def test_the_same_state_again_writes_nothing(tree) -> None:
    put_texts(tree, {"a.cpp": "patched"})
    os.utime(tree.source / "a.cpp", (OLD, OLD))
    put_texts(tree, {"a.cpp": "patched"})
    assert written(tree) == set()


def test_another_patch_restores_what_the_first_changed(tree) -> None:
    put_texts(tree, {"a.cpp": "patched"})
    put_texts(tree, {"sub/b.cpp": "other"})
    assert contents(tree) == {**STOCK, "sub/b.cpp": "other"}


def test_stock_again_is_stock_and_new_for_the_build_tool(tree) -> None:
    put_texts(tree, {"a.cpp": "patched"})
    os.utime(tree.source / "a.cpp", (OLD, OLD))
    put_texts(tree, {})
    assert contents(tree) == STOCK
    assert written(tree) == {"a.cpp"}


def test_a_patch_is_always_made_on_the_original(tree) -> None:
    put_texts(tree, {"a.cpp": "patched"})
    assert original(tree, "a.cpp").read_text() == "stock a.cpp"
    assert original(tree, "c.cpp").read_text() == "stock c.cpp"


def test_an_interrupted_change_is_made_good(tree, monkeypatch) -> None:
    """GIVEN a change cut short after its first file WHEN stock is wanted THEN the tree is stock."""
    calls = []

    def cut_short(path, content):
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write_changed(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(trees, "write_changed", cut_short)
        with pytest.raises(KeyboardInterrupt):
            put_texts(tree, {"a.cpp": "patched", "sub/b.cpp": "patched"})
    assert contents(tree) != STOCK
    put_texts(tree, {})
    assert contents(tree) == STOCK


def test_a_half_kept_original_is_never_used(tree) -> None:
    (tree.pristine / "sub").mkdir(parents=True)
    (tree.pristine / "sub" / "b.cpp.draft").write_text("half")
    put_texts(tree, {"sub/b.cpp": "patched"})
    put_texts(tree, {})
    assert contents(tree) == STOCK


def test_a_link_in_place_of_a_file_is_replaced_not_followed(tree, tmp_path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tree.source / "a.cpp").unlink()
    (tree.source / "a.cpp").symlink_to(tmp_path / "outside")
    write_changed(tree.source / "a.cpp", b"new")
    assert (tmp_path / "outside").read_text() == "mine"
    assert not (tree.source / "a.cpp").is_symlink()


def test_an_executable_stays_one(tree) -> None:
    (tree.source / "a.cpp").chmod(0o755)
    write_changed(tree.source / "a.cpp", b"new")
    assert os.access(tree.source / "a.cpp", os.X_OK)


def test_a_tree_is_filled_once_per_source(tmp_path) -> None:
    tree, calls = Tree(tmp_path), []

    def unpack(target):
        calls.append(target)
        target.mkdir()
        (target / "f").write_text(str(len(calls)))

    fill(tree, "one", unpack, quiet)
    fill(tree, "one", unpack, quiet)
    assert len(calls) == 1
    (tree.build).mkdir()
    fill(tree, "two", unpack, quiet)
    assert (tree.source / "f").read_text() == "2"
    assert not tree.build.exists()


def test_a_filling_cut_short_is_begun_anew(tmp_path) -> None:
    tree = Tree(tmp_path)

    def cut(target):
        target.mkdir()
        (target / "half").write_text("")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tree, "one", cut, quiet)
    fill(tree, "one", lambda target: target.mkdir(), quiet)
    assert list(tree.source.iterdir()) == []


def test_a_tree_that_nothing_was_put_into_does_not_stay() -> None:
    with locked_tree("empty", quiet) as tree:
        assert tree.home.is_dir()
    assert not tree.home.exists()
    with locked_tree("full", quiet) as tree:
        (tree.home / "file").write_text("x")
    assert tree.home.is_dir()


def _hold(ready, release) -> None:
    with locked_tree("shared", quiet):
        ready.set()
        release.wait(30)


def test_two_processes_do_not_build_in_one_tree() -> None:
    """GIVEN a process in a tree WHEN another wants it THEN it says so, waits, and gets it after."""
    context = multiprocessing.get_context("fork")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(ready, release))
    other.start()
    assert ready.wait(30)
    said: list[str] = []

    def heard(line: str) -> None:
        said.append(line)
        assert other.is_alive()
        release.set()

    with locked_tree("shared", heard) as tree:
        assert tree.home.is_dir()
    other.join(30)
    assert len(said) == 1
    assert "waiting" in said[0]
