"""Cheap looks at the first bytes of a text: what kind of log is it?"""

from __future__ import annotations

import re

from analyzers.logs.grammar import parse_line
from analyzers.logs.kernel import parse_kernel_line
from analyzers.logs.prefix import strip
from analyzers.logs.recognise import OUTSIDE, recognise
from analyzers.logs.text import decode

SAMPLE_LINES = 200
LINE_BYTES = 4096
STRUCTURED = frozenset({"F1", "F2"})  # eras whose shape alone is distinctive
_EXPORT = re.compile(rb"(?:^|\n)(?:__CURSOR=|__REALTIME_TIMESTAMP=\d+\n|_BOOT_ID=[0-9a-f]{32}\n)")
_JSON = re.compile(
    rb'^\s*(?:data: )?(?:\[\s*)?\{[^\n]{0,4000}?"(?:__REALTIME_TIMESTAMP|__CURSOR|_BOOT_ID|MESSAGE)"\s*:'
)
# One field a line, in an order of the journal's own: its trusted fields may come late in an entry.
_JSON_PRETTY = re.compile(
    rb'^\s*(?:\[\s*)?\{\s*\n(?:\s*"[A-Z0-9_]{1,64}" ?: [^\n]{0,4000}\n){0,64}?'
    rb'\s*"(?:__REALTIME_TIMESTAMP|__CURSOR|_BOOT_ID)" ?:'
)
_DMESG = re.compile(rb"^(?:<\d{1,3}>)?\[ *\d+\.\d{6}\]", re.MULTILINE)


def _lines(head: bytes) -> list[str]:
    return [decode(line[:LINE_BYTES]) for line in head.split(b"\n")[:SAMPLE_LINES]]


def looks_like_export(head: bytes) -> bool:
    """journalctl -o export: fields by name, one a line, with the journal's own double-underscore fields."""
    return _EXPORT.search(head[:LINE_BYTES]) is not None


def looks_like_json(head: bytes) -> bool:
    """journalctl -o json, json-seq, json-sse or json-pretty: objects with the journal's fields."""
    start = head.lstrip(b"\x1e")
    return _JSON.match(start) is not None or _JSON_PRETTY.match(start) is not None


def looks_like_log(head: bytes) -> bool:
    """Some line is one that llama-server's logger writes, whatever wrapped it, or a telling raw one.

    ``word: text`` alone is no sign: any prose has that shape.
    """
    return any(_is_servers(line) for line in _lines(head))


def _is_servers(line: str) -> bool:
    parsed = parse_line(strip(line)[1])
    if parsed is not None and (parsed.component or parsed.elapsed is not None or parsed.era in STRUCTURED):
        return True
    found = recognise(line.encode("utf-8", "replace"))
    return found is not None and found.group != OUTSIDE


def looks_like_kernel(head: bytes) -> bool:
    """dmesg, or a text whose lines are the kernel's."""
    if _DMESG.search(head) is not None:
        return True
    return any(parse_kernel_line(line) is not None for line in _lines(head))
