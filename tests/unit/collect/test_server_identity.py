"""What is a llama-server, by its program and what it has mapped; a name it gave itself counts for nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.gather.deaths import by_name
from collector.gather.servers import _code, demand_server, server_of, servers_among

LIBC = "/usr/lib/libc.so.6"
WHEEL = "/venv/lib/python3.11/site-packages/xllamacpp/xllamacpp.abi3.so"


@pytest.mark.parametrize(
    ("exe", "mapped", "words", "code"),
    [
        ("/usr/bin/llama-server", {LIBC}, [], "/usr/bin/llama-server"),
        ("/opt/llama-server-cuda", {LIBC}, [], "/opt/llama-server-cuda"),
        ("/x/ollama_llama_server", {LIBC}, [], "/x/ollama_llama_server"),
        (
            "/usr/bin/llama-server",
            {"/usr/lib/libllama-server-impl.so"},
            [],
            "/usr/lib/libllama-server-impl.so",
        ),
        ("/usr/bin/llama", {LIBC}, ["llama", "serve"], "/usr/bin/llama"),
        ("/usr/bin/python3.11", {LIBC, WHEEL}, [], WHEEL),
        ("/llama.cpp/server", {"/llama.cpp/libllama.so"}, [], "/llama.cpp/server"),
        # look-alikes
        ("/usr/bin/llama", {LIBC}, ["llama", "run"], None),
        ("/usr/bin/llama-cli", {"/usr/lib/libllama.so"}, [], None),
        ("/usr/bin/llama-bench", {LIBC}, [], None),
        ("/opt/app/server", {LIBC}, [], None),
        ("/usr/bin/python3.11", {LIBC, "/venv/llama_cpp/libllama.so"}, [], None),
        ("/usr/bin/sleep", {LIBC}, ["llama-server", "60"], None),
        ("/usr/bin/vim", {"/home/x/llama-server-notes.txt"}, [], None),
    ],
)
def test_by_program_and_mappings(exe: str, mapped: set[str], words: list[str], code: str | None) -> None:
    assert _code(exe, mapped, words) == code


def test_a_dead_one_by_its_path_before_its_name() -> None:
    assert by_name("/usr/bin/llama-server", None)
    assert by_name(None, "llama-server")
    assert by_name("/usr/bin/llama-server-long-name", "llama-server-lo")
    assert not by_name("/usr/bin/nginx", "llama-server")  # a thread may call itself anything
    assert not by_name(None, None)


def test_this_process_is_none_and_a_gone_one_is_named() -> None:
    assert server_of(os.getpid()) is None
    assert servers_among([os.getpid(), 1 << 22]) == []
    with pytest.raises(UserError, match="no such process"):
        demand_server((1 << 22) - 1)


def test_a_copied_program_of_that_name_is_one_by_its_path(tmp_path: Path) -> None:
    """The path is what a host has; whoever may place programs may also run a server."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / "llama-server"
    shutil.copy(sleep, program)
    with subprocess.Popen([program, "60"]) as other:
        try:
            found = server_of(other.pid)
            assert found is not None
            assert found.exe == str(program)
            assert not found.hosted
            assert found.code_path.samefile(program)
        finally:
            other.kill()
