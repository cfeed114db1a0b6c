"""Servers, models and machines the verifier cannot work with: named as such, status 2, no verdict."""

from __future__ import annotations

import ctypes
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from verify_process import Verifier, trials_in, verified
from verify_wheels import AFFECTED, FIXED, WHEELS, write_server

from analyzers.errors import UserError
from collector.lab.native.build import Recipe, find_build
from collector.lab.reference.gguf import cached_model

pytestmark = pytest.mark.real
PINNED = ("pinned", "--defect", "D1", "--trials", "1")


def refused(folder: Path, *arguments: str, **options: object) -> str:
    """The one line with which a run is refused; it must not look like a verdict in any way."""
    status, out, err = verified(folder, *arguments, **options)
    assert status == 2, out + err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert "affected" not in out
    assert "sound" not in out
    return err


@pytest.fixture
def server(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "llama-server"
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    return write


def elf(bits: int, machine: int) -> bytes:
    return (
        b"\x7fELF"
        + bytes([2 if bits == 64 else 1, 1, 1])
        + bytes(9)
        + struct.pack("<HH", 2, machine)
        + bytes(44)
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"this is a text\n", "neither an ELF program nor a script"),
        (elf(32, 3), "32-bit i386"),
        (elf(64, 183), "aarch64"),
        (b"#!/bin/sh\nexit 0\n", "not a llama-server"),
        (b"#!/bin/sh\necho 'version: 12345 (abcdef0)'\n", "ended with status 0 instead of coming up"),
        (
            b"#!/bin/sh\n[ $1 = --version ] && echo 'version: 12345 (abcdef0)' || kill -SEGV $$\n",
            "died of SIGSEGV",
        ),
    ],
)
def test_a_binary_that_is_no_server(
    tmp_path: Path, server: Callable[[bytes], Path], content: bytes, named: str
) -> None:
    assert named in refused(tmp_path / "run", *PINNED, "--server-bin", str(server(content)))


@pytest.mark.parametrize(
    ("path", "named"), [("/bin/true", "not a llama-server"), ("/", "folder"), ("/no", "no such file")]
)
def test_a_path_that_is_no_server(tmp_path: Path, path: str, named: str) -> None:
    assert named in refused(tmp_path / "run", *PINNED, "--server-bin", path)


def test_a_server_without_a_sleep_mode(tmp_path: Path) -> None:
    old = write_server(tmp_path, FIXED, refused="--sleep-idle-seconds")
    said = refused(tmp_path / "run", *PINNED, "--server-bin", str(old))
    assert "no sleep mode" in said


def test_a_relative_path_works_as_git_bisect_gives_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_server(folder, AFFECTED)
    status, out, err = verified(folder, *PINNED, "--server-bin", "./llama-server")
    assert status == 1, out + err


