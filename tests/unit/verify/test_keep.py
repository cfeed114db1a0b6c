"""The folder of a run: new, real, and never shared by two runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.verify.keep import Kept, kept


def test_a_folder_is_made_and_lines_arrive_whole(tmp_path: Path) -> None:
    with kept(tmp_path / "a" / "b") as folder:
        folder.add("one")
        folder.add("twö")
    assert (tmp_path / "a" / "b" / "trials.jsonl").read_text() == "one\ntwö\n"


def test_an_empty_folder_of_the_users_is_fine(tmp_path: Path) -> None:
    with kept(tmp_path) as folder:
        assert folder.stays


@pytest.mark.parametrize("held", ["notes.txt", ".hidden", "etc/passwd", "bad\x1b[31mname"])
def test_a_folder_with_anything_in_it_is_not_written_to(tmp_path: Path, held: str) -> None:
    """A run was accepted for /etc and put 336 entries there."""
    (tmp_path / held).parent.mkdir(exist_ok=True)
    (tmp_path / held).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="not empty") as refused, kept(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert str(refused.value).isprintable()


def planted(tmp_path: Path, kind: str) -> Path:
    target, path = tmp_path / "elsewhere", tmp_path / "out"
    if kind == "link":
        target.mkdir()
        path.symlink_to(target)
    elif kind == "dangling link":
        path.symlink_to(target)
    elif kind == "file":
        path.write_text("x")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "below a file":
        path.write_text("x")
        return path / "deeper"
    else:
        path.mkdir()
        {
            "earlier run": lambda: (path / "trials.jsonl").write_text("{}\n"),
            "planted link": lambda: (path / "trials.jsonl").symlink_to(target),
            "planted servers": lambda: (path / "servers").symlink_to(tmp_path),
        }[kind]()
    return path


KINDS = (
    "link",
    "dangling link",
    "file",
    "pipe",
    "below a file",
    "earlier run",
    "planted link",
    "planted servers",
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_new_folder_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = planted(tmp_path, kind)
    with pytest.raises(UserError) as refused, kept(path):
        pass
    assert str(path) in str(refused.value)
    assert refused.value.status == 2
    assert not (tmp_path / "elsewhere" / "trials.jsonl").exists()


def test_a_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match="read-only file system"), kept(tmp_path):
        pass


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with kept(tmp_path / "out") as folder:
        monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
        folder.add("a long line")
        monkeypatch.undo()
    assert (tmp_path / "out" / "trials.jsonl").read_text() == "a long line\n"


@pytest.mark.parametrize(("stays", "left"), [(True, 1), (False, 0)])
def test_cores_are_dropped_only_where_nothing_is_kept(tmp_path: Path, stays: bool, left: int) -> None:
    server = tmp_path / "servers" / "server-000-x"
    server.mkdir(parents=True)
    (server / "core.12").write_bytes(b"x")
    (server / "server.log").write_bytes(b"x")
    Kept(tmp_path, stays, -1).drop_cores()
    assert len(list(server.glob("core*"))) == left
    assert (server / "server.log").exists()
