"""Every control character and every mark that turns text, in every field of every rendering."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.cli.screen import typed
from analyzers.contracts.report import Report
from analyzers.render.words import reproduce

Rendering = Callable[[Report], str]
C0 = "".join(map(chr, range(0x20)))
C1 = "".join(map(chr, range(0x7F, 0xA0)))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
LINES = "\u2028\u2029\x0b\x0c\x85\x1c\x1d\x1e"
EVERY = [*C0, *C1, *BIDI, *LINES, "\u200b", "\ufeff", "\u00ad", "\U000e0041"]
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("text", [C0, C1, BIDI, LINES], ids=["C0", "C1", "bidi", "lines"])
def test_none_reaches_a_reader(text: str, rendering: Rendering, hostile: Callable[[str], Report]) -> None:
    # GIVEN all characters of a kind behind every string WHEN rendered
    made = rendering(hostile(text))
    # THEN line ends, which the rendering made itself, are the only ones there
    assert {c for c in made if unicodedata.category(c) in HIDDEN} <= {"\n"}


@pytest.mark.parametrize("break_", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_no_break_but_a_newline_makes_a_command_of_its_own(
    break_: str, rendering: Rendering, hostile: Callable[[str], Report]
) -> None:
    # GIVEN a command with a name in it that holds a break, and what would be a second command behind that
    made = rendering(hostile(f"{break_}FORGED --now"))
    # THEN nothing invites to copy it by itself
    assert "$ FORGED" not in made


@pytest.mark.parametrize("char", EVERY, ids=lambda char: f"U+{ord(char):04X}")
def test_a_typed_line_with_one_is_not_repeated(char: str) -> None:
    assert typed([Path(f"a{char}b")], [], None) is None
    assert typed([Path("ab")], [("--exe", f"x{char}")], None) is None


def test_a_typed_line_without_one_is() -> None:
    assert typed([Path("a b")], [], None) == "llama-blackbox triage 'a b'"


def test_the_command_that_reproduces_is_one_line(hostile: Callable[[str], Report]) -> None:
    assert "\n" not in reproduce(hostile("\nrm -rf x"))


NAMES = ("a\nb", "a\x1b[31mb", "a\u202eb", "a\x9b2Jb")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize(
    "way", [[], ["--markdown"], ["--json"], ["--html"]], ids=["term", "md", "json", "html"]
)
def test_files_of_such_names_are_triaged_quietly(name: str, way: list[str], tmp_path: Path) -> None:
    """GIVEN a log and a page whose names hold one WHEN the command prints THEN both streams stay clean."""
    (tmp_path / name).write_text("0.00.000.439 I srv          init: initializing ...\n")
    options = [*way, f"{name}.html"] if way == ["--html"] else way
    entry = "import sys; from analyzers.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", entry, "triage", "--fast", name, *options]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 3
    said = ran.stdout + ran.stderr
    assert {c for c in said if unicodedata.category(c) in HIDDEN} <= {"\n"}
    assert "a\nb" not in said
