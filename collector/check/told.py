"""The settings a check speaks of, each with its origin, by discovery's own resolver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzers.privacy.redact import Redactor
from collector.check.subject import Subject
from collector.discovery.look import HIDDEN_ARGUMENTS, HIDDEN_ENVIRONMENT
from collector.discovery.model import Found
from collector.discovery.settings import COMMAND_LINE, DEFAULTS, ENVIRONMENT, clean, effective

SLEEP, DRAFT, HOST = "sleep-idle-seconds", "model-draft", "host"
SHOWN = (SLEEP, HOST, "port", "metrics", "slots", "api-key", "api-key-file", "timeout", "load-mode", "mmap")
PRESET = "preset:"
# Problems of discovery after which a setting may be other than it was seen.
UNSURE = (HIDDEN_ENVIRONMENT, HIDDEN_ARGUMENTS, "configuration file", "preset file")
OVERFLOW_SECONDS = 2_147_484  # times 1000 it no longer fits an int: the limit becomes negative


@dataclass(frozen=True)
class Told:
    """``rows``: setting to (value, origin); ``sections``: of a router, what its preset file says for each
    model. ``certain`` False: a file or variable that could set more may not be read."""

    rows: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    certain: bool = True

    def get(self, name: str) -> str | None:
        """The value that was given; None where only the default holds."""
        value, origin = self.rows.get(name, ("", "default"))
        return value if origin != "default" and value else None

    def origin(self, name: str) -> str:
        return self.rows.get(name, ("", "default"))[1]

    def shown(self) -> dict[str, dict[str, str]]:
        """The settings named in SHOWN: value and origin."""
        return {
            name: dict(zip(("value", "origin"), self.rows[name], strict=True))
            for name in SHOWN
            if name in self.rows
        }


def told(subject: Subject, found: Found | None = None) -> Told:
    """Without discovery's description: what the command line and the environment say."""
    if subject.server.hosted:
        return Told(certain=False)
    if found is None:
        redactor = Redactor().knowing(args=subject.args, env=subject.env)
        raw = effective(subject.args[1:], subject.env).rows
        clear = {name: (clean(name, value, redactor), origin) for name, (value, origin) in raw.items()}
        return Told(clear, certain="environ" not in subject.unread)
    rows: dict[str, tuple[str, str]] = {}
    sections: dict[str, dict[str, str]] = {}
    for one in found.settings:
        if found.role == "router" and one.origin.startswith(PRESET):
            sections.setdefault(one.origin.removeprefix(PRESET), {})[one.name] = one.value
        else:
            rows[one.name] = (one.value, one.origin)
    unsure = any(word in line for line in found.problems for word in UNSURE)
    return Told(rows, sections, not unsure)


def limit_in(text: str, origin: str) -> tuple[int | None, str]:
    """(seconds, in words) of a sleep limit that was given somewhere. None: it cannot be told."""
    limit = int(text) if text.lstrip("-").isdigit() and len(text) < 12 and text.isascii() else None
    if limit is None:
        return None, "its sleep limit could not be read"
    if limit >= OVERFLOW_SECONDS:
        return limit, f"sleeps after {limit} s ({origin}), which overflows: it can sleep at once"
    words = "sleep is off" if limit < 0 else f"sleeps after {limit} s without work"
    return limit, f"{words} ({origin})"


def sleep_in(said: Told) -> tuple[int | None, str]:
    """The limit in force. A variable does not count: no build that was looked at reads one for it."""
    text, origin = said.rows.get(SLEEP, (DEFAULTS[SLEEP], "default"))
    if origin == ENVIRONMENT:
        return None, "LLAMA_ARG_SLEEP_IDLE_SECONDS is set, which no build that was looked at reads"
    if origin != "default":
        return limit_in(text, origin)
    if not said.certain:
        return None, "no sleep limit is seen, but not all that could set one may be read"
    return -1, "sleep is off (--sleep-idle-seconds is not given)"


def sleep_of_models(said: Told) -> tuple[int | None, str]:
    """Of a router: the shortest limit that one of its models would have. It never sleeps itself."""
    own, words = sleep_in(said)
    shared = said.sections.get("*", {}).get(SLEEP)
    limits: dict[str, int | None] = {}
    for name, rows in said.sections.items():
        text = None if name == "*" else rows.get(SLEEP, shared)
        if text is not None and said.origin(SLEEP) != COMMAND_LINE:  # which outranks the file
            limits[name] = limit_in(text, name)[0]
    sleeping = {name: limit for name, limit in limits.items() if limit is None or limit >= 0}
    if not sleeping:
        return own, f"as a router: for its models, {words}"
    known = [limit for limit in sleeping.values() if limit is not None]
    names = ", ".join(sorted(sleeping)[:5]) + (", …" if len(sleeping) > 5 else "")
    where = f"as a router: by its preset file its models {names} sleep"
    return (min(known) if known else None), where
