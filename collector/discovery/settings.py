"""The settings a server runs with, and where each comes from.

Order of common/arg.cpp (b11368): command line over LLAMA_ARG_* environment over configuration file over
default. A router renders a child's whole section into the child's command line; such a setting's origin is
the section it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analyzers.privacy.arguments import is_private_option
from analyzers.privacy.redact import Redactor
from collector.discovery.model import Setting
from collector.discovery.options import TRUE, is_option, named, takes_value, variable
from collector.discovery.presets import DEFAULT, GLOBAL, MAX_VALUE, Preset

COMMAND_LINE, ENVIRONMENT = "command-line", "environment"
SET = "set"  # in place of a secret, a prompt
# common/common.h and common/arg.cpp; what others ask a server's settings for
DEFAULTS = {"host": "127.0.0.1", "port": "8080", "sleep-idle-seconds": "-1"}
SYSTEM_CONFIG = "/etc/llama.cpp/config.ini"
MAX_ROWS = 4000  # settings of one server, all sections of its preset file included
MAX_WORDS = 4096  # words of a command line that are looked at
_NUMBER = re.compile(r"[+-]?\d{1,11}")


@dataclass(frozen=True)
class Effective:
    """``rows``: setting to (raw value, origin). Holds secrets: for use inside this room only."""

    rows: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> str | None:
        """The value that counts; None when it is not set, or set to nothing."""
        return self.rows.get(name, ("", ""))[0] or None

    def told(self, name: str) -> str | None:
        """As ``get``, without the build's default."""
        return self.get(name) if self.rows.get(name, ("", "default"))[1] != "default" else None

    def flag(self, name: str) -> bool:
        """Whether a setting without a value is on."""
        return (self.get(name) or "").lower() in TRUE

    def number(self, name: str) -> int | None:
        """A whole number that fits; None otherwise."""
        text = self.get(name)
        return int(text) if text and _NUMBER.fullmatch(text) else None


def effective(
    args: Sequence[str], env: Mapping[str, str], config: Iterable[tuple[str, Mapping[str, str]]] = ()
) -> Effective:
    """``args`` without the program's name; ``config``: (path, settings) of configuration files, the weaker
    first."""
    rows = {name: (value, "default") for name, value in DEFAULTS.items()}
    for path, found in config:
        rows.update({name: (value, f"config:{path}") for name, value in found.items()})
    rows.update({name: (value, ENVIRONMENT) for name, value in from_environment(env).items()})
    rows.update({name: (value, COMMAND_LINE) for name, value in from_command_line(args).items()})
    return Effective(dict(list(rows.items())[:MAX_ROWS]))


def from_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Settings that variables make; LLAMA_ARG_NO_X of a yes-or-no option denies it whatever its value."""
    made = {}
    for variable_name, value in sorted(env.items()):
        found = variable(variable_name)
        if found is not None:
            name, denied = found
            made[name] = "false" if denied else value[:MAX_VALUE]
    return made


def from_command_line(args: Sequence[str]) -> dict[str, str]:
    """The last value of every option; ``--name=value`` counts as well (forks take it)."""
    made: dict[str, str] = {}
    words = [word[: MAX_VALUE * 2] for word in args[:MAX_WORDS]]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        head, equals, joint = word.partition("=")
        if not is_option(head if equals else word):
            continue
        name, denied = named(head)
        if equals:
            made[name] = joint[:MAX_VALUE]
        elif takes_value(name) and not denied and at < len(words) and not is_option(words[at]):
            made[name] = words[at][:MAX_VALUE]
            at += 1
        else:
            made[name] = "false" if denied else "true"
    return made


def with_sections(own: Effective, preset: Preset, section: str | None) -> Effective:
    """A child's settings, those that its section (or the global one) gave named by it."""
    given = preset.of(section) if section is not None else {}
    rows = dict(own.rows)
    for name, (value, origin) in own.rows.items():
        found = given.get(name)
        if origin == COMMAND_LINE and found is not None and _same(found[0], value):
            rows[name] = (value, f"preset:{found[1]}")
    return Effective(rows)


def _same(one: str, other: str) -> bool:
    return one == other or (one.lower() in TRUE and other.lower() in TRUE)


def public(own: Effective, redactor: Redactor, preset: Preset | None = None) -> tuple[Setting, ...]:
    """What may be kept and shown; of a router also what its preset file says for each model."""
    rows = [Setting(redactor.text(n), clean(n, v, redactor), o) for n, (v, o) in sorted(own.rows.items())]
    if preset is not None:
        for section, found in preset.sections.items():
            origin = f"preset:{redactor.text(section)}"
            rows += [Setting(n, clean(n, v, redactor), origin) for n, v in sorted(found.items())]
    return tuple(rows[:MAX_ROWS])


def clean(name: str, value: str, redactor: Redactor) -> str:
    """A value without secrets: ``set`` for a key, a token or a prompt."""
    private = name == "prompt" or is_private_option(f"--{name}")
    return (SET if value else "") if private else redactor.text(value)


def config_paths(env: Mapping[str, str]) -> list[str]:
    """The configuration files that a build from b11138 on reads, the system's first."""
    base = env.get("XDG_CONFIG_HOME") or (f"{env['HOME']}/.config" if env.get("HOME") else "")
    return [SYSTEM_CONFIG, *([f"{base}/llama.cpp/config.ini"] if base.startswith("/") else [])]


def of_config(found: Preset) -> dict[str, str]:
    """What a configuration file says to every program: its global section, then the one without a name."""
    return {**found.sections.get(GLOBAL, {}), **found.sections.get(DEFAULT, {})}
