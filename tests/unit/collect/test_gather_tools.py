"""Foreign tools are bounded in time and output, and what they say is kept from the terminal."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from collector.gather.tools import Kept, read_text, run


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_an_answer_and_a_status() -> None:
    ran = run(python("print('said')"))
    assert (ran.out, ran.status, ran.ok) == (b"said\n", 0, True)


def test_a_tool_that_is_not_there() -> None:
    ran = run(["no-such-tool-anywhere"])
    assert ran.outcome == "missing"
    assert not ran.ok
    assert "not installed" in ran.why


def test_a_tool_that_hangs_is_ended_even_when_it_closed_its_output() -> None:
    for code in ("import time; time.sleep(600)", "import os, time; os.close(1); time.sleep(600)"):
        began = time.monotonic()
        ran = run(python(code), seconds=0.5)
        assert ran.outcome == "time"
        assert time.monotonic() - began < 60


def test_a_flood_is_cut_at_the_limit() -> None:
    ran = run(python("import sys\nwhile True: sys.stdout.write('x' * 65536)"), head=100_000)
    assert ran.outcome == "size"
    assert 100_000 <= len(ran.out) <= 100_000


def test_both_ends_of_a_long_answer_stay() -> None:
    ran = run(python("for n in range(200000): print(n)"), head=1000, tail=200_000)
    assert ran.out.startswith(b"0\n1\n")
    assert ran.out.endswith(b"199999\n")
    assert ran.dropped > 0
    assert len(ran.out) < 400_000


def test_a_complaint_is_one_clean_line() -> None:
    ran = run(python("import sys; sys.stderr.write('\\n\\x1b[31mbad\\x07\\nmore'); sys.exit(4)"))
    assert ran.why == "?[31mbad?"
    assert ran.status == 4


def test_no_secret_of_the_caller_reaches_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert b"hf_secret" not in run(python("import os; print(dict(os.environ))")).out


def test_kept_counts_what_it_drops() -> None:
    kept = Kept(4, 4)
    for piece in (b"ab", b"cdef", b"ghij", b"kl"):
        kept.feed(piece)
    out = bytes(kept.head) + b"".join(kept.tail)
    assert out.startswith(b"abcd")
    assert out.endswith(b"kl")
    assert len(out) + kept.dropped == 12


def test_a_pipe_or_a_missing_file_is_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_text(tmp_path / "pipe") in (None, b"")  # and does not wait for a writer
    assert read_text(tmp_path / "gone") is None
    (tmp_path / "long").write_bytes(b"x" * 100)
    assert read_text(tmp_path / "long", 10) == b"x" * 10
