"""The line shapes of pasted stacks: prefixes to take off, thread headers, and frames."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath

from analyzers.contracts.facts import Frame

HANDLERS = "server_routes::"
MAX_ARGUMENTS = 8  # no route handler takes more
_ARGUMENT = re.compile(r"[(,] ?([a-z_]{1,24})=")
MAX_PREFIXES = 6  # quote marks, a shipper, a supervisor, the router's port and the server's own stamp

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s*(?:[>|] ?)+",  # mail and Markdown quotes
        # journald and syslog: month (localised), day, time, host, program[pid]
        r"[^\W\d]{1,5}\.?\s+\d{1,2}\s\d\d:\d\d:\d\d(?:\.\d+)?\s\S+\s[^\s:\[]+(?:\[\d+\])?:\s?",
        # journalctl -o short-full: weekday (localised), date, time, zone; host and program follow
        r"[^\W\d_]{1,12}\.?\s\d{4}-\d\d-\d\d\s\d\d:\d\d:\d\d(?:\.\d+)?\s(?:[A-Z]{2,6}|[+-]\d{2,4})\s",
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err)\s[FP]\s)?",
        r"[\w.-]+\s+\| ?",  # docker compose
        r"\S+\s[^\s:\[]+\[\d+\]:\s?",  # journalctl -o with-unit, short
        r"\[\s*\d{1,5}\]\s",  # a router child's port
        r"\d+\.\d\d\.\d{3}\.\d{3}\s[A-Z]\s(?:\w+\s+\w+:\s)?",  # the server's own stamp
    )
)
_BARE = re.compile(r"\s*#\d+\s")  # nothing stands before this frame

_CURRENT = re.compile(r"^\[?Current thread is \d+ \((?:Thread 0x[0-9a-f]+ \()?LWP (\d+)")
_GDB_THREAD = re.compile(
    r'^Thread (\d+) \((?:Thread 0x[0-9a-f]+(?: \(LWP (\d+)\))?|LWP (\d+)|process (\d+))\)?(?: "([^"]*)")?'
)
_LLDB_THREAD = re.compile(r"^\s*(\*)?\s*thread #(\d+)(?:[:,] tid = (0x[0-9a-f]+|\d+))?(.*)$")
_LLDB_NAME = re.compile(r"name = '([^']*)'")
_EU_THREAD = re.compile(r"^TID (\d+)(?: .*)?:$")
_COREDUMPCTL = re.compile(r"^\s*Stack trace of thread (\d+):")
_FAULTHANDLER = re.compile(
    r"^(Current thread|Thread) 0x[0-9a-f]+ (?:\[([^\]]*)\] )?\(most recent call first\):"
)

_NUMBERED = re.compile(r"^\s*#(\d+)\s+(?:(0x[0-9a-f]{1,16})\s+)?(in\s+)?(.*)$")
_LLDB_FRAME = re.compile(r"^\s*\*?\s*frame #(\d+): (0x[0-9a-f]{1,16})\s?(.*)$")
_SYMBOLS = re.compile(r"^\s*([^\s()]+)\(([^()\s+]*)(?:\+(0x[0-9a-f]+))?\)\s?\[(0x[0-9a-f]+)\]?\s*$")
_MAC_FRAME = re.compile(r"^(\d+)\s+(\S+)\s+(0x[0-9a-f]{8,16})\s(.+?) \+ (\d+)\s*$")
_PYTHON_FRAME = re.compile(r'^\s+File "([^"]*)", line (\d+) in (\S+)')
_SYSTEMD_MODULE = re.compile(r"(\S+) \+ (0x[0-9a-f]{1,16})\)\s*")
_PLACE = re.compile(r"(\S+?):(\d+)(?::\d+)?\s*")
_EU_BUILD = re.compile(r"^\s*\[([0-9a-f]{8,64})\]@0x([0-9a-f]{1,16})(?:\+0x[0-9a-f]+)?$")
_EU_SOURCE = re.compile(r"^\s+(/\S*?|\S+\.\w+):(\d+)(?::\d+)?$")
_LLDB_OFFSET = re.compile(r"\s\+\s\d+\s*$")


@dataclass(frozen=True)
class Header:
    """The line above a stack. ``number`` is gdb's own; ``first_is_crashed``: this kind lists it first."""

    tid: int | None = None
    name: str | None = None
    number: int | None = None
    crashed: bool = False
    first_is_crashed: bool = False


def cleaned(line: str) -> str:
    """The line without colours, carriage return and the prefixes of whatever carried it."""
    line = _ANSI.sub("", line).rstrip("\r\n\x00 ")
    for _ in range(0 if _BARE.match(line) else MAX_PREFIXES):
        match = next((found for pattern in _PREFIXES if (found := pattern.match(line))), None)
        if match is None or match.end() == 0:
            break
        line = line[match.end() :]
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line)


def current_thread(line: str) -> int | None:
    """The thread id that gdb calls the current one."""
    match = _CURRENT.match(line.strip())
    return int(match[1]) if match else None


def header(line: str) -> Header | None:
    """The thread header on this line, if it is one."""
    if gdb := _GDB_THREAD.match(line):
        tid = next((part for part in gdb.group(2, 3, 4) if part), None)
        return Header(tid=_number(tid), name=gdb[5], number=int(gdb[1]))
    if eu := _EU_THREAD.match(line) or _COREDUMPCTL.match(line):
        return Header(tid=int(eu[1]), first_is_crashed=True)
    if python := _FAULTHANDLER.match(line):
        return Header(name=python[2] or "python", crashed=python[1] == "Current thread")
    if lldb := _LLDB_THREAD.match(line):
        name = _LLDB_NAME.search(lldb[4])
        return Header(_number(lldb[3]), name[1] if name else None, crashed=bool(lldb[1]))
    return None


