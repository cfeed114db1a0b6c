"""The server's own line grammar, eras F1 to F6, and the facts its whole-line rules yield.

Shape of eras F3-F5: ``[minutes.seconds.millis.micros ][LEVEL ]component function: message``, function
names cut to 12 characters and right-aligned. F2: ``LEVEL [ function] message | key=value …`` or JSON;
F1: JSON with ``message``; F6: one JSON object per line, ``"type":"log"``, ``time`` in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzers.contracts.facts import LogFact
from analyzers.logs import telling
from analyzers.logs.prefix import loads

KNOWN_ROUTES = re.compile(
    r"/(?:v1/|api/|v1beta/)?(?:health|props|models|metrics|slots(?:/\d{1,4})?"
    r"|lora-adapters|tokenize|detokenize"
    r"|apply-template|completions?|infill|embeddings?|rerank(?:ing)?|chat|tags|show|responses|messages"
    r"|chat/completions|audio/transcriptions|(?:chat/completions|responses)/input_tokens"
    r"|messages/count_tokens)"
)
_STAMP = re.compile(r"(?P<m>\d{1,9})\.(?P<s>\d\d)\.(?P<ms>\d{3})\.(?P<us>\d{3})(?: |$)")
_HEAD = re.compile(
    r"(?:(?P<level>[IWED]) )?"
    r"(?:(?P<component>srv|que|res|cmn|slot)(?= ) {1,16}(?P<function>[A-Za-z_~][\w~]{0,11}(?:\(\))?)"
    r"|(?P<alone>[A-Za-z_][\w:~]{0,79}(?:\(\))?)): ?(?P<message>.*)",
    re.DOTALL,
)
_F2 = re.compile(
    r"(?P<level>INFO|WARN|ERR|ERROR|VERB) \[ *(?P<function>\w{1,64})\] "
    r"(?P<message>[^|]{1,400}?)(?: \| (?P<tail>.*))?"
)
_PAIR = re.compile(r'(\w{1,32})=("(?:[^"\\]|\\.){0,400}"|\S{1,200})')
_LEVELS = {"info": "I", "warn": "W", "error": "E", "debug": "D"}


@dataclass(frozen=True)
class Line:
    """One line of the server, taken apart. ``elapsed`` is seconds since its logger started."""

    era: str
    message: str
    level: str | None = None
    component: str | None = None
    function: str | None = None
    elapsed: float | None = None
    wall: float | None = None
    fields: Mapping[str, object] = field(default_factory=dict)  # F1 and F2 only


@dataclass(frozen=True)
class Telling:
    """A recognised line: the fact, the group its evidence is kept in, and the part that may be shown."""

    fact: LogFact
    group: str
    shown: str


def elapsed_of(body: str) -> float | None:
    """Seconds of a leading elapsed stamp, minutes unbounded; None when there is none."""
    match = _STAMP.match(body)
    return _seconds(match) if match else None


def _seconds(match: re.Match[str]) -> float:
    micros = int(match["ms"]) * 1000 + int(match["us"])
    return round(int(match["m"]) * 60 + int(match["s"]) + micros / 1e6, 6)


def parse_line(body: str) -> Line | None:
    """Take one line (wrappers already stripped) apart; None when it is not of any era's shape."""
    if body.startswith("{"):
        return _json_line(body)
    stamp = _STAMP.match(body)
    if stamp is None:
        return _bare_line(body)
    head = _HEAD.fullmatch(body, stamp.end())
    if head is None:
        return None
    era = "F5" if head["component"] == "cmn" else "F4"
    return _plain(head, era, _seconds(stamp))


def _bare_line(body: str) -> Line | None:
    head = _HEAD.fullmatch(body)
    if head is not None:
        return _plain(head, "F4" if head["level"] else "F3", None)
    match = _F2.fullmatch(body)
    if match is None:
        return None
    pairs: dict[str, object] = {key: value.strip('"') for key, value in _PAIR.findall(match["tail"] or "")}
    return Line(
        "F2", match["message"].strip(), match["level"][0], None, match["function"], None, _wall(pairs), pairs
    )


def _plain(head: re.Match[str], era: str, elapsed: float | None) -> Line:
    function = head["function"] or head["alone"]
    return Line(era, head["message"].rstrip(), head["level"], head["component"], function, elapsed)


def _json_line(body: str) -> Line | None:
    row = loads(body)
    if row is None:
        return None
    if row.get("type") == "log" and isinstance(row.get("msg"), str):
        return _f6(row)
    message, function = row.get("message", row.get("msg")), row.get("function")
    if not isinstance(message, str) or not isinstance(function, str) or "level" not in row:
        return None
    era = "F1" if "message" in row else "F2"
    return Line(era, message, str(row["level"])[:1], None, function, None, _wall(row), row)


