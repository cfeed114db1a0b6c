"""Cores that are cut, of other programs, without their executable, or read without the stack tools."""

from __future__ import annotations

import os
import random
import shutil
import struct
import sys
from pathlib import Path

import pytest
from bad_material import foreign_core, no_cores, put, zst
from bad_run import (
    UNDECIDED,
    UNUSABLE,
    VERDICT,
    inert,
    judged,
    path_without,
    quick,
    refused,
    spawn,
    triage,
    untouched,
)

from analyzers.core.buildid import build_id_of_file
from tests.fixtures.elfcore import CoreBuilder, shared_object

SLEEP = ("sleep", "1000")
needs_eu_stack = pytest.mark.skipif(shutil.which("eu-stack") is None, reason="elfutils is not installed")


@pytest.fixture
def core(tmp_path: Path) -> Path:
    return put(tmp_path / "core", foreign_core(*SLEEP))


def layout(data: bytes) -> dict[str, tuple[int, int]]:
    """First and last byte of the parts that a cut can fall into."""
    count = struct.unpack_from("<H", data, 56)[0]
    at, size = struct.unpack_from("<QQ", data, 64 + 8)[0], struct.unpack_from("<Q", data, 64 + 32)[0]
    return {
        "header": (4, 63),
        "program headers": (64, 64 + 56 * count - 1),
        "notes": (at, at + size - 1),
        "memory": (at + size, len(data) - 1),
    }


def cuts(data: bytes, part: str, number: int, seed: int) -> list[int]:
    """The part's edges and ``number`` places inside it, the same ones in every run."""
    low, high = layout(data)[part]
    return [low, high, *(random.Random(seed).randint(low, high) for _ in range(number))]


def check_cut(path: Path, data: bytes, part: str, at: int) -> None:
    path.write_bytes(data[:at])
    with untouched(path):
        outcome = quick(path)
    if part == "header":
        refused(outcome, str(path), "cut inside its first 64 bytes")
        return
    report = judged(outcome, "the core is cut")
    verdict = report["verdict"]
    # the core is of a program that was sent the signal; how much of that is left depends on the cut
    assert verdict["class"] in ("SEGV", "KILLED", "UNDETERMINED"), at
    assert verdict["confidence"] in ("weak", "undetermined")
    assert verdict["cause"] == "unknown"
    if part == "memory":
        assert report["process"]["signal"] == "SIGSEGV"


@pytest.mark.parametrize("part", ["header", "program headers", "notes", "memory"])
def test_a_core_cut_anywhere_is_read_as_far_as_it_goes(core: Path, part: str) -> None:
    data = core.read_bytes()
    for at in cuts(data, part, 3, 1):
        check_cut(core, data, part, at)


@pytest.mark.full
@pytest.mark.parametrize("part", ["header", "program headers", "notes", "memory"])
def test_a_core_cut_at_two_hundred_places(core: Path, part: str) -> None:
    data = core.read_bytes()
    for at in cuts(data, part, 50, 2):
        check_cut(core, data, part, at)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_packed_core_that_is_cut_says_so(core: Path, share: float) -> None:
    packed = zst(core.read_bytes())
    path = put(core.with_name("core.zst"), packed[: int(len(packed) * share)])
    with untouched(path):
        outcome = quick(path)
    if outcome.status == UNUSABLE:
        refused(outcome, str(path), "cut or damaged")
    else:
        judged(outcome, "the core is cut")


@pytest.mark.full
def test_flipped_bytes_never_bring_the_reader_down(core: Path) -> None:
    data, dice = core.read_bytes(), random.Random(3)
    end = layout(data)["notes"][1]
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(dice.choice((1, 8, 64))):
            broken[dice.randrange(16, end)] = dice.randrange(256)
        core.write_bytes(broken)
        outcome = quick(core)
        if outcome.status == UNUSABLE:
            refused(outcome, str(core))
        else:
            judged(outcome)


@pytest.mark.parametrize(
    "argv",
    [SLEEP, (sys.executable, "-c", "print(flush=True); import time; time.sleep(1000)")],
    ids=["sleep", "python"],
)
def test_the_core_of_another_program_is_not_blamed_on_it(tmp_path: Path, argv: tuple[str, ...]) -> None:
    core = put(tmp_path / "core", foreign_core(*argv))
    with untouched(core):
        report = judged(triage("--json", core), "a core of llama-server", "no llama.cpp code")
    verdict = report["verdict"]
    assert (verdict["class"], verdict["cause"], verdict["defect"]) == ("KILLED", "unknown", None)
    assert verdict["confidence"] in ("weak", "undetermined")


