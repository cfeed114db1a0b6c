"""A process by its /proc folder: identity, arguments without secrets, settings, and its sudden end."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.sources.process import model_files, option, read_process, to_settings_evidence
from collector.sources.procfs import GoneError, Process, read_incarnation
from collector.sources.waits import owned_sockets, sockets_being_read, waited_for

PLANTED = "sk-planted-secret"


def redact(args: list[str]) -> list[str]:
    return ["[removed]" if arg == PLANTED else arg for arg in args]


@contextmanager
def running(argv: list[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child that has said that it runs, and lives until its input closes."""
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.defpath, **variables}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    try:
        yield child
    finally:
        child.communicate()


@pytest.fixture
def native(tmp_path: Path) -> list[str]:
    """A shell under the server's name: the arguments after the script are its own."""
    program = tmp_path / "llama-server"
    shutil.copy("/bin/sh", program)
    return [str(program), "-c", "echo ready; read line", "sh"]


def test_a_native_server_is_read_with_its_secrets_removed(native: list[str]) -> None:
    # GIVEN
    argv = [*native, "-m", "/models/a.gguf", "--sleep-idle-seconds", "30", "--metrics", "--api-key", PLANTED]
    with running(argv, LLAMA_API_KEY=PLANTED, MALLOC_PERTURB_="165") as child:
        # WHEN
        view = read_process(child.pid, redact)

    # THEN
    assert view is not None
    settings = view.settings
    assert (settings.sleep_idle_seconds, settings.metrics, settings.role) == (30, True, "standalone")
    assert settings.model == "a.gguf"
    assert settings.memory_poisoned is True
    assert view.model_files == ("/models/a.gguf",)
    assert view.exe == argv[0]
    assert view.threads == 1
    assert "[removed]" in view.args
    assert PLANTED not in repr(view)
    assert PLANTED not in to_settings_evidence(view).model_dump_json()


def test_an_argument_that_cannot_be_judged_does_not_get_out(native: list[str]) -> None:
    # GIVEN
    def broken(_: list[str]) -> list[str]:
        raise RuntimeError

    with running([*native, "--api-key", PLANTED]) as child:
        # WHEN
        view = read_process(child.pid, broken)

    # THEN
    assert view is not None
    assert view.args == ()


@pytest.mark.parametrize(
    ("arguments", "variables", "role"),
    [
        (["--models-dir", "/m"], {}, "router"),
        (["-hf", "a/b"], {}, "standalone"),
        ([], {"LLAMA_ARG_MODEL": "/m/a.gguf"}, "standalone"),
        (["-m", "/m/a.gguf"], {"LLAMA_SERVER_ROUTER_PORT": "8080"}, "child"),
    ],
)
def test_the_role_follows_from_arguments_and_variables(
    native: list[str], arguments: list[str], variables: dict[str, str], role: str
) -> None:
    with running([*native, *arguments], **variables) as child:
        view = read_process(child.pid, redact)
    assert view is not None
    assert view.settings.role == role


def test_a_hosted_servers_own_arguments_say_nothing_about_its_settings() -> None:
    # GIVEN
    script = "print('ready', flush=True); input()"
    with running([sys.executable, "-c", script, "--sleep-idle-seconds", "30"]) as child:
        # WHEN
        view = read_process(child.pid, redact)

    # THEN
    assert view is not None
    assert (view.settings.role, view.settings.sleep_idle_seconds) == ("hosted", None)


def test_options_in_both_spellings_and_lists_of_files() -> None:
    args = ["-m", "a", "--model=b", "--lora", "x,y", "-md", "d", "--sleep-idle-seconds"]
    assert option(args, ("-m", "--model")) == "b"
    assert option(args, ("--sleep-idle-seconds",)) is None
    assert model_files(args, {}) == ("b", "x", "y", "d")
    assert model_files([], {"LLAMA_ARG_MODEL": "e", "LLAMA_ARG_MMPROJ": "p"}) == ("e", "p")


def test_a_dead_process_is_gone_even_when_it_was_held() -> None:
    # GIVEN
    script = "print('ready', flush=True); input()"
    with running([sys.executable, "-c", script]) as child:
        before = read_incarnation(child.pid)
        held = Process(child.pid)
        alive = held.incarnation()

    # WHEN / THEN nothing is read of it, or of whoever got its number
    with held:
        for look in (held.incarnation, held.tracer, lambda: held.read("cmdline"), lambda: held.link("exe")):
            with pytest.raises(GoneError):
                look()
    assert alive == before
    assert read_incarnation(child.pid) is None
    assert read_process(child.pid, redact) is None
    assert owned_sockets(child.pid) is None
    assert sockets_being_read(child.pid) is None


