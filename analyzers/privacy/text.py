"""The rules of ``patterns``, ``payload`` and ``network`` applied to one text until nothing changes."""

from __future__ import annotations

import json
import re

from analyzers.privacy.blocks import blocks
from analyzers.privacy.jsontext import redact_json_values
from analyzers.privacy.late import Late
from analyzers.privacy.lines import record_end, starts_record
from analyzers.privacy.near import lower_of, sub_near
from analyzers.privacy.network import redact_network
from analyzers.privacy.patterns import ASCII_MARKER, MARKER, RULES
from analyzers.privacy.payload import redact_payloads

# Taking one thing out can bring another into view (a list of keys, a cookie behind a token). Two rounds
# settle all known texts; the limit only keeps a hostile one from asking for more.
MAX_ROUNDS = 6
MAX_JSON_DEPTH = 3  # strings inside strings that are decoded: a log line in a shipper's line in an export
MAX_JSON_LINE = 1024 * 1024  # characters; longer lines are cleaned as text, at their own level of quoting
MIN_JSON_STRING = (
    8  # with its quotes: nothing shorter carries a secret that the line's own rules would not find
)
_JSON_LINE = Late(r"^[ \t]*\{.*\}[ \t\r]*$", re.MULTILINE)
_JSON_STRING = Late(r'"(?:[^"\\\n]|\\.)*"')
_JSON_BYTES = Late(r"(?<=:)[ \t]{0,8}\[(?:\d{1,3}[ \t]{0,4},[ \t]{0,4}){7,}\d{1,3}\]")
_KEY_BEGIN = Late(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = Late(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def clean_text(text: str, secrets: re.Pattern[str] | None = None) -> str:
    """``text`` (any size, any number of lines) without secrets and client content. Idempotent.

    Time grows with the length only; private keys, prompts and bodies over several lines are recognised
    up to the next log record.
    """
    return "".join(_settled(block, secrets) for block in blocks([text]))


def _settled(text: str, secrets: re.Pattern[str] | None) -> str:
    for _ in range(MAX_ROUNDS):
        cleaned = _once(text, secrets, MAX_JSON_DEPTH)
        if cleaned == text:
            break
        text = cleaned
    return text


def _once(text: str, secrets: re.Pattern[str] | None, depth: int) -> str:
    if secrets is not None:
        text = secrets.sub(MARKER, text)
    text = _private_keys(text) if "PRIVATE KEY" in text else text
    text = _by_form(text, secrets, depth) if depth > 0 and "{" in text else _plain(text)
    return redact_network(_by_rules(text))


def _by_rules(text: str) -> str:
    lowered = lower_of(text)
    for rule in RULES:
        cleaned = sub_near(
            rule.pattern,
            rule.replacement,
            text,
            rule.needles,
            lowered=lowered,
            more_lines=rule.more_lines,
        )
        if cleaned != text:
            text, lowered = cleaned, lower_of(cleaned)
    return text


def _plain(text: str) -> str:
    return redact_json_values(redact_payloads(text))


def _by_form(text: str, secrets: re.Pattern[str] | None, depth: int) -> str:
    """Lines that are JSON objects are cleaned string by string, to keep their frame; the rest as text."""
    done, out = 0, list[str]()
    for line in _JSON_LINE.finditer(text):
        between = text[done : line.start()]
        # Any other object on a line of its own may be a part of a body printed over several lines.
        own = not between.strip() or starts_record(text, line.start())
        if own and len(line.group()) <= MAX_JSON_LINE and _is_json(line.group()):
            out += [_plain(between), _json_line(line.group(), secrets, depth)]
            done = line.end()
    return "".join([*out, _plain(text[done:])])


def _json_line(line: str, secrets: re.Pattern[str] | None, depth: int) -> str:
    """One JSON object: its strings are cleaned decoded, numbers and layout stay as they are."""
    line = redact_json_values(line)
    line = _JSON_BYTES.sub(lambda array: _json_bytes(array.group(), secrets, depth), line)
    return _JSON_STRING.sub(lambda string: _json_string(string.group(), secrets, depth), line)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_string(quoted: str, secrets: re.Pattern[str] | None, depth: int) -> str:
    if len(quoted) < MIN_JSON_STRING:
        return quoted
    try:
        text = json.loads(quoted)
    except ValueError:
        return quoted
    cleaned = _once(text, secrets, depth - 1)
    return quoted if cleaned == text else _encoded(cleaned)


def _encoded(text: str) -> str:
    """A JSON string in which the marker stays legible; half a surrogate pair can only be written escaped."""
    encoded = json.dumps(text, ensure_ascii=False)
    return encoded if encoded.isprintable() else json.dumps(text).replace(json.dumps(MARKER)[1:-1], MARKER)


def _json_bytes(array: str, secrets: re.Pattern[str] | None, depth: int) -> str:
    """journalctl writes a message with control characters as an array of bytes; cleaned, it is a string."""
    numbers = [int(number) for number in re.findall(r"\d+", array)]
    if max(numbers) > 255:
        return array
    text = bytes(numbers).decode("utf-8", "replace")
    cleaned = _once(text, secrets, depth - 1)
    return array if cleaned == text else _encoded(cleaned)


def _private_keys(text: str) -> str:
    done, out = 0, list[str]()
    while begin := _KEY_BEGIN.search(text, done):
        limit = record_end(text, begin.end())
        end = _KEY_END.search(text, begin.end(), limit)
        out += [text[done : begin.start()], MARKER]
        done = end.end() if end else limit
    return "".join([*out, text[done:]])


def ascii_safe(text: str) -> str:
    """``text`` with the marker in its ASCII form, for terminals and formats that have no ``«``."""
    return text.replace(MARKER, ASCII_MARKER)
