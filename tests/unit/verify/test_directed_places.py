"""Before a directed trial the subject must be seen to sleep: one that never does answers all that is held."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed.places import explore


def lab(folder, sleeps):
    """A lab with one server that says it can sleep; ``sleeps``: whether it ever does."""
    spec = ServerSpec(folder / "m.gguf", binary=folder / "llama-server")
    server = SimpleNamespace(
        spec=spec,
        pid=os.getpid(),
        get=lambda _: SimpleNamespace(json=lambda: {"is_sleeping": False}),
        wait_until=lambda condition, deadline: sleeps,
    )
    return SimpleNamespace(start=lambda _: nullcontext(server), folder=folder), spec


def test_a_server_that_never_sleeps_is_no_subject(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did not sleep within") as refused:
        explore(*lab(tmp_path, sleeps=False))
    assert "llama-server" in str(refused.value)


def test_one_that_sleeps_is_read(tmp_path: Path) -> None:
    # nothing of a server stands beside the program here
    assert explore(*lab(tmp_path, sleeps=True)).found == {}


@pytest.mark.parametrize("head", ["#!/bin/sh\nexec llama-server", "#!", "#! /usr/bin/env python3\n"])
def test_a_wrapper_script_is_called_one_before_anything_starts(tmp_path, head):
    program = tmp_path / "wrap"
    program.write_text(head)
    spec = ServerSpec(tmp_path / "m.gguf", binary=program)
    with pytest.raises(UserError, match="wrapper script") as refused:
        explore(None, spec)
    assert str(program) in str(refused.value)
