"""The moment of sleep stays inside the request, however fast the machine is."""

from __future__ import annotations

import pytest

from collector.lab.faults.d2_unload_under_reader import SHARE_OF_REQUEST, offset_within
from collector.lab.reference.client import Answer


def answer(seconds: float) -> Answer:
    return Answer("/completion", 200, b"", None, 10.0, 10.0 + seconds)


@pytest.mark.parametrize("seconds", [0.02, 0.04])
def test_a_request_shorter_than_the_offset_is_met_inside(seconds: float) -> None:
    assert offset_within(0.1, answer(seconds)) == pytest.approx(SHARE_OF_REQUEST * seconds)


def test_a_long_request_and_one_never_timed_keep_their_offset() -> None:
    assert offset_within(0.1, answer(1.0)) == 0.1
    assert offset_within(0.1, None) == 0.1
