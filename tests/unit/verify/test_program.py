"""Files that are said to be a llama-server: each named for what it is, none of them left running."""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.errors import UserError
from collector.lab.verify import identity
from collector.lab.verify.identity import code_of, identify_native, signal_name, version_text
from collector.lab.verify.program import ask, demand_program
from elffiles import STRTAB, ElfBuilder

Write = Callable[[str, str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Write:
    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


def elf(path: Path, *, bits: int = 64, machine: int = 62, kind: int = 3) -> Path:
    head = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]) + bytes(9)
    path.write_bytes(head + struct.pack("<HH", kind, machine) + bytes(44))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ({"bits": 32, "machine": 3}, "32-bit i386"),
        ({"bits": 32, "machine": 40}, "32-bit arm"),
        ({"machine": 183}, "aarch64"),
        ({"machine": 243}, "riscv"),
        ({"machine": 999}, "machine 999"),
        ({"bits": 32}, "32-bit"),
        ({"kind": 1}, "not a program"),
        ({"kind": 4}, "not a program"),
    ],
)
def test_programs_for_other_machines_are_named(tmp_path: Path, kind: dict[str, int], named: str) -> None:
    with pytest.raises(UserError, match=named):
        version_text(elf(tmp_path / "llama-server", **kind))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"hello\n", "neither an ELF program nor a script"),
        (b"", "neither"),
        (b"\x7fELF", "neither"),
        (b"MZ\x90", "Windows"),
    ],
)
def test_files_that_are_no_program_are_named(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "llama-server"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(UserError, match=named):
        demand_program(path)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    plain = tmp_path / "plain"
    plain.write_bytes(b"#!/bin/sh\n")
    for path, named in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "folder"),
        (tmp_path / "pipe", "not a regular file"),
        (plain, "may not be executed"),
        (Path("/etc/passwd"), "neither an ELF program nor a script"),  # not: chmod +x makes it one
        (plain / "below", "cannot be read"),
    ):
        with pytest.raises(UserError, match=named):
            demand_program(path)


@given(st.binary(max_size=64))
def test_no_bytes_are_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "llama-server"
    path.write_bytes(content)
    path.chmod(0o755)
    try:
        demand_program(path)
    except UserError:
        assert not content.startswith(b"#!")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("echo 'true (GNU coreutils) 9.1'", "true .GNU coreutils. 9.1"),
        ("exit 3", "printed nothing"),
        ("kill -SEGV $$", "died of SIGSEGV"),
        (r"printf '\033[31mred\n'", r"\?\[31mred"),
        ("echo 'no version: 12345 here'", "no version"),
    ],
)
def test_programs_that_are_no_llama_server_are_named(script: Write, body: str, named: str) -> None:
    with pytest.raises(UserError, match=named) as refused:
        identify_native(script("llama-server", body))
    assert str(refused.value).isprintable()


def test_an_interpreter_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with pytest.raises(UserError, match="No such file"):
        version_text(path)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pids: list[int], deadline: float = 10.0) -> bool:
    end = time.monotonic() + deadline
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(alive, pids))


