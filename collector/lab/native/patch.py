"""Applies a fix to a llama.cpp tree by the declarations it finds, never by line numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.cpp import Span, bodies, masked
from collector.lab.native.fixes import Edit, Fix

# The largest source file of the server is 0.3 MB.
FILE_LIMIT = 8 << 20
Read = Callable[[str], str]


@dataclass(frozen=True)
class Place:
    """Where an edit acts, for the error that it cannot."""

    fix: str
    base: str
    edit: Edit

    def missing(self, what: str, times: int) -> UserError:
        count = "not found" if times == 0 else f"found {times} times, not once"
        return UserError(
            f"fix {self.fix} does not fit {self.base}: '{what}' is {count}",
            where=self.edit.file,
            remedy="choose a build near the one the fix was made for; reference list names it",
        )


def patched(fix: Fix, base: str, read: Read) -> dict[str, str]:
    """The new text of every file that ``fix`` changes; ``read`` gives the old one by its path in the tree.

    ``base`` names the build in errors. Raises UserError when the build does not need the fix, or when a place
    is not found or found twice: then nothing is patched at all.
    """
    _refuse_unneeded(fix, base, read)
    texts = {name: read(name) for name in fix.files}
    for edit in fix.edits:
        texts[edit.file] = applied(edit, texts[edit.file], Place(fix.name, base, edit))
    return texts


def applied(edit: Edit, text: str, place: Place) -> str:
    """``text`` with one edit made."""
    plain = masked(text)
    span = _scope(edit, plain, place)
    found = list(pattern(edit.find).finditer(plain, span.start, span.end))
    if not found and edit.optional:
        return text
    if not found or (len(found) > 1 and not edit.every):
        raise place.missing(edit.find, len(found))
    for match in reversed(found):
        text = _change(edit, text, match)
    return text


def pattern(find: str) -> re.Pattern[str]:
    """``find`` as it is searched for: each blank matches white space of any length, also none."""
    return re.compile(re.sub(r" +", r"\\s*", find), re.MULTILINE)


def _scope(edit: Edit, plain: str, place: Place) -> Span:
    span = Span(0, len(plain))
    for step in edit.scope:
        inside = bodies(plain, step, span)
        if len(inside) != 1:
            raise place.missing(step, len(inside))
        span = inside[0]
    return span


def _change(edit: Edit, text: str, match: re.Match[str]) -> str:
    if edit.way == "replace":
        return text[: match.start()] + match.expand(edit.text) + text[match.end() :]
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    end = len(text) if end < 0 else end
    indent = text[start : match.start()]
    indent = indent[: len(indent) - len(indent.lstrip())]
    lines = "".join(
        f"{indent}{line}\n" if line else "\n" for line in edit.text.removesuffix("\n").split("\n")
    )
    if edit.way == "before":
        return text[:start] + lines + text[start:]
    return text[:end] + "\n" + lines.rstrip("\n") + text[end:]


def _refuse_unneeded(fix: Fix, base: str, read: Read) -> None:
    rule = fix.unneeded
    if rule is not None and pattern(rule.find).search(masked(read(rule.file))):
        raise UserError(
            f"fix {fix.name} is not needed by {base}: {rule.says}",
            where=rule.file,
            remedy="build it without the fix",
        )


def reader(tree: Path, base: str) -> Read:
    """Reads files of a llama.cpp tree. Raises UserError for one that is missing or is no text."""

    def read(name: str) -> str:
        path = tree / name
        try:
            with path.open("rb") as file:
                return file.read(FILE_LIMIT).decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise UserError(
                f"{base} has no such source file that can be read ({reason})",
                where=str(path),
                remedy="give a whole llama.cpp tree",
            ) from None

    return read


def unified_diff(before: Read, after: Mapping[str, str]) -> str:
    """The change as ``git diff`` would show it."""
    parts: list[str] = []
    for name, text in after.items():
        old = before(name).splitlines(keepends=True)
        parts += difflib.unified_diff(old, text.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(parts)
