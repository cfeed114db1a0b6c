"""eu-stack started before the imports: only on a plain core, taken once, never left behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from stackcores import write_core

from analyzers.stacks import ahead, command, confine, eustack

NOT_CORES = {
    "text": b"hello\n" * 20,
    "program": b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00" + bytes(44),
    "other machine": b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00\xb7\x00" + bytes(44),
    "cut": b"\x7fELF\x02\x01",
    "empty": b"",
}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An eu-stack that says one line; first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / command.TOOL
    script.write_text("#!/bin/sh\necho TID 4000:\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return script


def begun() -> int:
    return len(confine._BEGUN)


@pytest.mark.usefixtures("tool")
def test_the_unwinding_that_follows_takes_the_child_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a core whose unwinding was begun, and a host on which nothing can be started any more
    core = write_core(tmp_path, [0] * 8)
    with ahead.started([str(core.path), "--fast"]):
        monkeypatch.setattr(confine, "start", refuse)
        # WHEN the stacks are asked for twice
        first, second = eustack.read_stacks(core), eustack.read_stacks(core)
    # THEN the first answer is the child's, which is not used twice
    assert [stack.tid for stack in first.stacks] == [4000]
    assert second.stacks == ()


def refuse(*_: object, **__: object) -> confine.Running:
    raise OSError(errno.EAGAIN, "no more processes")


@pytest.mark.usefixtures("tool")
def test_what_nobody_asked_for_is_ended(tmp_path: Path) -> None:
    core = write_core(tmp_path, [0] * 8)
    with ahead.started([str(core.path)]):
        (child,) = confine._BEGUN.values()
    assert begun() == 0
    assert child.process.returncode is not None


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("data", NOT_CORES.values(), ids=NOT_CORES.keys())
def test_nothing_is_started_on_what_is_no_core(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with ahead.started([str(path)]):
        assert begun() == 0


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize(
    "options", [["--exe", "/bin/true"], ["--exe=/bin/true"], ["--help"], ["--html", "x"]]
)
def test_nothing_is_started_when_an_option_may_change_how_the_core_is_read(
    tmp_path: Path, options: list[str]
) -> None:
    core = write_core(tmp_path, [0] * 8)
    with ahead.started([*options, str(core.path)]):
        assert begun() == 0


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("name", ["missing", "a\0b", "."])
def test_an_input_that_cannot_be_opened_is_left_to_the_usual_way(name: str) -> None:
    with ahead.started([name]):
        assert begun() == 0


@pytest.mark.usefixtures("tool")
def test_a_pipe_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ahead.started([str(tmp_path / "pipe")]):
        assert begun() == 0