def _number(text: str | None) -> int | None:
    return int(text, 0) if text else None


def frame(line: str) -> tuple[int, Frame, bool] | None:
    """(number or -1, frame, printed by the process itself) when this line is a frame."""
    if numbered := _NUMBERED.match(line):
        address = numbered[2]
        ip = int(address, 16) if address else None
        return int(numbered[1]), _numbered(ip, numbered[4], bool(numbered[3])), False
    if lldb := _LLDB_FRAME.match(line):
        return int(lldb[1]), _lldb(int(lldb[2], 16), lldb[3]), False
    if symbols := _SYMBOLS.match(line):
        return -1, _symbols(symbols), True
    if mac := _MAC_FRAME.match(line):
        return int(mac[1]), Frame(function=mac[4], module=mac[2], ip=int(mac[3], 16)), True
    if python := _PYTHON_FRAME.match(line):
        return -1, Frame(function=python[3], file=python[1], line=int(python[2])), True
    return None


def _numbered(ip: int | None, rest: str, gdb: bool) -> Frame:
    """``#N`` lines of gdb, eu-stack and coredumpctl differ behind the address."""
    before, _, last = rest.rpartition("(")
    module = _SYSTEMD_MODULE.fullmatch(last)
    if module and ip is not None and not gdb:
        offset = int(module[2], 16)
        return Frame(function=_named(before), module=_base(module[1]), offset=offset, ip=ip)
    name, dash, base = rest.rpartition(" - ")
    if not dash and rest.startswith("- "):
        name, dash, base = "", "- ", rest[2:]
    if ip is not None and not gdb and dash and " at " not in base:
        return Frame(function=_named(name), module=_base(base.strip()), ip=ip)
    return _gdb(ip, rest)


def _gdb(ip: int | None, rest: str) -> Frame:
    head, file, line = _split_place(rest)
    head, module = _split_library(head)
    name = _without_values(head)
    if name.rstrip().startswith(HANDLERS):  # what a route handler takes tells builds apart
        name = name.rstrip() + _argument_names(head[len(name) :])
    return Frame(function=_named(name), module=module, ip=ip, file=file, line=line)


def _argument_names(values: str) -> str:
    """``(this, vocab)`` of `` (this=0x1, vocab=0x2)``: the names alone, as a value may be a prompt."""
    names = _ARGUMENT.findall(values)[:MAX_ARGUMENTS]
    return f"({', '.join(names)})" if names else ""


def _split_place(text: str) -> tuple[str, str | None, int | None]:
    """(text before, file, line) of a text that ends in `` at FILE:LINE``."""
    head, at, tail = text.rpartition(" at ")
    place = _PLACE.fullmatch(tail) if at else None
    return (head, place[1], int(place[2][:9])) if place else (text, None, None)


def _split_library(text: str) -> tuple[str, str | None]:
    """(text before, base name) of a text that ends in `` from LIBRARY``."""
    head, of, tail = text.rpartition(" from ")
    return (head, _base(tail.strip())) if of and " " not in tail.strip() else (text, None)


def _without_values(text: str) -> str:
    """``name (arg=value, …)`` without the values: the last blank before a bracket at depth 0 parts them."""
    depth, cut = 0, len(text)
    for index, char in enumerate(text):
        if char in "(<{[":
            if char == "(" and depth == 0 and index > 0 and text[index - 1] == " ":
                cut = index - 1
            depth += 1
        elif char in ")}]" or (char == ">" and index and text[index - 1] != "-"):
            depth = max(0, depth - 1)
    return text[:cut] if text[:cut].strip() not in ("", "operator") else text


def _lldb(ip: int, rest: str) -> Frame:
    module, tick, place = rest.partition("`")
    if not tick:
        module, place = (rest.strip(), "") if " " not in rest.strip() else ("", rest)
    head, file, line = _split_place(place)
    function = _LLDB_OFFSET.sub("", head)
    inlined = function.startswith("[inlined] ")
    return Frame(
        function=_named(function.removeprefix("[inlined] ")),
        module=_base(module.strip()),
        ip=ip,
        file=file,
        line=line,
        inlined=inlined,
    )


def _symbols(match: re.Match[str]) -> Frame:
    # With a symbol the offset counts from the symbol, without one from the module's load address.
    offset = int(match[3][:18], 16) if match[3] and not match[2] else None
    return Frame(function=match[2] or None, module=_base(match[1]), offset=offset, ip=int(match[4][:18], 16))


def _named(text: str) -> str | None:
    text = text.strip()
    return None if text in ("", "??", "???", "n/a", "?? ()", "?? (") else text


def _base(path: str) -> str | None:
    return PurePath(path).name or None


def continued(frame: Frame, line: str) -> Frame:
    """The frame with what a wrapped or second line adds; unchanged where the line adds nothing."""
    if build := _EU_BUILD.match(line):
        load = int(build[2], 16)
        offset = frame.ip - load if frame.ip is not None and frame.ip >= load else frame.offset
        return replace(frame, build_id=build[1], offset=offset)
    if not line.startswith((" ", "\t")):
        return frame
    if source := _EU_SOURCE.match(line):
        return replace(frame, file=source[1], line=int(source[2][:9]))
    _, file, number = _split_place(line)
    _, library = _split_library(line)
    if file and frame.file is None:
        return replace(frame, file=file, line=number)
    return replace(frame, module=library) if library and frame.module is None else frame
