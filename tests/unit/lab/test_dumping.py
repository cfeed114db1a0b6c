"""A process that is writing its core looks like one that hangs; the kernel tells them apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.lab.reference.processes import is_dumping


@pytest.mark.parametrize(
    ("line", "dumping"), [("CoreDumping:\t1", True), ("CoreDumping:\t0", False), ("", False)]
)
def test_the_kernels_own_word_decides(tmp_path: Path, line: str, dumping: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(
        f"Name:\tllama-server\nState:\tS (sleeping)\n{line}\nThreads:\t11\n"
    )
    assert is_dumping(7, tmp_path) is dumping


def test_a_living_process_is_not_dumping_and_a_gone_one_neither(tmp_path: Path) -> None:
    assert not is_dumping(os.getpid())
    assert not is_dumping(7, tmp_path)
