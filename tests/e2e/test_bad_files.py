"""Things that are no evidence, or cannot be read: one line and status 2, or an honest verdict."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest
from bad_material import FAULT, RANDOM, START, open_folder, put, without_rights, zst
from bad_run import UNDECIDED, VERDICT, Outcome, inert, judged, quick, refused, spawn, triage, untouched

from analyzers.cli.main import main
from tests.fixtures.elfcore import header

NO_EVIDENCE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "random bytes": (RANDOM.randbytes(70_000), "neither a core, a bundle nor text"),
    "picture": (b"\x89PNG\r\n\x1a\n" + RANDOM.randbytes(5000), "a picture"),
    "zip": (b"PK\x03\x04" + RANDOM.randbytes(500), "a zip archive that cannot be read"),
    "model": (b"GGUF" + bytes(500), "a model file"),
    "journal file": (b"LPKSHHRH" + bytes(5000), "journalctl --file"),
    "UTF-16": (START.encode("utf-16"), "iconv"),
    "executable": (Path("/proc/self/exe").read_bytes()[:200_000], "--exe"),
    "object file": (header(1) + bytes(200), "an ELF file, not a core"),
    "32-bit core": (header(4, 3, bits=1) + bytes(200), "32-bit"),
    "aarch64 core": (header(4, 183) + bytes(200), "aarch64"),
    "big-endian core": (header(4, 21, endian=2) + bytes(200), "big-endian"),
    "core header cut": (header(4)[:40], "cut inside its first 64 bytes"),
    "legacy lz4": (b"\x02\x21\x4c\x18" + RANDOM.randbytes(90), "lz4 -d"),
    "damaged lz4": (b"\x04\x22\x4d\x18" + RANDOM.randbytes(90), "cut or damaged"),
    "damaged gzip": (gzip.compress(b"x" * 999)[:10] + b"\xff" * 99, "cut or damaged"),
    "damaged xz": (b"\xfd7zXZ\0" + b"q" * 40, "cut or damaged"),
    "damaged zstd": (zst(START.encode() * 99)[:30], "cut or damaged"),
    "packed rubbish": (gzip.compress(RANDOM.randbytes(9000)), "neither a core, a bundle nor a log is in it"),
}


@pytest.mark.parametrize("name", NO_EVIDENCE)
def test_what_is_no_evidence_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    data, told = NO_EVIDENCE[name]
    path = put(tmp_path / "given", data)
    with untouched(path):
        refused(triage(path), str(path), told)


def test_a_shared_library_of_this_machine_is_no_core() -> None:
    rows = Path("/proc/self/maps").read_text().splitlines()
    library = next(row.split()[-1] for row in rows if ".so" in row)
    with untouched(Path(library)):
        refused(triage(library), library, "--exe")


TEXTS = {
    "prose": b"hello\nworld\n" * 100,
    "blank": b"  \n\n",
    "one byte": b"x",
    "NUL bytes": bytes(9000),
    "invalid UTF-8": b"\xff\xe9\xc3\x28\n" * 500,
    "line feeds": b"\r\n" * 500,
    "an ELF magic later": b"x\x7fELF",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_says_nothing_is_undecided_and_says_so(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / "given", TEXTS[name])
    with untouched(path):
        outcome = quick(path)
    report = judged(outcome, "anything telling in given")
    assert outcome.status == UNDECIDED
    assert report["verdict"]["class"] == "UNDETERMINED"


@pytest.mark.parametrize("filling", [bytes(70_000), b"\xff\xfe\x00 \x9b\n" * 900, b"\x1b]0;x\x07\n" * 900])
def test_rubbish_around_a_log_does_not_hide_it(tmp_path: Path, filling: bytes) -> None:
    log = put(tmp_path / "server.log", START.encode() + filling + b"\n" + START.encode())
    kernel = put(tmp_path / "kern.log", FAULT)
    with untouched(log, kernel):
        report = judged(quick(log, kernel))
    assert report["verdict"]["class"] == "SEGV"


def test_pipes_sockets_devices_and_dead_ends_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path, told in (
        (pipe, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (Path("/dev/urandom"), "not a regular file"),
        (Path("/dev/null"), "not a regular file"),
        (loop, "symbolic links"),
        (tmp_path / "nothing", "no such file"),
        (tmp_path / ("n" * 300), "name too long"),
        (tmp_path, "a folder and no bundle"),
    ):
        refused(triage(path), told)
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
        listener.bind("sock")
        refused(triage("sock"), "sock", "cannot be opened")


def test_a_pipe_does_not_hold_up_the_real_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(spawn(tmp_path / "pipe"), str(tmp_path / "pipe"), "not a regular file")


def test_a_name_with_control_characters_is_shown_harmless(tmp_path: Path) -> None:
    refused(triage(tmp_path / "a\x1b[2J\nllama-blackbox: forged"), "a?[2J?llama-blackbox: forged")
    path = put(tmp_path / "b\x1b]0;owned\x07", START)
    outcome = triage(path)
    assert outcome.status == UNDECIDED
    inert(outcome.out)


def test_what_may_not_be_read_is_refused(tmp_path: Path) -> None:
    assert quick(put(tmp_path / "imports everything", START)).status == UNDECIDED
    with open_folder() as place:
        file, folder = put(place / "secret.log", START), place / "closed"
        put(folder / "manifest.json", "{}")
        file.chmod(0)
        folder.chmod(0)
        try:
            for path in (file, folder, folder / "manifest.json"):
                outcome = Outcome(*without_rights(lambda path=path: main(["triage", str(path)])))
                refused(outcome, str(path), "permission denied")
            exe = Outcome(*without_rights(lambda: main(["triage", "--exe", str(file), "/proc/self/status"])))
            refused(exe, f"--exe {file}", "permission denied")
        finally:
            folder.chmod(0o700)
        assert file.stat().st_mode & 0o777 == 0


@pytest.mark.parametrize("form", [["--json"], ["--markdown"], ["--html", "-"], []])
def test_terminal_escapes_stay_letters(tmp_path: Path, form: list[str]) -> None:
    # GIVEN a log whose model path and abort text try to steer the terminal
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    text = START.replace("/models/m.gguf", f"/models/{evil}.gguf")
    text += f"/src/llama.cpp/src/llama-context.cpp:12: GGML_ASSERT({evil}n > 0) failed\n"
    log = put(tmp_path / "server.log", text)
    # WHEN it is shown in every form
    with untouched(log):
        outcome = triage("--fast", *form, log)
    # THEN nothing of it can act
    assert outcome.status in (VERDICT, UNDECIDED)
    inert(outcome.out)
    inert(outcome.err)


def test_without_an_executable_there_is_one_line(tmp_path: Path) -> None:
    log = put(tmp_path / "server.log", START)
    refused(triage("--exe", tmp_path / "nothing", log), f"--exe {tmp_path / 'nothing'}: cannot be opened")
    refused(triage("--exe", tmp_path, log), f"--exe {tmp_path}: a directory")


def test_command_lines_that_make_no_sense_are_one_line(tmp_path: Path) -> None:
    log = put(tmp_path / "server.log", START)
    refused(triage("--no-such-option", log), "--no-such-option")
    refused(triage("--json", "--markdown", log), "exclude each other")
