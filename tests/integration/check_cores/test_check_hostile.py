"""`check` beside processes that lie, vanish, hide or are many: a bash that calls itself a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from collector.check import overview
from collector.check.lines import one_line
from collector.check.overview import Overview
from collector.check.subject import Subject
from collector.gather.servers import Server, server_of
from collector.sources.procfs import GoneError

COMMAND = str(Path(sys.executable).with_name("llama-blackbox"))
DEADLINE = 20.0
MANY = 100
TOO_SLOW = 30.0  # seconds for MANY on a busy machine; the figure itself is in docs/check.md


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "llama-server"
    shutil.copyfile(shutil.which("bash") or "/bin/bash", made)
    made.chmod(0o755)
    return made


@pytest.fixture
def start(program: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts it with more words, which it does not look at; ended at the end."""
    with ExitStack() as stack:

        def begin(*words: str, **options: object) -> subprocess.Popen[bytes]:
            argv = [str(program), "-c", "read line", *words]
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, **options)  # type: ignore[call-overload]
            stack.callback(process.wait, DEADLINE)
            stack.callback(process.kill)
            return process  # type: ignore[no-any-return]

        yield begin


def seen(process: subprocess.Popen[bytes]) -> Server:
    """Looked at until its program has begun."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with suppress(GoneError, PermissionError):
            found = server_of(process.pid)
            if found is not None:
                return found
    raise AssertionError("no server")


def check(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "check", *words], capture_output=True, text=True, timeout=TOO_SLOW)


def test_hostile_words_stay_on_one_line_and_keys_inside(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    # GIVEN arguments with escapes, a key, a preset that is a device and a model path of many parts
    words = ("--api-key", "hunter2", "--alias", "x\x1b]0;y\x07\nOFF", "--models-preset", "/dev/zero")
    server = seen(
        start("-m", "/a/" * 2000 + "m-00001-of-99999.gguf", "--sleep-idle-seconds", "9" * 400, *words)
    )
    # WHEN
    answers = [check("--pid", str(server.pid), *how) for how in ((), ("--one-line",), ("--json",))]
    # THEN
    for answer in answers:
        assert answer.returncode == 1
        assert answer.stderr == ""
        assert "\x1b" not in answer.stdout
        assert "hunter2" not in answer.stdout
    assert len(answers[1].stdout.splitlines()) == 1
    (one,) = json.loads(answers[2].stdout)["servers"]
    assert (one["verdict"], one["sleep_idle_seconds"]) == ("possible", None)


@pytest.mark.parametrize("reaped", [True, False])
def test_one_that_ends_while_it_is_looked_at(
    start: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, reaped: bool
) -> None:
    # GIVEN two servers, the first of which is killed once it was read
    first, second = start("-m", "/a.gguf"), start("-m", "/b.gguf")
    servers = [seen(first), seen(second)]
    read = overview.read_subject

    def then_kill(server: Server) -> Subject:
        made = read(server)
        if server.pid == first.pid:
            first.kill()
            os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
            if reaped:
                first.wait(DEADLINE)
        return made

    monkeypatch.setattr(overview, "read_subject", then_kill)
    # THEN the other one is answered for
    assert [view.pid for view in Overview().look(servers)] == [second.pid]


def test_all_gone_is_one_line(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start()
    seen(process)
    process.kill()
    process.wait(DEADLINE)
    answer = check("--pid", str(process.pid))
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1


def test_many_at_once(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    # GIVEN
    made = [start("-m", "/nope.gguf", "--sleep-idle-seconds", "60", "--port", str(n)) for n in range(MANY)]
    for process in made:
        seen(process)
    # WHEN
    answer = check("--one-line", "--textfile", str(tmp_path / "x.prom"))
    # THEN each has its line and its series, once
    lines = answer.stdout.splitlines()
    for process in made:
        assert sum(f" pid {process.pid}:" in line for line in lines) == 1
    assert "llama_blackbox_check_servers" in (tmp_path / "x.prom").read_text()
    assert str(tmp_path) not in (tmp_path / "x.prom").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_another_users_server_is_named_and_never_fine(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    # GIVEN a server of root, looked at by nobody
    process = start("-m", "/a.gguf")
    seen(process)
    if shutil.which("setpriv") is None:
        pytest.skip("ANOTHER USER'S VIEW IS NOT TESTED: no setpriv")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*words, COMMAND, "--version"], capture_output=True).returncode != 0:
        pytest.skip("ANOTHER USER'S VIEW IS NOT TESTED: nobody may not run this installation")
    # WHEN
    answer = subprocess.run(
        [*words, COMMAND, "check", "--one-line"], capture_output=True, text=True, timeout=TOO_SLOW
    )
    # THEN
    assert answer.returncode in (1, 2)
    assert str(process.pid) in answer.stdout or "sudo" in answer.stderr


def test_a_model_that_is_not_there(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    (view,) = Overview().look([seen(start("-m", "/nope.gguf"))])
    assert one_line(view).startswith(("OFF ", "BROKEN-MODEL ", "POSSIBLE "))
    assert {one.state for one in view.weights.files} == {"missing"}
