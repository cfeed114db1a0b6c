"""The benchmark's own arithmetic: what it says must be what was measured."""

from __future__ import annotations

import sys

import pytest

from tests.bench import logs
from tests.bench.measure import Chunk, MeasureError, Run, Sample, alternating, run
from tests.bench.table import Row, Section, at_least, at_most, failure, markdown, plain, seconds
from tests.bench.verdict import end_of_verdict


def test_the_verdict_ends_before_the_longest_silence() -> None:
    # GIVEN a headline at 0.2 s, the rest of the verdict by 0.3 s, and what follows at 2 s
    chunks = tuple(Chunk(at, b"x") for at in (0.1, 0.2, 0.25, 0.3, 2.0, 2.1))
    # WHEN and THEN
    assert end_of_verdict(Run(2.2, 0, chunks), headline=0.2) == 0.3


def test_the_verdict_ends_with_the_last_output_when_nothing_follows() -> None:
    chunks = (Chunk(0.2, b"x"), Chunk(0.3, b"y"))
    assert end_of_verdict(Run(3.0, 0, chunks), headline=0.2) == 0.3


def test_a_text_that_comes_in_two_pieces_is_found_at_the_second() -> None:
    made = Run(1.0, 0, (Chunk(0.1, b"SEGV-U"), Chunk(0.4, b"AF"), Chunk(0.9, b"z")))
    assert made.first(b"SEGV-UAF") == 0.4
    with pytest.raises(MeasureError, match="never named other"):
        made.first(b"other")


def test_the_peak_is_of_the_asked_stretch_only() -> None:
    made = Run(1.0, 0, (), (Sample(0.1, 10), Sample(0.5, 30), Sample(0.9, 20)))
    assert (made.peak(end=0.4), made.peak(), made.peak(begin=0.6)) == (10, 30, 20)
    with pytest.raises(MeasureError):
        made.peak(begin=0.95)


def test_memory_of_a_child_counts_with_its_parents() -> None:
    # GIVEN a program whose child fills 64 MiB WHEN watched THEN the tree had at least that
    child = "x = bytearray(b'1') * (64 << 20); import time; time.sleep(0.2)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run([sys.executable, "-c", parent], watch_memory=True).peak() > 64 << 20


def test_a_program_that_fails_is_no_measurement() -> None:
    with pytest.raises(MeasureError, match="status 3: why"):
        run([sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"])
    with pytest.raises(MeasureError, match="cannot be started"):
        run(["/nonexistent/program"])


def test_measures_take_turns() -> None:
    order: list[str] = []
    result = alternating(2, lambda: order.append("a"), lambda: order.append("b"))
    assert order == ["a", "b", "a", "b"]
    assert result == ([None, None], [None, None])


def test_goals_at_their_limits() -> None:
    assert at_least(8.0, 8)[1]
    assert not at_least(7.99, 8)[1]
    assert at_most(1.2, 1.2, "times")[1]
    assert not at_most(1.21, 1.2, "times")[1]
    assert seconds([0.3, 0.1, 0.2]) == "0.200 s (0.100-0.300)"


def test_a_missed_goal_and_a_failed_measurement_stay_in_both_tables() -> None:
    missed = Row("a", "3 times", "how", "at least 8 times", met=False)
    sections = [Section("S", (missed, failure("b", "no gdb | here"), Row("c", "1 s", "how")))]
    page = markdown(sections, [("date", "2026-12-01")], ["make bench"])
    assert "| a | 3 times | at least 8 times | MISSED | how |" in page
    assert "| b | not measured: no gdb \\| here |  | not measured |  |" in page
    assert "| c | 1 s |  |  | how |" in page
    text = plain(sections)
    assert "MISSED" in text
    assert "not measured: no gdb" in text


@pytest.mark.parametrize("shape", [logs.SPARSE, logs.BUSY, logs.DENSE])
def test_written_logs_hold_the_telling_lines_they_claim(shape: logs.Shape, tmp_path: object) -> None:
    # GIVEN a short log of a shape WHEN the parser reads it
    from pathlib import Path

    from analyzers.logs.scan import read_text

    path = Path(str(tmp_path)) / "log"
    size = logs.write(path, shape, 200_000)
    reading = read_text(path)
    # THEN its size is the file's, it is one life, and each launch has its release
    assert size == path.stat().st_size >= 200_000
    assert (len(reading.lives), reading.process_starts) == (1, 1)
    assert reading.counts["task-launched"] == reading.counts["task-done"] > 5


def test_stamps_read_as_the_server_prints_them() -> None:
    assert logs.stamp(61_002_003) == "1.01.002.003"
