"""A maintainer's own tree: known by its content, copied where it changed, never written to."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from analyzers.errors import UserError
from collector.lab.native import owntree
from collector.lab.native.owntree import own_tree
from collector.lab.native.tree import Tree
from collector.lab.reference.environments import quiet

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")


def git(folder, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *IDENTITY, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(skeleton):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (skeleton / ".gitignore").write_text("build/\n*.gguf\n")
    git(skeleton, "init", "-q")
    git(skeleton, "add", ".")
    git(skeleton, "commit", "-qm", "one")
    git(skeleton, "tag", "b11368")
    return skeleton


def placed(folder, tmp_path, texts=None):
    made, tree = own_tree(folder, 0), Tree(tmp_path / "tree")
    tree.home.mkdir(exist_ok=True)
    made.place(tree, quiet, True)
    made.put(tree, texts or {})
    return tree


def test_a_tag_names_tree_and_number(repository) -> None:
    made = own_tree(repository, 0)
    assert (made.label, made.number) == ("b11368", 11368)
    assert made.commit == git(repository, "rev-parse", "--short", "HEAD")


def test_a_change_that_is_not_committed_is_in_name_and_hash(repository) -> None:
    before = own_tree(repository, 0)
    (repository / "CMakeLists.txt").write_text("project(changed)")
    after = own_tree(repository, 0)
    assert after.label == "b11368-dirty"
    assert after.number == 11368
    assert after.sha256 != before.sha256
    assert after.tree_name == before.tree_name


def test_a_new_file_counts_and_an_ignored_one_does_not(repository) -> None:
    before = own_tree(repository, 0).sha256
    (repository / "build").mkdir()
    (repository / "build" / "x.o").write_text("object")
    (repository / "model.gguf").write_text("weights")
    assert own_tree(repository, 0).sha256 == before
    (repository / "new.cpp").write_text("int x;")
    assert own_tree(repository, 0).sha256 != before


def test_without_git_the_folder_names_it(skeleton) -> None:
    made = own_tree(skeleton, 0)
    assert (made.label, made.number, made.commit) == ("mine", 0, "unknown")
    assert own_tree(skeleton, 11368).number == 11368


def test_without_git_builds_and_models_are_left_out(skeleton) -> None:
    before = own_tree(skeleton, 0)
    for name in ("build", "build-debug", ".venv"):
        (skeleton / name).mkdir()
        (skeleton / name / "x").write_text("x")
    (skeleton / "m.gguf").write_text("x")
    assert own_tree(skeleton, 0) == before


def test_the_tree_is_copied_and_never_written_to(skeleton, tmp_path) -> None:
    before = {each: each.read_bytes() for each in skeleton.rglob("*") if each.is_file()}
    tree = placed(skeleton, tmp_path, {"CMakeLists.txt": "patched"})
    assert (tree.source / "CMakeLists.txt").read_text() == "patched"
    assert {each: each.read_bytes() for each in skeleton.rglob("*") if each.is_file()} == before


def test_the_next_copy_writes_only_what_changed_and_removes_what_is_gone(skeleton, tmp_path) -> None:
    (skeleton / "old").mkdir()
    (skeleton / "old" / "gone.cpp").write_text("x")
    tree = placed(skeleton, tmp_path, {"CMakeLists.txt": "patched"})
    for each in tree.source.rglob("*"):
        os.utime(each, (1, 1))
    shutil.rmtree(skeleton / "old")
    (skeleton / "tools" / "server" / "server-queue.cpp").write_text("changed")
    placed(skeleton, tmp_path)
    fresh = {each.name for each in tree.source.rglob("*") if each.is_file() and each.stat().st_mtime > 2}
    assert fresh == {"CMakeLists.txt", "server-queue.cpp"}
    assert not (tree.source / "old").exists()


def test_a_link_is_neither_followed_nor_copied(skeleton, tmp_path) -> None:
    (tmp_path / "secret").write_text("secret")
    (skeleton / "link.cpp").symlink_to(tmp_path / "secret")
    tree = placed(skeleton, tmp_path)
    assert not (tree.source / "link.cpp").exists()


def test_a_script_stays_executable(skeleton, tmp_path) -> None:
    (skeleton / "run.sh").write_text("#!/bin/sh")
    (skeleton / "run.sh").chmod(0o755)
    assert os.access(placed(skeleton, tmp_path).source / "run.sh", os.X_OK)


@pytest.mark.parametrize("missing", ["CMakeLists.txt", "tools/server"])
def test_what_is_no_llama_cpp_tree_is_refused(missing: str, skeleton) -> None:
    path = skeleton / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(UserError, match=r"not a llama\.cpp tree"):
        own_tree(skeleton, 0)


def test_a_folder_of_models_is_refused_before_it_is_read(skeleton, monkeypatch) -> None:
    monkeypatch.setattr(owntree, "BYTES_LIMIT", 10)
    with pytest.raises(UserError, match="more than a llama"):
        own_tree(skeleton, 0)


def test_a_tag_with_control_characters_is_made_harmless(skeleton, monkeypatch) -> None:
    monkeypatch.setattr(owntree, "_git", lambda root, *args: "\x1b[2Jb1" if "describe" in args else "")
    assert own_tree(skeleton, 0).label.isprintable()