@pytest.mark.parametrize("name", ["python", "a) S 1 2 3", "((", "x y"])
def test_a_name_with_blanks_and_brackets_does_not_shift_the_fields(tmp_path: Path, name: str) -> None:
    # GIVEN
    fields = ["S", "1", *["0"] * 9, "150", "50", "0", "0", "20", "0", "7", "0", "123400", "0"]
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text(f"9 ({name}) {' '.join(fields)}\n")

    # WHEN
    with Process(9, proc=tmp_path) as process:
        ticks = os.sysconf("SC_CLK_TCK")
        # THEN
        assert process.incarnation().start_time == 123400 / ticks
        assert process.cpu_seconds() == 200 / ticks
        assert (process.threads(), process.state()) == (7, "S")


def test_a_cut_stat_line_counts_as_gone(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (x) S 1")
    with Process(9, proc=tmp_path) as process, pytest.raises(GoneError):
        process.incarnation()


def test_the_start_time_is_seconds_since_boot() -> None:
    mine = read_incarnation(os.getpid())
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert mine is not None
    assert mine.start_time is not None
    assert 0 < mine.start_time <= uptime
    assert mine.boot_id


READER = """
import socket, sys
kind, port = sys.argv[1], int(sys.argv[2])
s = socket.create_connection(("127.0.0.1", port))
if kind == "poll":
    import select
    p = select.poll(); p.register(s, select.POLLIN)
print("ready", flush=True)
if kind == "poll": p.poll(60000)
elif kind == "recv": s.recv(1)
else: sys.stdin.read()
"""


@pytest.mark.parametrize(("kind", "reads"), [("poll", True), ("recv", True), ("elsewhere", False)])
def test_a_socket_that_a_thread_waits_to_read_from_is_told_from_an_idle_one(kind: str, reads: bool) -> None:
    # GIVEN a process that waits for its socket, or for something else
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = [sys.executable, "-c", READER, kind, str(listener.getsockname()[1])]
        with running(argv) as child:
            served, _ = listener.accept()
            blocked = settled(child.pid)

            # WHEN
            owned, read = owned_sockets(child.pid), sockets_being_read(child.pid)
            served.sendall(b"x")
            served.close()

    # THEN
    if not blocked or read is None:
        pytest.skip("blocked calls cannot be seen here")
    assert owned is not None
    assert len(owned) == 1
    assert read == (owned if reads else frozenset())


def settled(pid: int) -> bool:
    """Wait until the child is blocked in a call."""
    tick = threading.Event()
    for _ in range(2000):
        try:
            words = Path(f"/proc/{pid}/syscall").read_text().split()
        except PermissionError:
            return False
        if words[0].isdigit():
            return True
        tick.wait(0.005)
    return False


def test_a_mere_look_and_an_unknown_machine_are_no_wait() -> None:
    # GIVEN the memory of a poll on descriptors 7 and 9
    rows = (ctypes.c_int * 4)(7, 1, 9, 1)
    address = ctypes.addressof(rows)

    # WHEN / THEN
    with Process(os.getpid()) as mine:
        assert list(waited_for("poll", [address, 2, 1000], mine)) == [7, 9]
        assert list(waited_for("ppoll", [address, 1, 0], mine)) == [7]
        assert list(waited_for("poll", [address, 2, 0], mine)) == []
        assert list(waited_for("poll", [8, 1, 1000], mine)) == []  # unreadable memory
        assert list(waited_for(None, [1, 2, 3], mine)) == []
        assert list(waited_for("restarted", [address, 2, 1000], mine)) == [7, 9]  # a poll after a snapshot
        assert list(waited_for("restarted", [address, 0x189, 0], mine)) == []  # a futex after one
        assert list(waited_for("restarted", [8, 1, 1000], mine)) == []
        rows[1] = 0  # asks for nothing: no row of poll
        assert list(waited_for("restarted", [address, 2, 1000], mine)) == []
    assert sockets_being_read(os.getpid(), machine="vax") is None
