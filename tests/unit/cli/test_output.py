"""Streams that are closed, full, narrow or left by their reader: one line and a status, never a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analyzers.cli.output import prepare_streams, printable_json, printing
from analyzers.errors import UserError

START = [sys.executable, "-c", "from analyzers.cli.main import entry; entry()"]


def run(*args: str, out: object = subprocess.PIPE, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*START, *args], stdout=out, stderr=subprocess.PIPE, timeout=60, check=False, **options
    )


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = run("--help", out=full)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"standard output: cannot be written" in done.stderr


def test_a_closed_standard_output_swallows_the_print() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *START, "explain", "D2"], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("args", [["--help"], ["explain"], ["explain", "D2"]])
def test_a_reader_that_went_away_is_no_fault(args: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        done = run(*args, out=pipe)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_behind_standard_error_still_gives_the_status(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*START, "triage", str(tmp_path / "nothing")], stderr=full, timeout=60, check=False
        )
    assert done.returncode == 2


def test_a_narrow_encoding_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    prepare_streams()
    print("\u2022 \udcff", flush=True)
    assert narrow.buffer.getvalue() == b"\\u2022 \\udcff\n"  # type: ignore[attr-defined]


def test_only_the_errors_of_writing_are_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenPipeError), printing():
        raise BrokenPipeError
    with pytest.raises(ValueError, match="mine"), printing():
        raise ValueError("mine")

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            return None

    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr("analyzers.cli.output.silence", lambda _: None)
    with pytest.raises(UserError, match="no space left"), printing():
        pass


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_is_harmless_to_a_terminal_and_the_same_to_a_parser(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    value = {"a\u009b31m": "\x1b[2J \x7f \u202egpj.exe \u2066 \ufeff caf\u00e9 \U0001f600"}
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not set(text) & set("\x1b\x7f\x9b\u202e\u2066\ufeff")
    assert text.isascii() == (encoding == "ascii")
