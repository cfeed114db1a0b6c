"""A manifest's numbers may be any that JSON can write: what no kernel counts is not believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.capture.kept.captures import captures
from collector.capture.listing import as_text, table

NAME = "20261202T080000Z-4242-5"


@pytest.mark.parametrize("number", [10**400, -1, 1e308, float("inf"), float("nan"), True, "4242", None, [1]])
def test_numbers_that_none_can_be_are_left_out(tmp_path: Path, number: object) -> None:
    # GIVEN a capture whose manifest says one such number everywhere
    folder = tmp_path / NAME
    folder.mkdir()
    told = {
        "crash": {"time": number, "signal": number},
        "process": {"pid": number, "start_ticks": number, "ticks_per_second": number},
        "clocks": {"realtime": number},
    }
    (folder / "capture.json").write_text(json.dumps(told))
    # WHEN it is listed THEN the folder's name says when and who
    (found,) = captures(tmp_path)
    assert (found.pid, found.signal, found.start_seconds) == (4242, None, None)
    assert found.wall == 1796198400.0
    assert "2026-12-02" in table(tmp_path)
    assert json.loads(as_text(tmp_path))["captures"][0]["pid"] == 4242
