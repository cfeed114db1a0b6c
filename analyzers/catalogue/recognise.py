"""Which build is this? By build-id, else by the names in the binary, else by what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from analyzers.catalogue.builds import TEXT_LIMIT, build_number_of
from analyzers.catalogue.model import KnownBuild, Recognised, Sign

HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")
SHORTEST = 7  # hex digits of a commit, as git abbreviates it
UNKNOWN = Recognised(None, None, None, "unknown", "nothing names its build")


def recognise(
    wheel: KnownBuild | None,
    signs: Sequence[Sign],
    found: Iterable[str],
    commits: Mapping[str, int],
    version_text: str | None,
) -> Recognised:
    """The surest answer there is. ``found``: ids of the signs the binary has; see ``Defects.recognise``."""
    if wheel is not None:
        whose = f"its build-id is that of {wheel.distribution} {wheel.version} ({wheel.method} {wheel.date})"
        return Recognised(wheel.build, wheel.build, wheel.build, "build-id", whose, wheel)
    names = frozenset(found)
    seen = [sign for sign in signs if sign.id in names and (sign.after or sign.before)]
    said = _said(commits, version_text)
    return _by_names(seen, said) if seen else said


def _by_names(seen: Sequence[Sign], said: Recognised) -> Recognised:
    low = max((sign.after + 1 for sign in seen if sign.after is not None), default=None)
    high = min((sign.before - 1 for sign in seen if sign.before is not None), default=None)
    if low is not None and high is not None and low > high:
        return Recognised(
            None, None, None, "unknown", "its names contradict each other: it is no build that was looked at"
        )
    telling = [sign for sign in seen if sign.after == (low or 0) - 1 or sign.before == (high or -2) + 1]
    because = "; ".join(f"it has {sign.symbol}" for sign in telling)
    number = said.build
    if number is None:
        return Recognised(None, low, high, "marks", because)
    if (low is not None and number < low) or (high is not None and number > high):
        return Recognised(
            None, low, high, "marks", f"{because}; so it is not b{number}, which its version text says"
        )
    return Recognised(number, number, number, f"{said.how} and marks", f"{said.because}; its names agree")


def _said(commits: Mapping[str, int], version_text: str | None) -> Recognised:
    text = (version_text or "")[:TEXT_LIMIT]
    for found in HASH.finditer(text.lower()):
        number = _commit(commits, found.group())
        if number is not None:
            return Recognised(number, number, number, "commit", f"commit {found.group()} is b{number}")
    number = build_number_of(text)
    if number is None:
        return UNKNOWN
    return Recognised(number, number, number, "version text", f"it calls itself b{number}")


def _commit(commits: Mapping[str, int], text: str) -> int | None:
    """A known commit, abbreviated here or there."""
    same = (number for known, number in commits.items() if known.startswith(text) or text.startswith(known))
    return next(same, None)
