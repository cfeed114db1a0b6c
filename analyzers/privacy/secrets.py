"""Known secrets: every later occurrence of a value that was seen to be one is taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

from analyzers.privacy.arguments import ANYWHERE_FROM, MIN_SECRET
from analyzers.privacy.patterns import MARKERS

MAX_SECRETS = 1_000  # a key file of a thousand keys; more would make one pattern too slow to build
MAX_SECRET_SIZE = 8_192  # characters; a longer "key" is a document that was passed by mistake


def usable(secrets: Iterable[str]) -> frozenset[str]:
    """The secrets worth hunting for: neither too short, nor too long, nor the marker itself."""
    fit = (s for s in secrets if MIN_SECRET <= len(s) <= MAX_SECRET_SIZE and not _is_marker(s))
    return frozenset(sorted(fit, key=len, reverse=True)[:MAX_SECRETS])


def _is_marker(secret: str) -> bool:
    return any(secret in marker for marker in MARKERS)


def pattern_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """One pattern for all of them and for their URL and JSON spellings, longest first; None without any."""
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    if not spellings:
        return None
    return re.compile("|".join(_term(s) for s in sorted(spellings, key=lambda s: (-len(s), s))))


def _spellings(secret: str) -> tuple[str, ...]:
    inner = json.dumps(secret, ensure_ascii=False)[1:-1]
    return (
        secret,
        quote(secret, safe=""),
        inner,
        json.dumps(secret)[1:-1],
        json.dumps(inner, ensure_ascii=False)[1:-1],
    )


def _term(spelling: str) -> str:
    term = re.escape(spelling)
    return term if len(spelling) >= ANYWHERE_FROM else rf"(?<!\w){term}(?!\w)"
