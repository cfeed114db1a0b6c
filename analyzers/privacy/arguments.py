"""Argument lists and environments: what is kept, what is taken out, and which secrets they betray."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from analyzers.privacy.names import (
    PRIVATE_OPTIONS,
    SECRET_OPTIONS,
    is_safe_variable,
    is_secret_name,
)
from analyzers.privacy.patterns import ASCII_MARKER, MARKER

Clean = Callable[[str], str]
_PORT_LIKE = re.compile(r"[\d.:\[\]]+(?:/tcp|/udp)?")  # "-p 8080:80" of a container tool is no prompt
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
# A shorter value given as a key is too common a string to be hunted through a whole report.
MIN_SECRET = 3
# From here on a secret is taken out even inside a longer word; below, only as a word of its own.
ANYWHERE_FROM = 8


def clean_args(args: Sequence[str], clean: Clean) -> list[str]:
    """``args`` without secret and private values; key files' paths stay, the rest goes through ``clean``."""
    out: list[str] = []
    takes_value = ""
    for arg in args:
        name, joint, value = arg.partition("=")
        if takes_value and _hides(takes_value, arg):
            out.append(MARKER if arg else arg)
            takes_value = ""
        elif joint and _OPTION.fullmatch(name):
            out.append(f"{name}={MARKER if value and _hides(name, value) else clean(value)}")
            takes_value = ""
        else:
            out.append(clean(arg))
            takes_value = arg if _OPTION.fullmatch(arg) else ""
    return out


def _hides(option: str, value: str) -> bool:
    """True when ``value``, given to ``option``, must not be shown."""
    if option in SECRET_OPTIONS or option in PRIVATE_OPTIONS:
        return True
    if option == "-p":
        return _PORT_LIKE.fullmatch(value) is None
    return option.startswith("--") and is_secret_name(option) and not value.startswith("-")


def is_private_option(name: str) -> bool:
    """True for an option whose value is a key, a prompt or other client content."""
    return name in PRIVATE_OPTIONS or name == "-p" or _is_key_option(name)


def clean_env(env: Mapping[str, str], clean: Clean) -> dict[str, str]:
    """``env`` with all its names, but only the values of the variables that are evidence."""
    return {clean(name): _variable(name, value, clean) for name, value in env.items()}


def _variable(name: str, value: str, clean: Clean) -> str:
    if not value:
        return value
    if is_secret_name(name) or not is_safe_variable(name) or "PROMPT" in name or "MESSAGE" in name:
        return MARKER
    return clean(value)


def clean_env_text(text: str, separator: str, clean: Clean) -> str:
    """``NAME=value`` entries joined by ``separator`` (NUL in /proc, line feed in COREDUMP_ENVIRON)."""
    return separator.join(_entry(entry, clean) for entry in text.split(separator))


def _entry(entry: str, clean: Clean) -> str:
    name, joint, value = entry.partition("=")
    if joint and re.fullmatch(r"\w{1,200}", name):
        return f"{clean(name)}={_variable(name, value, clean)}"
    # The rest of a value of several lines: its name stood on an earlier one.
    return MARKER if entry.strip() else entry


def secrets_in_args(args: Sequence[str]) -> Iterator[str]:
    """The values of key options in ``args``; a list of keys in one value counts as several."""
    option = ""
    for arg in args:
        name, joint, value = arg.partition("=")
        if option and (option in SECRET_OPTIONS or not arg.startswith("-")):
            yield from _keys(arg)
            option = ""
        elif joint and _is_key_option(name):
            yield from _keys(value)
        else:
            option = arg if _is_key_option(arg) else ""


def _is_key_option(name: str) -> bool:
    return name in SECRET_OPTIONS or (name.startswith("--") and is_secret_name(name))


def secrets_in_env(env: Mapping[str, str]) -> Iterator[str]:
    """The values of the variables whose names say that they hold a secret."""
    for name, value in env.items():
        if is_secret_name(name):
            yield from _keys(value)


def _keys(value: str) -> Iterator[str]:
    """``value`` and, where it is a list, its parts (llama-server takes several keys, separated by commas)."""
    for key in dict.fromkeys((value, *value.split(","))):
        if len(key.strip()) >= MIN_SECRET and key not in (MARKER, ASCII_MARKER):
            yield key.strip()
