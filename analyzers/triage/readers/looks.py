"""Which text an input is, by the form of its first lines: one cheap look per kind, in a fixed order.

A kind is decided by the form of the whole head, never by one line in it: a line can be a client's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from analyzers.logs import describe
from analyzers.logs import looks as logs
from analyzers.logs.recognise import FORM_LINES, form_of
from analyzers.logs.text import decode
from analyzers.triage.readers.issue_parts import looks_like_issue
from analyzers.triage.traces import looks_like_trace

LINE_BYTES = 4096
KEY_SHARE = 0.8  # of `systemctl show`'s lines are KEY=value; values may hold line feeds
FIRST_LINES = 6  # within which a whole-file form shows itself

_WRAPPERS = {
    "syslog": "journal-text",
    "compose": "container-log",
    "kubectl": "container-log",
    "docker-json": "container-log",
    "stamped": "container-log",
}
_VERBOSE = re.compile(r"\S{1,12} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S{1,10} \[s=[0-9a-f]{1,32};i=")
_SHOW_LINE = re.compile(r"[A-Z][A-Za-z0-9]{1,60}=")
_SHOW_KEY = re.compile(r"(?:ExecMain(?:Status|Code|PID)|Result|ActiveState)=", re.MULTILINE)
_STATUS_HEAD = re.compile(r"^\s{0,4}(?:[●○×↻*x•] )?[\w@:.\\-]{1,255}\.(?:service|scope)(?: - .{0,400})?\s*$")
_STATUS_ROW = re.compile(r"^\s{2,14}(?:Loaded|Active): ")
_CORE_INFO = re.compile(r"^\s{1,12}PID: \d{1,10}(?: \(|$)")
_CORE_LIST = re.compile(r"^TIME\s+PID\s+UID\s+GID\s+SIG\s+COREFILE\s+EXE")
_SOCKETS_HEAD = re.compile(
    r"^(?:Netid\s+)?(?:State\s+)?Recv-Q\s+Send-Q\s+Local Address:Port\s+Peer Address:Port"
)
_SOCKET_ROW = re.compile(
    r"^(?:tcp\s+)?(?:ESTAB|LISTEN|CLOSE-WAIT|FIN-WAIT-[12]|TIME-WAIT)\s+\d{1,12}\s+\d{1,12}\s+\S+:\S+\s+\S+:\S+"
)
_JSON_STATE = re.compile(rb'"(?:State"\s*:\s*\{|containerStatuses"\s*:\s*\[)')
_JSON_END = re.compile(rb'"(?:ExitCode|OOMKilled|exitCode|restartCount)"\s*:')


def text_kind(head: bytes) -> str | None:
    """The kind of a text by its first bytes; None when nothing in it tells."""
    lines = [decode(line[:LINE_BYTES]) for line in head.split(b"\n")[: logs.SAMPLE_LINES]]
    for test, kind in _BY_BYTES:
        if test(head):
            return kind
    for test_lines, kind in _BY_LINES:
        if test_lines(lines):
            return kind
    if looks_like_issue(head):
        return "issue"
    if logs.looks_like_log(head):
        return _WRAPPERS.get(form_of(lines[:FORM_LINES]) or "", "server-log")
    if logs.looks_like_kernel(head):
        return "kernel-log"
    if looks_like_trace(head):
        return "stack-trace"
    return "journal-text" if form_of(lines[:FORM_LINES]) == "syslog" else None  # other programs' lines first


def _told(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith("-- ")]


def is_inspect(head: bytes) -> bool:
    """docker or podman inspect, kubectl get pod -o json."""
    if not head.lstrip().startswith((b"[", b"{")):
        return False
    return _JSON_STATE.search(head) is not None and _JSON_END.search(head) is not None


def is_verbose(lines: Sequence[str]) -> bool:
    """journalctl -o verbose."""
    told = _told(lines)
    return bool(told) and _VERBOSE.match(told[0]) is not None


def is_show(lines: Sequence[str]) -> bool:
    """systemctl show."""
    told = _told(lines)
    keys = sum(_SHOW_LINE.match(line) is not None for line in told)
    return bool(told) and keys >= KEY_SHARE * len(told) and any(_SHOW_KEY.match(line) for line in told)


def is_status(lines: Sequence[str]) -> bool:
    """systemctl status of one unit or several."""
    told = _told(lines)[:FIRST_LINES]
    heads = [at for at, line in enumerate(told) if _STATUS_HEAD.match(line)]
    return bool(heads) and any(_STATUS_ROW.match(line) for line in told[heads[0] :])


def is_core_record(lines: Sequence[str]) -> bool:
    """coredumpctl info, or list."""
    told = _told(lines)[:FIRST_LINES]
    return bool(told) and any(p.match(line) for p in (_CORE_INFO, _CORE_LIST) for line in told[:1])


def is_sockets(lines: Sequence[str]) -> bool:
    """ss -t, with or without its head line."""
    told = _told(lines)[:1]
    return bool(told) and any(pattern.match(told[0]) for pattern in (_SOCKETS_HEAD, _SOCKET_ROW))


_BY_BYTES: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (logs.looks_like_export, "journal-export"),
    (is_inspect, "container-state"),
    (logs.looks_like_json, "journal-json"),
)
_BY_LINES: tuple[tuple[Callable[[Sequence[str]], bool], str], ...] = (
    (is_verbose, "journal-verbose"),
    (is_show, "unit-state"),
    (is_status, "unit-state"),
    (is_core_record, "core-record"),
    (is_sockets, "sockets"),
    (describe.looks_like, "pod-description"),
)
