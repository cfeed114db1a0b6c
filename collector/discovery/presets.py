"""Preset and configuration files of llama-server: sections of settings, read with more patience than it has.

The grammar is common/preset.cpp's (b11368): a key begins its line, a value ends at ``#`` or ``;``, a section
that comes twice counts from its second beginning, and one line it does not understand makes the server
refuse the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collector.discovery.inside import read_inside
from collector.discovery.options import MAX_NAME, TRUE, named

GLOBAL, DEFAULT = "*", "default"
MAX_BYTES = 1 << 18  # of one file: some thousands of sections
MAX_SECTIONS, MAX_KEYS = 1000, 200  # keys of one section; the server knows about 250 options
MAX_VALUE = 4096  # characters
MAX_PROBLEMS = 5  # of one file: the rest is more of the same
_SECTION = re.compile(r"\[[ \t]*([^\]]+?)[ \t]*\][ \t]*(?:[#;].*)?")
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*)")
_REMARK = re.compile(r"[ \t]*(?:[#;].*)?")
_END = re.compile(r"[ \t]*[#;]")
_TAG = re.compile(r"[-.]([A-Za-z0-9_]+)$")


@dataclass(frozen=True)
class Preset:
    """``sections``: name to settings (canonical names, raw values: not yet redacted)."""

    path: str = ""
    sections: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def of(self, section: str) -> dict[str, tuple[str, str]]:
        """Setting to (value, section it stands in) for a model: its own section over the global one."""
        made = {}
        for name in (GLOBAL, section):
            made.update({key: (value, name) for key, value in self.sections.get(name, {}).items()})
        return made


def read_preset(pid: int, path: str) -> Preset:
    """The file as the process sees it. What is wrong with it is a problem, never an exception."""
    try:
        data, more = read_inside(pid, path, MAX_BYTES)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it cannot be opened"
        return Preset(path, problems=(f"its preset file may not be read: {why}",))
    text = data.decode("utf-8", "replace")
    if more:
        text = text[: max(text.rfind("\n"), 0)]
    made = parse(text)
    cut = f"its preset file is longer than {MAX_BYTES >> 10} KiB: what comes after is not known"
    return Preset(path, made.sections, (*made.problems, *((cut,) if more else ())))


def parse(text: str) -> Preset:
    """Every line that can be understood; line numbers of the others in ``problems``, their words not."""
    sections: dict[str, dict[str, str]] = {}
    problems: list[str] = []
    now = DEFAULT
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if _REMARK.fullmatch(line):
            continue
        header, pair = _SECTION.fullmatch(line), _PAIR.fullmatch(line)
        if header is not None:
            now = section_name(header[1])
            sections[now] = {}
        elif pair is not None and len(pair[1]) <= MAX_NAME:
            sections.setdefault(now, {}).update(_setting(pair[1], pair[2]))
        else:
            problems.append(f"line {number} of its preset file is no setting: the server refuses such a file")
    return _bounded(sections, problems)


def _setting(key: str, text: str) -> Iterator[tuple[str, str]]:
    if key == "version":
        return
    end = _END.search(text)
    value = (text[: end.start()] if end else text.rstrip(" \t"))[:MAX_VALUE]
    name, denied = named(key)
    yield name, ("false" if value.lower() in TRUE else "true") if denied else value


def _bounded(sections: dict[str, dict[str, str]], problems: list[str]) -> Preset:
    kept = {name: dict(list(rows.items())[:MAX_KEYS]) for name, rows in list(sections.items())[:MAX_SECTIONS]}
    if len(sections) > MAX_SECTIONS or any(len(rows) > MAX_KEYS for rows in sections.values()):
        problems.insert(0, "its preset file holds more than is kept")
    if kept.get(DEFAULT) == {}:
        del kept[DEFAULT]
    return Preset("", kept, tuple(problems[:MAX_PROBLEMS]))


def section_name(text: str) -> str:
    """A section as the router names its model: the tag after the last colon in capitals."""
    head, colon, tag = text[:MAX_VALUE].rpartition(":")
    if not colon or not head:
        return text[:MAX_VALUE]
    found = _TAG.search(tag)
    return f"{head}:{(found[1] if found else tag).upper()}"
