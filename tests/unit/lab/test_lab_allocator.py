"""Whose malloc a process uses, told by what it has mapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.lab.reference.allocator import SANITIZER, foreign_allocator

LINE = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42 {}\n"


def mapped(tmp_path: Path, *paths: str) -> Path:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text(
        "".join(LINE.format(each) for each in paths) + "0-1 rw-p 0 00:00 0\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/usr/lib/x86_64-linux-gnu/libasan.so.8.0.0", SANITIZER),
        ("/usr/lib/llvm-14/lib/clang/14/lib/linux/libclang_rt.asan-x86_64.so", SANITIZER),
        ("/usr/lib/x86_64-linux-gnu/libhwasan.so.0", "a sanitizer"),
        ("/usr/lib/x86_64-linux-gnu/libtsan.so.2", "a sanitizer"),
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc"),
        ("/usr/lib/libtcmalloc_minimal.so.4.5.9", "tcmalloc"),
        ("/opt/a b/libmimalloc-secure.so.2.0 (deleted)", "mimalloc"),
        ("/lib/ld-musl-x86_64.so.1", "musl"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", None),
        ("/home/jemalloc/libllama.so", None),
        ("/opt/libjemalloc.so.2/llama-server", None),
    ],
)
def test_an_allocator_is_known_by_its_library(tmp_path: Path, path: str, said: str | None) -> None:
    assert foreign_allocator(7, mapped(tmp_path, "/usr/bin/llama-server", path)) == said


def test_a_process_that_is_gone_and_our_own() -> None:
    assert foreign_allocator(os.getpid()) is None
    assert foreign_allocator(7, Path("/nonexistent")) is None