@needs_eu_stack
def test_the_wrong_executable_is_named_by_both_build_ids(core: Path) -> None:
    wrong = shutil.which("ls")
    assert wrong is not None
    with untouched(core, Path(wrong)):
        outcome = quick("--exe", wrong, core)
    ours, theirs = build_id_of_file(Path(shutil.which("sleep") or "")), build_id_of_file(Path(wrong))
    judged(outcome, "the executable: ls", f"build-id {theirs}", f"made by {ours}")


@needs_eu_stack
def test_the_right_executable_is_no_gap(core: Path) -> None:
    report = judged(quick("--exe", shutil.which("sleep"), core))
    assert "the executable" not in [gap["what"] for gap in report["gaps"]]


@pytest.mark.parametrize("given", ["script", "pipe", "folder", "nothing"])
def test_an_executable_that_is_none_is_one_line(core: Path, tmp_path: Path, given: str) -> None:
    exe = tmp_path / "exe"
    if given == "script":
        put(exe, "#!/bin/sh\nexec llama-server\n")
    elif given == "pipe":
        os.mkfifo(exe)
    elif given == "folder":
        exe.mkdir()
    with untouched(core):
        refused(quick("--exe", exe, core), str(exe))


def test_an_executable_without_build_id_is_used_and_named(core: Path, tmp_path: Path) -> None:
    exe = put(tmp_path / "sleep", shared_object(b""))
    with untouched(core, exe):
        judged(quick("--exe", exe, core), "the file has no build-id")


def test_a_missing_object_is_named_with_its_build_id(tmp_path: Path) -> None:
    path = gone_server().write(tmp_path / "core")
    with untouched(path):
        outcome = quick(path)
    judged(outcome)
    assert "cd" * 20 in outcome.gaps
    assert "llama-server" in outcome.gaps


def gone_server(name: str = "/srv/nowhere/llama-server") -> CoreBuilder:
    """A core whose program is not on this machine."""
    image = shared_object(b"\xcd" * 20)[:4096].ljust(8192, b"\x90")
    stack = struct.pack("<4Q", 0x401200, 0x401300, 0, 0).ljust(4096, b"\0")
    build = CoreBuilder(fault=8, auxv={3: 0x400040})
    build.thread(4000, rip=0x401100, rsp=0x7FFF_0000, orig_rax=(1 << 64) - 1)
    build.file(0x400000, 0x402000, 0, name)
    return build.load(0x400000, image, 5).load(0x7FFF_0000, stack)


def test_hostile_names_in_a_core_stay_text(tmp_path: Path) -> None:
    build = gone_server()
    build.program = b"llama\xff\x1b[31m\n"
    build.arguments = b"llama-server \xff\x1b]0;owned\x07 --alias \x9b31m"
    build.files[0] = (*build.files[0][:3], b"/srv/\xff\x1b]0;owned\x07\xe2\x80\xae/../llama-server")
    path = build.write(tmp_path / "core")
    for form in (
        ["--json"],
        ["--markdown"],
        ["--html", "-"],
        [],
        ["--json", "--include-private"],
        ["--include-private"],
    ):
        with untouched(path):
            outcome = triage("--fast", *form, path)
            assert outcome.status in (VERDICT, UNDECIDED), form
            inert(outcome.out)
            inert(outcome.err)


@pytest.mark.parametrize("missing", [("gdb",), ("eu-stack",), ("gdb", "eu-stack")], ids="+".join)
def test_without_the_stack_tools_there_is_a_verdict_that_names_them(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", path_without(tmp_path / "tools", *missing))
    with untouched(core):
        outcome = triage("--json", core)
    report = judged(outcome, *(f"{tool} is not installed" for tool in missing))
    commands = "\n".join(gap["command"] or "" for gap in report["gaps"])
    for package in ("gdb" if tool == "gdb" else "elfutils" for tool in missing):
        assert f"apt-get install --no-install-recommends {package}" in commands
    assert report["process"]["signal"] == "SIGSEGV"


def test_without_any_path_the_real_command_still_answers(core: Path) -> None:
    outcome = spawn("--json", core, env={"PATH": ""}, preexec_fn=no_cores)
    judged(outcome, "eu-stack is not installed", "gdb is not installed")
    outcome = spawn("--json", core, env={"HOME": "/nonexistent"}, cwd="/", preexec_fn=no_cores)
    judged(outcome)
