"""A target is refused with one clear line, and its key never shows."""

from __future__ import annotations

from typing import Any

import pytest

from analyzers.errors import UserError
from collector.sources.target import Target

KEY = "sk-planted-secret"


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 0},
        {"port": 70000},
        {"host": "example.org"},
        {"host": "fe80::1%eth0"},
        {"scheme": "file"},
        {"api_key": f"{KEY}\r\nX-Evil: 1"},
        {"api_key": f"{KEY}ü"},
    ],
)
def test_what_cannot_be_used_is_refused_without_naming_the_key(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError) as refused:
        Target(**{"port": 8080, **wrong})
    assert KEY not in str(refused.value)


def test_the_key_stays_out_of_the_text_and_ipv6_gets_brackets() -> None:
    target = Target(8080, host="::1", api_key=KEY)
    assert KEY not in repr(target)
    assert target.base_url == "http://[::1]:8080"
