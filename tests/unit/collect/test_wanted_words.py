"""What a person may name: units, processes, times, boots; and what never reaches a tool's command line."""

from __future__ import annotations

import pytest

from analyzers.errors import UserError
from collector.gather.wanted import Wanted, since_time, wanted

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", NOW - 90),
        ("2h", NOW - 7200),
        ("30 min ago", NOW - 1800),
        ("-1d", NOW - 86_400),
        ("@55.5", 55.5),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert since_time(text, NOW) == seconds


def test_a_date_is_local_time_and_one_with_a_zone_is_not() -> None:
    assert since_time("2026-12-01T10:00:00Z") == since_time("2026-12-01 11:00+01:00")
    assert since_time("2026-12-01 10:00") - since_time("2026-12-01") == 36_000


@pytest.mark.parametrize(
    "text", ["", "yesterday-ish", "2h; reboot", "@", "9" * 40 + "w", "--until=1", "@1e9"]
)
def test_no_time(text: str) -> None:
    with pytest.raises(UserError) as refused:
        since_time(text, NOW)
    assert "--since" in str(refused.value)


def test_a_unit_without_a_suffix_is_a_service() -> None:
    assert wanted(unit="llama").unit == "llama.service"
    assert wanted(unit="llama@gpu0.service").unit == "llama@gpu0.service"
    assert wanted(unit="run-1.scope").unit == "run-1.scope"


@pytest.mark.parametrize("text", ["", "-x", "--output=json", "a b", "a/b", "a\nb", "x" * 300, "+"])
def test_no_unit(text: str) -> None:
    with pytest.raises(UserError):
        wanted(unit=text)


@pytest.mark.parametrize("text", ["0", "-1", "0123456789abcdef" * 2, "01234567-89ab-cdef-0123-456789abcdef"])
def test_boots(text: str) -> None:
    assert wanted(boot=text).boot in (text, "0123456789abcdef" * 2)


@pytest.mark.parametrize("text", ["", "all", "-", "0 ", "--x", "0123", "f" * 31, "-12345"])
def test_no_boot(text: str) -> None:
    if text.strip() in ("0", "0123"):
        assert wanted(boot=text).boot == text.strip()
        return
    with pytest.raises(UserError):
        wanted(boot=text)


@pytest.mark.parametrize("number", [0, -1, 1 << 23])
def test_no_process(number: int) -> None:
    with pytest.raises(UserError):
        wanted(pid=number)


def test_the_words_name_what_was_asked() -> None:
    assert Wanted().words == "any"
    assert wanted(unit="llama", pid=7).words == "unit llama.service, PID 7"
