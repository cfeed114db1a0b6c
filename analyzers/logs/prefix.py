"""What wrappers put before a server's own line: journald, syslog, docker, kubectl, shippers, the router.

``strip`` peels them off one at a time. No wrapper is trusted here: a prompt can print one too. What
counts is whether the whole file has that form (see ``form_of``).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from analyzers.logs.calendar import calendar_seconds

MAX_LAYERS = 4  # docker compose over docker stamps over a router's port is three

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
# localised: Dec, déc., Dez, 12月; U+FFFD where the locale's encoding was no UTF-8
_MONTH = r"(?:(?:[^\W\d_]|\ufffd){1,12}\.?|\d{1,2}月)"
# short-full and with-unit: weekday in the host's language, the zone by its name or offset
_FULL = (
    r"[^\W\d_]{1,12}\.? (?P<full>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
    r" (?:[A-Z]{2,6}|[+-]\d\d(?:\d\d)?))"
)
_DAY = rf"(?:{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}}\.? {_MONTH})"
_SYSLOG = re.compile(
    rf"(?:<\d{{1,3}}>)?(?P<stamp>{_DAY} (?:\d{{4}} )?\d\d:\d\d:\d\d(?:\.\d{{1,6}})?|{_ISO}|{_FULL}"
    rf"|(?P<mono>\[ *\d{{1,9}}\.\d{{6}}(?: <[ +]{{0,12}}\d{{1,9}}\.\d{{6}} >| {{1,24}})?\])"
    rf"|\d{{9,10}}\.\d{{6}})"
    r" (?:(?!(?:srv|que|slot|res|cmn|[IWED]|Memory) )[^\s:\[\]|]{1,255} (?P<tag>[^\s:\[\]]{1,128})"
    # behind seconds since boot, dmesg's own "two words:" is no host and program: those name a PID or
    # the kernel
    r"(?:\[(?P<pid>\d{1,10})\]|(?(mono)(?<= kernel)))"
    r"|(?(mono)(?!))(?P<only>[^\s:\[\]]{1,128})\[(?P<own>\d{1,10})\]|(?(mono)(?!))(?P<kernel>kernel)): ?"
)
_DMESG = re.compile(
    r"(?:<\d{1,3}>)?(?:[a-z0-9]{2,8} *:[a-z]{2,6} *: *)?\[(?: *(?P<mono>\d{1,9}\.\d{1,9})"
    r"(?: <[ +]{0,12}\d{1,9}\.\d{6} ?>)?"
    r"|(?P<date>[^\W\d_]{2,4}\.? [^\W\d_]{3,5}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})"
    r"|(?P<human>[^\W\d_]{3,5}\.? {1,2}\d{1,2} \d\d:\d\d| {0,8}\+\d{1,9}\.\d{6}))\]"
    r"(?:\[ *[TC]\d{1,10}\])? "
)
# dmesg --time-format iso: a comma before the fraction, which no other tool writes, and no host behind it
_DMESG_ISO = re.compile(
    r"(?:<\d{1,3}>)?(?:[a-z0-9]{2,8} *:[a-z]{2,6} *: *)?"
    r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d) "
)
_COMPOSE = re.compile(r"(?P<name>[A-Za-z0-9][\w.@-]{0,100}) *\| ?")
_KUBECTL = re.compile(r"\[pod/(?P<name>[\w.-]{1,253}/[\w.-]{1,253})\] ")
_ISO_PARTS = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z| UTC|[+-]\d\d:?\d\d)")
_STAMP = re.compile(rf"(?P<stamp>{_ISO}) (?:(?:stdout|stderr) [FP] )?")
_CLOCK = re.compile(
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}  (?=\S)"
)  # `reference run`: two blanks, no day
_PORT = re.compile(r"\[ *(?P<port>\d{1,5})\] ?")
_JSON_FILE = re.compile(r'\{ ?"log" ?: ?"')  # blanks: written again by a program, as jq -c or json.dumps do
_ELAPSED = re.compile(r"\d{1,9}\.\d\d\.\d{3}\.\d{3}(?: |$)")


@dataclass(frozen=True)
class Prefix:
    """The wrappers of one line.

    ``form``: syslog | dmesg | compose | kubectl | stamped | docker-json | clock | None.

    ``wall`` is Unix seconds (only from stamps with a year and a zone), ``mono`` seconds since boot,
    ``calendar`` seconds since the first of January, in the host's zone, of a stamp that has neither.
    """

    form: str | None = None
    name: str | None = None  # container, pod or syslog tag
    pid: int | None = None
    port: str | None = None
    wall: float | None = None
    mono: float | None = None
    cut: bool = False
    calendar: float | None = None


def strip(text: str) -> tuple[Prefix, str]:
    """Split a line into its wrappers and the body the program itself printed."""
    prefix = Prefix()
    for _ in range(MAX_LAYERS):
        if _ELAPSED.match(text):
            break
        peeled = _peel(text, prefix)
        if peeled is None:
            break
        prefix, text = peeled
    return prefix, text


def _peel(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    for layer in _LAYERS:
        found = layer(text, prefix)
        if found is not None:
            return found
    return None


def _syslog(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _SYSLOG.match(text) if prefix.form in (None, "compose") else None
    if match is None:
        return None
    pid = match["pid"] or match["own"]
    wall, mono = iso_seconds(match["full"] or match["stamp"]), _mono_of(match["stamp"])
    found = replace(
        prefix,
        form="syslog",
        name=match["tag"] or match["only"] or match["kernel"],
        pid=int(pid) if pid else None,
        wall=wall,
        mono=mono,
        calendar=calendar_seconds(match["stamp"]) if wall is None and mono is None else None,
    )
    return found, text[match.end() :]


def _dmesg_iso(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _DMESG_ISO.match(text) if prefix.form is None else None
    if match is None:
        return None
    return replace(prefix, form="dmesg", wall=iso_seconds(match["stamp"])), text[match.end() :]


def _dmesg(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _DMESG.match(text) if prefix.form in (None, "syslog") and prefix.mono is None else None
    if match is None or (prefix.form == "syslog" and prefix.name != "kernel"):
        return None
    mono = float(match["mono"]) if match["mono"] else None
    day = calendar_seconds(match["date"] or match["human"] or "") if mono is None else None
    day = day if day is not None else prefix.calendar
    return replace(prefix, form=prefix.form or "dmesg", mono=mono, calendar=day), text[match.end() :]


def _compose(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _COMPOSE.match(text) if prefix.form is None else None
    return (
        None if match is None else (replace(prefix, form="compose", name=match["name"]), text[match.end() :])
    )


def _kubectl(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _KUBECTL.match(text) if prefix.form is None else None
    return (
        None if match is None else (replace(prefix, form="kubectl", name=match["name"]), text[match.end() :])
    )


def _stamped(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _STAMP.match(text) if prefix.wall is None else None
    if match is None:
        return None
    found = replace(prefix, form=prefix.form or "stamped", wall=iso_seconds(match["stamp"]))
    return found, text[match.end() :]


def _docker_json(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    if prefix.form is not None or not _JSON_FILE.match(text):
        return None
    row = loads(text)
    if row is None or not isinstance(row.get("log"), str) or "stream" not in row:
        return None
    wall = iso_seconds(str(row.get("time", "")))
    return replace(prefix, form="docker-json", wall=wall), str(row["log"]).rstrip("\r\n")


def _clock(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _CLOCK.match(text) if prefix.form is None else None
    return None if match is None else (replace(prefix, form="clock"), text[match.end() :])


def _port(text: str, prefix: Prefix) -> tuple[Prefix, str] | None:
    match = _PORT.match(text) if prefix.port is None else None
    return None if match is None else (replace(prefix, port=match["port"]), text[match.end() :])


_LAYERS = (_compose, _kubectl, _dmesg_iso, _syslog, _dmesg, _stamped, _docker_json, _clock, _port)


def loads(text: str) -> dict[str, object] | None:
    """A JSON object from one line, or None. Deep nesting and huge numbers are no error here."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def iso_seconds(stamp: str) -> float | None:
    """Unix seconds of an ISO 8601 stamp with a zone; of a short-unix stamp; None for anything else."""
    if re.fullmatch(r"\d{9,10}\.\d{6}", stamp):
        return float(stamp)
    match = _ISO_PARTS.fullmatch(stamp)
    if match is None:
        return None
    zone = "+0000" if match[4] in ("Z", " UTC") else match[4].replace(":", "")
    try:
        whole = datetime.strptime(f"{match[1]} {match[2]} {zone}", "%Y-%m-%d %H:%M:%S %z")
        return whole.astimezone(timezone.utc).timestamp() + float(f"0.{match[3] or 0}")
    except (ValueError, OverflowError):
        return None


def _mono_of(stamp: str) -> float | None:
    return float(stamp.strip("[] ").partition(" ")[0]) if stamp.startswith("[") else None
