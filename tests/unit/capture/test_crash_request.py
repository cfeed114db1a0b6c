"""The kernel's arguments, the pattern that asks for them, and their expansion for the previous handler."""

from __future__ import annotations

import pytest

from collector.capture.crash.request import LETTERS, core_pattern, expand, parse

NUMBERS = "4000,12,3,4003,11,1796195973,1,3,0,1000,1001,5"


def test_the_pattern_names_every_number_in_one_word() -> None:
    line = core_pattern("/usr/bin/python3", "/usr/lib/llama-blackbox/crash/__main__.py")
    assert line.startswith("|/usr/bin/python3 -ISB /usr/lib/")
    assert line.split()[3] == ",".join(f"%{letter}" for letter in LETTERS)
    assert line.split()[4:] == ["%h", "%e", "%E"]
    assert len(line) <= 127


@pytest.mark.parametrize(
    "path", ["/a b/__main__.py", "relative/__main__.py", "/a%p/__main__.py", "/" + "x" * 90]
)
def test_a_path_the_kernel_would_not_run_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="kernel"):
        core_pattern("/usr/bin/python3", path)


def test_values_by_letter_and_their_expansion() -> None:
    crash = parse([NUMBERS, "host", "llama thread", "!opt!llama-server"])
    assert (crash.pid, crash.tid, crash.number("p"), crash.core_limit) == (4000, 4003, 12, 0)
    assert crash.program == "/opt/llama-server"
    assert expand("/c/%e.%p.%P.%%.%s.%f.%q%", crash) == "/c/llama thread.12.4000.%.11.llama-server."


def test_what_an_older_kernel_does_not_know_is_missing_not_shifted() -> None:
    crash = parse(["4000,12,3,4003,11,1796195973,1,,0,1000,1001,", "host", "e", "!x"])
    assert (crash.number("F"), crash.number("C"), crash.number("g")) == (None, None, 1001)


def test_blanks_split_by_an_older_kernel_are_put_together() -> None:
    crash = parse([NUMBERS, "host", "my", "thread", "!opt!my", "server"])
    assert (crash.values["e"], crash.values["E"]) == ("my thread", "!opt!my server")


@pytest.mark.parametrize("words", [[], ["4000"], ["1,2,3", "host"], ["x" + NUMBERS, "host", "e", "E"]])
def test_foreign_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(words)
