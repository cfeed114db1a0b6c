"""The slow rung: what only a debugger can say, asked after the verdict is out and cut off at a budget.

gdb reads the symbols of every object before its first answer: 1.5 s and 270 MB on a hosted server's core,
about 4 s and 600 MB on a native one with full debug information.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyzers.contracts.facts import Frame
from analyzers.contracts.report import Gap
from analyzers.stacks import confine
from analyzers.stacks.frames import mark_inlined
from analyzers.stacks.loosened import loose_gap
from analyzers.stacks.mi import Answer, MiError, MiSession

TOOL = "gdb"
INSTALL = "apt-get install --no-install-recommends gdb"
WHAT = "inlined frames, lines and types"
BUDGET_SECONDS = 4.5  # with the hash of the core, all that follows the verdict stays within five seconds
MEMORY_BYTES = 1536 << 20
# gdb starts a helper and a symbol-reading thread per CPU; refused, it retries with sleeps for 15 s.
PROCESSES = 512
MAX_FRAMES = 63  # -stack-list-frames is inclusive: 64 frames
MAX_THREADS = 256  # threads searched for the queue's loop
# Nothing that comes with a core may run: no start-up files, no scripts or printers beside an object, no
# downloads of debug files, no cache written.
SAFE_SETTINGS = (
    "set auto-load off",
    "set auto-load safe-path /dev/null",
    "set debuginfod enabled off",
    "set index-cache enabled off",
    "set print thread-events off",
    "set pagination off",
    "set confirm off",
    "set backtrace limit 64",
    "set print elements 16",
)
FLAGS = {"true": 1, "false": 0}
QUEUE_FLAGS = ("running", "sleeping", "req_stop_sleeping", "time_last_task")
QUEUE_MEMBERS = (*QUEUE_FLAGS, "mutex_tasks", "condition_tasks")
MAX_DIGITS = 18  # of a number that fits 64 bits
_LWP = re.compile(r"\bLWP ([0-9]{1,18})\b")
_ADDRESS = re.compile(r"0x([0-9a-f]{1,16})")
_NUMBER = re.compile(r"^(-?[0-9]{1,20}|true|false|0x[0-9a-f]{1,16})\b")


@dataclass(frozen=True)
class GdbAnswer:
    """What gdb said within its budget.

    ``frames``: the crashed thread's, with inlined frames and file:line. ``queue``: flags of server_queue
    read through the loop thread's ``this``; ``layout``: byte offsets of its members, by type. ``gap``
    names what was cut off; everything else that was said before it still stands. ``loosened`` names the
    confinements that this host did not allow.
    """

    frames: tuple[Frame, ...] = ()
    queue: dict[str, int] = field(default_factory=dict)
    layout: dict[str, int] = field(default_factory=dict)
    loop_tid: int | None = None
    notes: tuple[str, ...] = ()
    gap: Gap | None = None
    loosened: tuple[Gap, ...] = ()
    seconds: float = 0.0
    peak_memory: int = 0


def ask(
    core_path: str | Path,
    exe: str | Path | None,
    budget_seconds: float = BUDGET_SECONDS,
    memory: int = MEMORY_BYTES,
    *,
    loop_tid: int | None = None,
) -> GdbAnswer:
    """Ask gdb about a core; never raises. ``loop_tid``: the thread in server_queue::start_loop, if known."""
    tool = confine.find_tool(TOOL)
    if tool is None:
        return GdbAnswer(gap=Gap(what=WHAT, why=f"{TOOL} is not installed", command=INSTALL))
    talk = _Talk(str(core_path), str(exe) if exe else None, loop_tid)
    begun = time.monotonic()
    try:
        with _gdb(_argv(tool, str(core_path), exe), budget_seconds, memory, _size(core_path)) as session:
            talk.run(session)
    except OSError as error:
        talk.gap = Gap(what=WHAT, why=f"{TOOL} did not start: {error.strerror}")
    return talk.answer(time.monotonic() - begun, budget_seconds)


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class _Session(MiSession):
    peak_memory: int = 0
    loose: tuple[str, ...] = ()


def _argv(tool: str, core_path: str, exe: str | Path | None) -> list[str]:
    """Files are named as options: MI commands would need quoting that differs between gdb versions."""
    argv = [tool, "-nx", "-q", "--interpreter=mi2"]
    for setting in SAFE_SETTINGS:
        argv += ["-iex", setting]
    return [*argv, *([f"--se={exe}"] if exe else []), f"--core={core_path}"]


@contextmanager
def _gdb(argv: list[str], seconds: float, memory: int, mapped: int) -> Iterator[_Session]:
    child = confine.start(
        argv, seconds=seconds, memory_bytes=memory, mapped_bytes=mapped, processes=PROCESSES
    )
    session = _Session(child, child.started + seconds)
    session.loose = child.loose
    try:
        yield session
    finally:
        child.kill()
        _, session.peak_memory = child.reap()


@dataclass
class _Talk:
    """One conversation; what has been learnt is kept when a later question is cut off."""

    core_path: str
    exe: str | None
    loop_tid: int | None
    frames: list[Frame] = field(default_factory=list)
    queue: dict[str, int] = field(default_factory=dict)
    layout: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    gap: Gap | None = None
    session: _Session | None = None

    def run(self, session: _Session) -> None:
        self.session = session
        steps = (self._read_frames, self._read_layout, self._read_queue)
        for step in steps:
            try:
                step(session)
            except MiError as error:
                if error.reason in ("time", "output", "ended"):
                    self.gap = self._cut(error.reason)
                    return
                self.notes.append(f"gdb, {step.__name__.strip('_').replace('_', ' ')}: {error.reason[:200]}")

    def _cut(self, reason: str) -> Gap:
        why = {
            "time": f"{TOOL} was cut off at its time budget",
            "output": f"{TOOL} said more than it may",
            "ended": f"{TOOL} ended by itself (memory budget or a crash of its own)",
        }[reason]
        files = shlex.join(part for part in (self.exe, self.core_path) if part)
        return Gap(what=WHAT, why=why, command=f"gdb -nx -q {files}")

    def _read_frames(self, session: _Session) -> None:
        answer = session.ask(f"-stack-list-frames 0 {MAX_FRAMES}")
        self.frames = mark_inlined([_frame(row) for row in _rows(answer, "stack")])

    def _read_layout(self, session: _Session) -> None:
        for member in QUEUE_MEMBERS:
            value = _evaluate(session, f"(long)&((server_queue*)0)->{member}")
            if value is not None:
                self.layout[member] = value

    def _read_queue(self, session: _Session) -> None:
        thread = self._loop_thread(session)
        if thread is None:
            self.notes.append("gdb: no thread was found in server_queue::start_loop")
            return
        session.ask(f"-thread-select {thread}")
        answer = session.ask("-stack-list-frames 0 20")
        for row in _rows(answer, "stack"):
            if "server_queue::start_loop" in str(row.get("func", "")):
                session.ask(f"-stack-select-frame {_number(row.get('level')) or 0}")
                for flag in QUEUE_FLAGS:
                    value = _evaluate(session, f"this->{flag}")
                    if value is not None:
                        self.queue[flag] = value
                return

    def _loop_thread(self, session: _Session) -> int | None:
        rows = _rows(session.ask("-thread-info"), "threads")[:MAX_THREADS]
        if self.loop_tid is None:
            return self._search_loop(session, rows)
        return next((_number(row.get("id")) for row in rows if _lwp(row) == self.loop_tid), None)

    def _search_loop(self, session: _Session, rows: list[dict[str, Any]]) -> int | None:
        for row in rows:
            number = _number(row.get("id"))
            if number is None:
                continue
            session.ask(f"-thread-select {number}")
            stack = _rows(session.ask("-stack-list-frames 0 12"), "stack")
            if any("server_queue::start_loop" in str(frame.get("func", "")) for frame in stack):
                self.loop_tid = _lwp(row)
                return number
        return None

    def answer(self, seconds: float, budget: float) -> GdbAnswer:
        peak = self.session.peak_memory if self.session else 0
        return GdbAnswer(
            frames=tuple(self.frames),
            queue=self.queue,
            layout=self.layout,
            loop_tid=self.loop_tid,
            notes=tuple(self.notes),
            gap=self.gap,
            loosened=loose_gap(TOOL, self.session.loose) if self.session else (),
            seconds=seconds,
            peak_memory=peak,
        )


def _rows(answer: Answer, name: str) -> list[dict[str, Any]]:
    """The tuples of a list in an answer; names in a stranger's core can bend what gdb prints."""
    found = answer.payload.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def _lwp(row: dict[str, Any]) -> int | None:
    found = _LWP.search(str(row.get("target-id", "")))
    return int(found[1]) if found else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _evaluate(session: MiSession, expression: str) -> int | None:
    """An integer or flag, or None where the types or the value are not there."""
    try:
        answer = session.ask(f"-data-evaluate-expression {_quoted(expression)}")
    except MiError as error:
        if error.reason in ("time", "output", "ended"):
            raise
        return None
    found = _NUMBER.match(str(answer.payload.get("value", "")))
    if not found:
        return None
    if found[1] in FLAGS:
        return FLAGS[found[1]]
    return int(found[1], 16) if found[1].startswith("0x") else int(found[1])


def _frame(row: dict[str, Any]) -> Frame:
    return Frame(
        function=str(row["func"]) if row.get("func") not in (None, "??") else None,
        module=Path(str(row["from"])).name if row.get("from") else None,
        ip=_hexadecimal(row.get("addr")),
        file=str(row["file"]) if row.get("file") else None,
        line=_number(row.get("line")),
    )


def _hexadecimal(text: object) -> int | None:
    found = _ADDRESS.fullmatch(str(text))
    return int(found[1], 16) if found else None