@pytest.mark.parametrize(
    "body",
    [
        "sleep 600 & echo $! >{pids}; echo $$ >>{pids}; wait",
        "sleep 600 & echo $! >{pids}; echo $$ >>{pids}; exec >&- 2>&-; wait",
        "trap '' TERM INT HUP; sleep 600 & echo $! >{pids}; while true; do wait; sleep 1; done",
    ],
    ids=["hangs", "closes its output and hangs", "heeds no signal"],
)
def test_a_program_that_hangs_is_killed_with_its_children(
    script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(identity, "VERSION_DEADLINE", 0.5)
    pids = tmp_path / "pids"
    with pytest.raises(UserError, match="printed nothing for"):
        identify_native(script("llama-server", body.format(pids=pids)))
    assert gone([int(line) for line in pids.read_text().split()])


def test_a_child_left_behind_is_killed_too_and_holds_nobody_up(script: Write, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = script("llama-server", f"sleep 600 & echo $! >{pids}\necho 'version: 12345 (abcdef012)'")
    assert identify_native(path).build == 12345
    assert gone([int(pids.read_text())])


def test_output_without_end_is_cut(script: Write) -> None:
    said = ask(script("flood", "exec yes"), [], 30.0, 1000)
    assert len(said.text) == 1000
    assert said.code is None


def test_megabytes_before_the_version_are_not_read(script: Write) -> None:
    path = script(
        "llama-server", "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo 'version: 12345 (abcdef0)'"
    )
    with pytest.raises(UserError, match="xxx"):
        version_text(path)


def test_a_hostile_version_is_bounded_and_printable(script: Write) -> None:
    path = script("llama-server", r"printf 'version: \033[31m%s' $(head -c 9000 /dev/zero | tr '\0' x)")
    subject = identify_native(path)
    assert subject.version is not None
    assert subject.version.isprintable()
    assert len(subject.version) <= 300
    assert subject.name == "llama-server"
    assert subject.build is None


@pytest.mark.parametrize(
    ("version", "build"),
    [
        ("version: 10293 (a1f96d4fc)", 10293),
        ("version: 0.1.0-dev (build 10454, commit 4df29be4f)", 10454),
        ("version: 0.5.0-dev (build 0, commit unknown)", None),
        ("version: 1 (1705d43)", None),
        ("version: b0-unknown", None),
        ("version: 99999999999999999999", None),
    ],
)
def test_a_build_number_is_taken_only_from_a_text_that_can_be_trusted(
    script: Write, version: str, build: int | None
) -> None:
    subject = identify_native(script("llama-server", f"echo '{version}'"))
    assert subject.build == build
    assert subject.name == (f"b{build} (llama-server)" if build else "llama-server")
    assert subject.version == version


@pytest.mark.parametrize(
    ("names", "asan"),
    [
        (b"\0malloc\0__asan_init\0", True),
        (b"\0libasan.so.8\0libc.so.6\0", True),
        (b"\0libclang_rt.asan-x86_64.so\0", True),
        (b"\0libc.so.6\0not__asan_init\0", False),
        (b"\0", False),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_sanitized_build_is_known_by_its_names_in_the_program_or_the_library_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: bytes, asan: bool, shared: bool
) -> None:
    # GIVEN a build of the user's own, named by path alone
    program = tmp_path / "llama-server"
    linked = b"\0libllama-server-impl.so\0" if shared else names
    program.write_bytes(ElfBuilder().section(".dynstr", linked, STRTAB).bytes())
    if shared:
        library = ElfBuilder().section(".dynstr", names, STRTAB).bytes()
        (tmp_path / "libllama-server-impl.so").write_bytes(library)
    monkeypatch.setattr(identity, "version_text", lambda _: "version: 12345 (abcdef0)")
    # WHEN THEN
    assert identify_native(program).asan is asan


def test_a_program_runs_in_an_empty_folder_with_nothing_to_read(script: Write, tmp_path: Path) -> None:
    said = ask(script("look", "pwd; ls | wc -l; cat; echo end"), [], 10.0, 1000)
    where, count, *rest = said.text.splitlines()
    assert not where.startswith(str(tmp_path))
    assert count.strip() == "0"
    assert rest == ["end"]
    assert not Path(where).exists()


def test_the_file_with_the_code_is_the_program_unless_it_is_linked_with_the_library(tmp_path: Path) -> None:
    program = elf(tmp_path / "llama-server")
    (tmp_path / "libllama-server-impl.so").write_bytes(b"stale")
    assert code_of(program) == program


def test_signals_without_a_name_have_a_number() -> None:
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(99) == "signal 99"


def test_scripts_of_the_tests_may_be_executed(script: Write) -> None:
    assert script("x", "true").stat().st_mode & stat.S_IXUSR
