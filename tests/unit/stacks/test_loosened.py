"""A host that does not let a tool be confined whole is named; a tool confined whole leaves no gap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stackcores import tool, write_core

from analyzers.stacks import confine, eustack, gdb
from analyzers.stacks.ladder import unwind
from analyzers.stacks.loosened import WORDS, loose_gap

LETTERS = ("network", "user", "capabilities", "new-privileges")


@pytest.fixture
def loosened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host on which every child starts without an empty network namespace and as our own user."""
    start = confine.start

    def loose(*args: Any, **more: Any) -> confine.Running:
        child = start(*args, **more)
        return replace(child, loose=("network", "user"))

    monkeypatch.setattr(confine, "start", loose)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_each_confinement_has_a_word_and_none_makes_no_gap() -> None:
    assert loose_gap("eu-stack", ()) == ()
    for letter in LETTERS:
        (gap,) = loose_gap("eu-stack", (letter,))
        assert WORDS[letter] in gap.why
        assert "\n" not in gap.why


def test_eu_stacks_loose_confinement_is_a_gap_of_the_stacks(loosened: Path) -> None:
    core = write_core(loosened, [0] * 8)
    tool(loosened, "eu-stack", "printf 'TID 4000:\\n#0  0x0000000000400010 main - x\\n'")
    assert any("network" in gap.why and "user" in gap.why for gap in eustack.read_stacks(core).gaps)
    assert any("confinement of eu-stack" in gap.what for gap in unwind(core).gaps)


def test_gdbs_loose_confinement_is_a_gap_too(loosened: Path) -> None:
    tool(loosened, "gdb", "read -r line; exit 1")
    answer = gdb.ask(loosened / "core", None)
    assert [gap.what for gap in answer.loosened] == ["the whole confinement of gdb"]
    assert answer.gap is not None
