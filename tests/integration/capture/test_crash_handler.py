"""The handler under the real kernel: foreign crashes as without it, ours whatever their program's name."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash_lab import CRASHER, THREADS, compiled, installed, manifest, needs_gcc, needs_root, table, until

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from collector.capture.crash.settings import SETTINGS

pytestmark = [pytest.mark.real, needs_root, needs_gcc]
NOBODY = 65534
UNLIMITED = resource.RLIM_INFINITY
# Waits for a line on its input, so that its file can be renamed or deleted meanwhile.
WAITING = CRASHER.replace("int main(", "#include <stdio.h>\nint main(").replace(
    "*(volatile int *)8 = 1;", "getchar(); *(volatile int *)8 = 1;"
)
LISTENING = "import socket, os; s = socket.create_server(('127.0.0.1', 0)); os.kill(os.getpid(), 11)"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    compiled(folder, "foreign", CRASHER)
    compiled(folder, "waiting", WAITING)
    compiled(folder, "llama-server", THREADS)
    return folder


@pytest.fixture
def cwd() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(f"/tmp/lbc-cwd-{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def limited(size: int, user: int = 0) -> Callable[[], None]:
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (size, size))
        if user:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)

    return apply


def run(program: Path, cwd: Path, size: int = UNLIMITED, user: int = 0, *args: str) -> int:
    """The wait status of a program that crashes; copied into ``cwd`` so that any user can run it."""
    copy = cwd / program.name
    if not copy.exists():
        shutil.copy2(program, copy)
    done = subprocess.Popen([copy, *args], cwd=cwd, preexec_fn=limited(size, user))
    return os.waitpid(done.pid, 0)[1]


def whole(path: Path) -> bool:
    """Without core_pipe_limit the process may be reaped while its last bytes are still in the pipe."""
    try:
        return not read_core(path).cut
    except UserError:
        return False


def test_a_foreign_core_is_the_file_the_kernel_would_write(built: Path, cwd: Path) -> None:
    # GIVEN the previous pattern was a relative path
    with installed(previous="core.%e.%p.%s") as place:
        # WHEN an unprivileged user's program crashes in its own folder
        os.chown(cwd, NOBODY, NOBODY)
        status = run(built / "foreign", cwd, user=NOBODY)
        # THEN its core lies there, its own, private, whole, and nothing of it in our store
        assert until(lambda: any(whole(path) for path in cwd.glob("core.foreign.*.11")))
        found = next(cwd.glob("core.foreign.*.11")).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, NOBODY, 0o600)
        core = read_core(next(cwd.glob("core.foreign.*.11")))
        assert (core.signal, core.fault_address, core.cut) == (11, 8, False)
        assert os.WCOREDUMP(status)
        assert not place.store.exists()


def test_no_core_where_the_limit_says_none_and_a_bounded_one_below_it(built: Path, cwd: Path) -> None:
    with installed(previous="core.%P"):
        run(built / "foreign", cwd, 0)
        run(built / "foreign", cwd, 1 << 20, 0, "8")
        assert until(lambda: bool(list(cwd.glob("core.*"))))
        cores = list(cwd.glob("core.*"))
        assert len(cores) == 1
        assert cores[0].stat().st_blocks * 512 <= 1 << 20


def test_a_link_in_the_core_s_place_is_not_followed(built: Path, cwd: Path) -> None:
    victim = cwd / "victim"
    victim.write_text("untouched")
    (cwd / "core").symlink_to(victim)
    with installed(previous="core"):
        run(built / "foreign", cwd)
        assert until(lambda: (cwd / "core").is_file() and not (cwd / "core").is_symlink())
    assert victim.read_text() == "untouched"


def test_a_user_gets_no_core_where_only_root_may_write(built: Path, cwd: Path) -> None:
    with installed(previous="core"):
        run(built / "foreign", cwd, user=NOBODY)
        assert [path.name for path in cwd.iterdir()] == ["foreign"]


HELPER = """#!/bin/sh
printf '%s\\n' "$@" > OUT.tmp; tr '\\0' '\\n' < /proc/self/environ > OUT.env; cat > OUT.core; mv OUT.tmp OUT
"""


@pytest.mark.parametrize("settings", [None, b"\xff\x00 nonsense", "folder"])
def test_a_previous_program_gets_arguments_and_core_whatever_our_settings(
    built: Path, cwd: Path, settings: bytes | str | None
) -> None:
    # GIVEN a previous handler that is a program, and settings that may be damaged
    helper, out = cwd / "helper", cwd / "out"
    helper.write_text(HELPER.replace("OUT", str(out)))
    helper.chmod(0o755)
    with installed(previous=f"|{helper} %P %s %c %e -x%E %%") as place:
        if settings is not None:
            (place.folder / SETTINGS).unlink()
        if isinstance(settings, bytes):
            (place.folder / SETTINGS).write_bytes(settings)
        elif settings:
            (place.folder / SETTINGS).mkdir()
        # WHEN a foreign program with a core limit of 0 crashes
        run(built / "foreign", cwd, 0)
        # THEN the program was called as the kernel would have called it
        assert until(out.exists)
    words = out.read_text().split("\n")[:-1]
    assert words[1:4] == ["11", "0", "foreign"]
    assert words[4] == "-x" + str(cwd / "foreign").replace("/", "!")
    assert words[5] == "%"
    assert read_core(Path(f"{out}.core")).pid == int(words[0])
    assert "LC_CTYPE" not in Path(f"{out}.env").read_text()


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_ours_by_its_name_although_its_file_is_gone(built: Path, cwd: Path, fate: str) -> None:
    program = cwd / "llama-server"
    shutil.copy2(built / "waiting", program)
    original = program.read_bytes()
    with installed() as place:
        running = subprocess.Popen([program], stdin=subprocess.PIPE, cwd=cwd)
        until(lambda: os.readlink(f"/proc/{running.pid}/exe") == str(program))
        program.unlink()
        if fate == "replaced":
            shutil.copy2(built / "foreign", program)
        running.communicate(b"\n")
        capture = place.one()
        told = manifest(capture)
        assert told["process"]["exe"]["deleted"]
        assert (capture / "exe").read_bytes() == original
        assert told["copies"] == [{"file": "exe", "name": "exe", "size": len(original)}]


def test_a_renamed_server_is_known_by_its_texts(cwd: Path) -> None:
    # GIVEN a program of another name, larger than a mebibyte, that holds the server's texts
    texts = 'const char big[1 << 20] = {1}; const char *volatile t = "update_slots all slots are idle";\n'
    source = texts + CRASHER.replace("return 0;", "return big[argc] + t[0];")
    program = compiled(cwd, "anything", source)
    with installed() as place:
        subprocess.run([program], cwd=cwd, check=False)
        assert manifest(place.one())["mark"] == "texts in anything"


def test_a_pid_namespace_has_both_numbers_of_every_thread(built: Path, cwd: Path) -> None:
    with installed() as place:
        inside = f"cd {cwd} && {built}/llama-server; true"
        subprocess.run(["unshare", "-pf", "sh", "-c", inside], check=False, capture_output=True)
        capture = place.one()
        rows, told = table(capture, "threads.json"), manifest(capture)
        assert len(rows) == told["core"]["threads"] == 21
        assert told["crash"]["ns_pid"] < 50 < told["crash"]["tid"]
        assert rows[0]["dumping"]
        assert rows[0]["ns_tid"] == told["crash"]["ns_tid"]
        assert {row["ns_tid"] for row in rows} == {row["ns_tid"] for row in told["stacks"]}


def test_sockets_of_another_network_namespace(cwd: Path) -> None:
    name = Path(os.path.realpath(sys.executable)).name
    with installed(names=(name,)) as place:
        inside = f'ip link set lo up 2>/dev/null; exec {sys.executable} -c "{LISTENING}"'
        subprocess.run(["unshare", "-n", "sh", "-c", inside], check=False, cwd=cwd, capture_output=True)
        found = table(place.one(), "sockets.json")
    assert found["way"] == "sock_diag"
    assert [row["state"] for row in found["sockets"]] == ["listen"]


def test_a_full_store_and_one_of_others_pass_ours_on(built: Path, cwd: Path) -> None:
    with installed(previous="core") as place:
        place.store.mkdir(mode=0o777)
        place.store.chmod(0o777)
        run(built / "llama-server", cwd)
        assert until((cwd / "core").exists)
        assert list(place.store.iterdir()) == []


def test_many_crashes_at_once_are_all_kept(built: Path, cwd: Path) -> None:
    with installed(pipe_limit=16) as place:
        running = [subprocess.Popen([built / "llama-server"], cwd=cwd) for _ in range(12)]
        for process in running:
            process.wait()
        assert until(lambda: len(place.captures()) == 12 and not place.partial()), place.told()
        pids = {manifest(capture)["process"]["pid"] for capture in place.captures()}
        assert pids == {process.pid for process in running}