@pytest.mark.parametrize(
    ("length", "named"), [(None, "cannot be opened"), (3, "not a GGUF"), (20_000, "cannot load the model")]
)
def test_a_model_that_is_missing_or_cut(tmp_path: Path, length: int | None, named: str) -> None:
    model = tmp_path / "model.gguf"
    if length is not None:
        model.write_bytes(cached_model().read_bytes()[:length])
    arguments = (*PINNED, "--version", WHEELS[FIXED], "--model", str(model))
    assert named in refused(tmp_path / "run", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("pinned", "--no-such-option"),
        ("pinned", "--trials", "0"),
        ("pinned", "--trials", "many"),
        ("pinned", "--defect", "D99"),
        ("pinned", "--version", "1", "--server-bin", "x"),
        ("pinned", "--version", "../../etc"),
        ("pinned", "--fix", "count-requests"),
        ("no-such-method",),
    ],
)
def test_a_command_line_that_cannot_be_used(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused(tmp_path / "run", *arguments)


def test_debug_shows_more_and_changes_no_status(tmp_path: Path) -> None:
    status, _, err = verified(tmp_path / "run", "pinned", "--defect", "D99", "--debug")
    assert status == 2
    assert "Traceback" in err


def test_an_output_folder_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    arguments = (*PINNED, "--version", WHEELS[FIXED])
    assert "symbolic link" in refused(tmp_path / "run", *arguments, "--output", str(tmp_path / "link"))
    (tmp_path / "file").write_text("mine")
    assert "not a folder" in refused(tmp_path / "run", *arguments, "--output", str(tmp_path / "file"))


@pytest.fixture
def stripped(tmp_path: Path) -> Path:
    """A native server without symbols, in a folder with the libraries it needs."""
    try:
        build = find_build(Recipe(11138, None, False)) or find_build(Recipe(11368, None, False))
    except UserError as error:
        pytest.skip(f"no native build: {error}")
    if build is None or shutil.which("strip") is None:
        pytest.skip("no native build in the cache, or no strip")
    copy = tmp_path / "llama-server"
    subprocess.run(["strip", "-o", str(copy), str(build.binary)], check=True)
    return copy


@pytest.mark.full
def test_without_symbols_pinned_works_and_names_nothing_it_cannot_see(tmp_path: Path, stripped: Path) -> None:
    """D3 shows itself from outside; the core of a D1 crash without symbols could be anything."""
    arguments = ("pinned", "--trials", "3", "--until-shown", "--server-bin", str(stripped), "--json", "-")
    status, out, err = verified(tmp_path / "run", *arguments, "--defect", "D3", "--defect", "D1")
    assert status in (1, 125), err
    found = {each["defect"]: each for each in json.loads(out)["findings"]}
    assert found["D1"]["conclusion"] == "inconclusive"
    assert found["D1"]["reached"] >= 1
    assert found["D3"]["conclusion"] in ("affected", "inconclusive")


def test_without_symbols_directed_says_so(tmp_path: Path, stripped: Path) -> None:
    arguments = ("directed", "--defect", "D1", "--trials", "1", "--server-bin", str(stripped))
    assert "symbol" in refused(tmp_path / "run", *arguments)


def test_without_gdb_directed_says_so(tmp_path: Path) -> None:
    arguments = ("directed", "--defect", "D1", "--trials", "1", "--version", WHEELS[AFFECTED])
    only = {"PATH": str(Path(sys.executable).parent)}
    said = refused(tmp_path / "run", *arguments, variables=only)
    assert "gdb" in said


class Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter)))


def deny_ptrace() -> None:
    """A seccomp filter that answers ptrace(2) with EPERM, as containers do; see seccomp(2)."""
    ptrace, eperm, allow = 101, 0x00050001, 0x7FFF0000
    rules = (Filter * 4)(
        Filter(0x20, 0, 0, 0),
        Filter(0x15, 0, 1, ptrace),
        Filter(0x06, 0, 0, eperm),
        Filter(0x06, 0, 0, allow),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    libc.prctl(22, 2, ctypes.byref(Program(4, rules)), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_without_the_right_to_trace_directed_says_so(tmp_path: Path) -> None:
    arguments = ("directed", "--defect", "D1", "--trials", "1", "--version", WHEELS[AFFECTED])
    said = refused(tmp_path / "run", *arguments, preexec_fn=deny_ptrace)
    assert "trac" in said.lower()


def memory_group() -> Path | None:
    """A memory control group of our own with a limit, where this machine lets us make one."""
    root = Path("/sys/fs/cgroup/memory")
    group = root / "llama-blackbox-test"
    try:
        group.mkdir(exist_ok=True)
    except OSError:
        return None
    return group


def test_an_out_of_memory_kill_is_no_crash(tmp_path: Path) -> None:
    group = memory_group()
    if group is None:
        pytest.skip(
            "no memory control group can be made here; SIGKILL stands in for it in test_verify_safety"
        )
    try:
        with Verifier(
            tmp_path / "run", *PINNED, "--version", WHEELS[FIXED], "--output", str(tmp_path / "kept")
        ) as run:
            server = run.a_server()
            (group / "cgroup.procs").write_text(str(server))
            (group / "memory.limit_in_bytes").write_text(str(4 << 20))
            status = run.end()
        assert status in (2, 125), run.err.read_text()
        assert all(each["outcome"] == "inconclusive" for each in trials_in(tmp_path / "kept"))
    finally:
        group.rmdir()