def _f6(row: Mapping[str, object]) -> Line | None:
    head = _HEAD.fullmatch(str(row["msg"]).rstrip("\r\n"))
    if head is None:
        return None
    level = _LEVELS.get(str(row.get("level")))
    time = row.get("time")
    elapsed = time / 1e6 if isinstance(time, int) and 0 <= time < 1 << 62 else None
    function = head["function"] or head["alone"]
    return Line("F6", head["message"].rstrip(), level, head["component"], function, elapsed)


def _wall(row: Mapping[str, object]) -> float | None:
    stamp = _int(row.get("timestamp"))
    return None if stamp is None else float(stamp)


def recognise(line: Line, port: str | None = None) -> Telling | None:
    """The event of one line, or None when no whole-line rule matches it."""
    if line.era in ("F1", "F2"):
        return _structured(line)
    for rule in _BY_FUNCTION.get(line.function or "", _ANYWHERE):
        match = rule.pattern.fullmatch(line.message) if _fits(rule, line) else None
        if match is not None:
            return Telling(_fact(rule, match, line, port), rule.group, _shown(rule, match, line))
    return None


def _fits(rule: telling.Rule, line: Line) -> bool:
    if rule.components and (line.component or "") not in rule.components:
        return False
    if not rule.components and line.component is not None:
        return False
    return line.level is None or line.level in rule.levels


def _index() -> tuple[dict[str, tuple[telling.Rule, ...]], tuple[telling.Rule, ...]]:
    anywhere = tuple(rule for rule in telling.RULES if not rule.functions)
    names = {name for rule in telling.RULES for name in rule.functions}
    table = {
        name: tuple(rule for rule in telling.RULES if name in rule.functions or not rule.functions)
        for name in names
    }
    return table, anywhere


_BY_FUNCTION, _ANYWHERE = _index()


def _fact(rule: telling.Rule, match: re.Match[str], line: Line, port: str | None) -> LogFact:
    found = match.groupdict()
    return LogFact(
        event=rule.event,
        era=line.era,
        task_id=int(found["task"]) if found.get("task") else None,
        route=known_route(found["route"]) if found.get("route") else None,
        port=port,
        build=found.get("build"),
        model=found.get("model"),
        value=_number(found),
        status=int(found["status"]) if found.get("status") else None,
        child_name=found.get("child"),
        child_port=found.get("at"),
        total=float(found["total"]) if found.get("total") else None,
    )


def _number(found: Mapping[str, str | None]) -> float | None:
    number = found.get("value") or found.get("port")
    return float(number) if number else None


def _shown(rule: telling.Rule, match: re.Match[str], line: Line) -> str:
    head = f"{line.component or ''} {line.function or ''}".strip()
    return f"{head}: {_message(rule, match)}"


def _message(rule: telling.Rule, match: re.Match[str]) -> str:
    found = match.groupdict()
    if found.get("route"):
        return f"request {known_route(found['route'])} answered {found['status']}"
    if found.get("status"):
        return f"got exception, answered {found['status']}{known_error(match[0])}"
    return found.get("reason") or match[0]


def known_route(route: str) -> str:
    """The route when it is one of the server's own, else ``(other)``: a path is client content."""
    path = route.partition("?")[0]
    return path if KNOWN_ROUTES.fullmatch(path) else "(other)"


_ERRORS = re.compile(
    r"_Map_base::at|vector::_M_range_check|basic_string::\w{1,24}|std::bad_alloc|bad_function_call"
    r"|failed to allocate [\w ]{1,40}|unable to allocate [\w ]{1,40}|unordered_map::at|map::at"
    r"|invalid vector subscript|json\.exception\.\w{1,24}\.\d{1,4}|Failed to tokenize|regex_error"
)


def known_error(text: str) -> str:
    """`` (…)`` with the library's own error text found in ``text``; empty when only client text is there."""
    match = _ERRORS.search(text)
    return f" ({match[0]})" if match else ""


def _structured(line: Line) -> Telling | None:
    for function, pattern, event, group in telling.STRUCTURED:
        if function in (None, line.function) and pattern.fullmatch(line.message):
            fact = _structured_fact(line, event)
            return Telling(fact, group, f"{line.function}: {line.message}")
    return None


def _structured_fact(line: Line, event: str) -> LogFact:
    row = line.fields
    path = row.get("path")
    return LogFact(
        event=event,
        era=line.era,
        task_id=_int(row.get("id_task", row.get("task_id"))),
        route=known_route(path) if isinstance(path, str) else None,
        build=str(row["build"])[:40] if "build" in row else None,
        status=_int(row.get("status")),
    )


def _int(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 10 else None
