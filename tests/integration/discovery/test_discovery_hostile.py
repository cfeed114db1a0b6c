"""Processes that do what they can to confuse or burden whoever looks at them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from collector.discovery.describe import Describer
from collector.discovery.inside import read_inside
from collector.discovery.look import HIDDEN_ARGUMENTS, HIDDEN_ENVIRONMENT, REPLACED, mark_of
from collector.discovery.model import Found
from collector.discovery.presets import MAX_BYTES, read_preset
from collector.discovery.watch import Discovery
from collector.sources.procfs import GoneError

DEADLINE = 20.0
PR_SET_NAME = 15


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The host's sleep, which calls itself a server."""
    made = tmp_path / "llama-server"
    shutil.copyfile(shutil.which("sleep") or "/bin/sleep", made)
    made.chmod(0o755)
    return made


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, *argv: str | Path, **options: object) -> int:
    """A process of ours that has begun its program; ended at the end."""
    process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    stack.callback(process.wait, DEADLINE)
    stack.callback(process.kill)
    return int(process.pid)


def describe(pid: int) -> Found:
    """Looked at until its program has begun."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            made = Describer().describe(pid, lambda _: None)
        except GoneError:
            continue
        if made is not None:
            return made.found
    raise AssertionError("no server")


def test_arguments_of_megabytes(processes: ExitStack, program: Path) -> None:
    # GIVEN more than a megabyte of arguments
    script = f"import os; os.execv({str(program)!r}, ['llama-server', '60', *(['0' * 100_000] * 12)])"
    pid = start(processes, sys.executable, "-c", script)
    found = describe(pid)
    # THEN what is kept is bounded, and the cut is named
    assert HIDDEN_ARGUMENTS in found.problems
    assert len(repr(found)) < 200_000


def test_a_name_with_escapes(processes: ExitStack, program: Path) -> None:
    # GIVEN a process whose folder, model and name carry controls
    folder = program.parent / "a\x1b[2J\nb"
    folder.mkdir()
    other = folder / "llama-server"
    shutil.copyfile(program, other)
    other.chmod(0o755)
    pid = start(processes, "bash", "-c", 'exec -a "$1" "$2" 60', "sh", "x\ny) Z 1", str(other))
    # THEN it is found all the same, under its own start and parent
    found = describe(pid)
    assert found.exe.endswith("llama-server")
    mark = mark_of(pid)
    assert mark is not None
    assert mark.parent == os.getpid()


def test_a_replaced_program(processes: ExitStack, program: Path) -> None:
    pid = start(processes, program, "60")
    describe(pid)
    program.unlink()
    found = describe(pid)
    assert found.exe == str(program)
    assert REPLACED in found.problems


def test_another_users_server_is_named_once(processes: ExitStack, program: Path) -> None:
    # GIVEN a server that this user may not look into, as an unprivileged agent sees it
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("OTHER USERS ARE NOT TESTED: needs root and setpriv")
    pid = start(processes, program, "60")
    describe(pid)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path[1:1] = sys.argv[2].split(':')\n"
        "from collector.discovery.watch import Discovery\n"
        "import os; os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "d = Discovery(events=False)\n"
        "[d.poll() for _ in range(50)]\n"
        "h = d.health(); print(h.state, h.problem, [f.pid for f in d.known()])\n"
    )
    root = str(Path(__file__).parents[3])
    said = subprocess.run(
        [sys.executable, "-c", code, root, ":".join(sys.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    # THEN it is a problem of the agent's health, with what to do, and no server
    assert said.startswith("degraded")
    assert "llama-server" in said
    assert "CAP_SYS_PTRACE" in said
    assert str(pid) not in said.rpartition("[")[2]


def test_the_environment_alone_is_hidden(
    processes: ExitStack, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN an environment that may not be read
    from collector.sources.procfs import Process

    pid = start(processes, program, "60")
    describe(pid)
    whole = Process.read

    def read(self: Process, name: str) -> bytes:
        if name == "environ":
            raise PermissionError(13, "no")
        return whole(self, name)

    monkeypatch.setattr(Process, "read", read)
    assert HIDDEN_ENVIRONMENT in describe(pid).problems


def test_a_link_out_of_its_root_leads_nowhere(processes: ExitStack, program: Path, tmp_path: Path) -> None:
    # GIVEN a process with a root of its own, in which a preset file is a link to a file of the host
    if os.geteuid() != 0:
        pytest.skip("ROOTS ARE NOT TESTED: needs root")
    jail, outside = tmp_path / "jail", tmp_path / "outside.ini"
    (jail / "etc").mkdir(parents=True)
    outside.write_text("[host]\nport = 1\n")
    (jail / "etc/out.ini").symlink_to(outside)
    (jail / "etc/in.ini").write_text("[inside]\nport = 2\n")
    (jail / "etc/chain.ini").symlink_to("/etc/in.ini")
    (jail / "etc/loop.ini").symlink_to("loop.ini")
    os.mkfifo(jail / "etc/pipe.ini")
    code = (
        f"import os,time; os.chroot({str(jail)!r}); os.chdir('/etc'); print('in', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    processes.callback(process.wait, DEADLINE)
    processes.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    pid = process.pid
    # THEN only what lies within is read, a link within as well, by absolute and relative names
    assert set(read_preset(pid, "/etc/in.ini").sections) == {"inside"}
    assert set(read_preset(pid, "/etc/chain.ini").sections) == {"inside"}
    assert set(read_preset(pid, "in.ini").sections) == {"inside"}
    for name in ("/etc/out.ini", "/etc/loop.ini", "/etc/pipe.ini", "/etc", "/../../outside.ini", "", "/none"):
        made = read_preset(pid, name)
        assert (made.sections, len(made.problems)) == ({}, 1), name
    with pytest.raises(OSError, match=r"."):
        read_inside(pid, "/etc/\0", 10)


def test_a_preset_of_one_endless_line(tmp_path: Path) -> None:
    # GIVEN a sparse file of a gigabyte, after one good section
    path = tmp_path / "preset.ini"
    with open(path, "wb") as file:
        file.write(b"[one]\nport = 1\nmodel = ")
        file.truncate(1 << 30)
    # WHEN it is read as our own process sees it
    made = read_preset(os.getpid(), str(path))
    # THEN the good part is kept and the rest is named
    assert made.sections == {"one": {"port": "1"}}
    assert f"{MAX_BYTES >> 10} KiB" in made.problems[0]


def test_a_number_used_again_is_another_life(processes: ExitStack, program: Path) -> None:
    # GIVEN a known server
    watch = Discovery(events=False)
    processes.callback(watch.close)
    process = subprocess.Popen([str(program), "60"])
    born = until(watch, process.pid, "born")
    # WHEN its process ended and the next one got its number (as the kernel is told to)
    process.kill()
    process.wait(DEADLINE)
    if os.geteuid() != 0:
        pytest.skip("NUMBERS USED AGAIN ARE NOT TESTED: needs root")
    again = same_number(processes, process.pid, program)
    if again is None:
        pytest.skip("NUMBERS USED AGAIN ARE NOT TESTED: another process was faster")
    # THEN one life ended and another began
    told: dict[str, list[Any]] = {"ended": [], "born": []}
    end = time.monotonic() + DEADLINE
    while not (told["ended"] and told["born"]):
        assert time.monotonic() < end
        changes = watch.poll()
        for kind, seen in told.items():
            seen += [one for one in getattr(changes, kind) if getattr(one, "found", one).pid == process.pid]
    assert [one.found.incarnation for one in told["ended"]] == [born.incarnation]
    assert [one.incarnation == born.incarnation for one in told["born"]] == [False]


def same_number(stack: ExitStack, pid: int, program: Path) -> int | None:
    """A new process with this number, by /proc/sys/kernel/ns_last_pid in a try of a few."""
    for _ in range(20):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return None
        process = subprocess.Popen([str(program), "60"])
        stack.callback(process.wait, DEADLINE)
        stack.callback(process.kill)
        if process.pid == pid:
            return pid
    return None


def until(watch: Discovery, pid: int, kind: str) -> Any:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        for one in getattr(watch.poll(), kind):
            if getattr(one, "found", one).pid == pid:
                return one
        time.sleep(0.01)
    raise AssertionError(kind)


def test_a_thread_name_is_not_a_program(processes: ExitStack) -> None:
    # GIVEN a process that gives itself the server's name
    code = f"import ctypes,time; ctypes.CDLL(None).prctl({PR_SET_NAME}, b'llama-server'); time.sleep(60)"
    pid = start(processes, sys.executable, "-c", code)
    end = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}/comm").read_text() != "llama-server\n":
        assert time.monotonic() < end
    # THEN it is none
    assert Describer().describe(pid, lambda _: None, search=True) is None
