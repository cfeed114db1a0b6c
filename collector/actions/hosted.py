"""A hosted server's threads with both sides: native frames of one stop, Python frames beside them.

py-spy reads the interpreter's own tables out of the living process's memory (``--nonblocking``: it stops
nothing), some milliseconds after the native stop. So the Python frames of a thread that runs may be of
another moment; of one that waits they are the same. Each frame says which side it is from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from analyzers.cli.extras import install_line
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.facts import StackFact, fact_of
from analyzers.contracts.report import Gap
from collector.actions.snapshot import Snapshot, snapshot
from collector.gather.pythonstacks import EXTRA, MAX_FRAMES, MAX_THREADS, SECONDS, TOOL, find_tool
from collector.gather.tools import run

EVALUATION = "_PyEval_EvalFrame"  # the C function that runs Python code, in every CPython since 3.6


@dataclass(frozen=True)
class PythonThread:
    """One thread of the interpreter, innermost frame first: (function, file, line). No local variable."""

    tid: int | None
    name: str
    active: bool
    holds_gil: bool
    frames: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class BothSides:
    """``native`` as ``snapshot`` gives it; ``python`` empty, with a gap, when py-spy could not read."""

    native: Snapshot
    python: tuple[PythonThread, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def text(self) -> str:
        """Every thread, its Python frames where the native stack enters the interpreter."""
        python = {thread.tid: thread for thread in self.python}
        stacks = (fact_of(evidence, StackFact) for evidence in self.native.evidence if _is_stack(evidence))
        return "\n".join(_thread_text(stack, python.get(stack.tid)) for stack in stacks if stack is not None)


def snapshot_hosted(pid: int) -> BothSides:
    """Native stacks in one stop of milliseconds, then the Python frames without another."""
    native = snapshot(pid)
    if not native.evidence:
        return BothSides(native)
    threads, gap = python_threads(pid)
    return BothSides(native, threads, (gap,) if gap else ())


def python_threads(pid: int) -> tuple[tuple[PythonThread, ...], Gap | None]:
    """The interpreter's threads by py-spy; never stops the process."""
    tool = find_tool()
    if tool is None:
        return (), Gap(what="Python frames", why=f"{TOOL} is not installed", command=install_line(EXTRA))
    ran = run([tool, "dump", "--nonblocking", "--json", "--pid", str(pid)], seconds=SECONDS)
    found = parse_dump(ran.out) if ran.ok else None
    if found is None:
        denied = "this user may not read the memory of that process"
        why = denied if "ermission" in ran.why else f"{TOOL}: {ran.why}"
        return (), Gap(what="Python frames", why=why, command=f"sudo {TOOL} dump --nonblocking --pid {pid}")
    return found, None


def parse_dump(out: bytes) -> tuple[PythonThread, ...] | None:
    """``py-spy dump --json``; None when it is none."""
    try:
        said = json.loads(out)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, list):
        return None
    return tuple(_thread(one) for one in said[:MAX_THREADS] if isinstance(one, dict))


def _thread(said: dict[str, object]) -> PythonThread:
    tid, frames = said.get("os_thread_id"), said.get("frames")
    rows = [one for one in (frames if isinstance(frames, list) else [])[:MAX_FRAMES] if isinstance(one, dict)]
    return PythonThread(
        tid if isinstance(tid, int) else None,
        _plain(said.get("thread_name") or ""),
        said.get("active") is True,
        said.get("owns_gil") is True,
        tuple((_plain(row.get("name")), _plain(row.get("short_filename")), _line(row)) for row in rows),
    )


def _line(row: dict[str, object]) -> int:
    line = row.get("line")
    return line if isinstance(line, int) else 0


def _plain(value: object) -> str:
    return "".join(char if char.isprintable() else "?" for char in str(value))[:200]


def _is_stack(evidence: Evidence) -> bool:
    return evidence.kind == StackFact.KIND


def _thread_text(stack: StackFact, python: PythonThread | None) -> str:
    state = "" if python is None else f", Python thread {python.name or 'unnamed'}"
    state += ", holds the GIL" if python is not None and python.holds_gil else ""
    rows = [f"thread {stack.tid} ({_plain(stack.name)}{state})"]
    left = list(python.frames) if python is not None else []
    for frame in stack.frames:
        name = frame.function or f"{frame.module or '?'}+{frame.offset or 0:#x}"
        rows.append(f"    native  {_plain(name)}")
        if left and EVALUATION in (frame.function or ""):
            rows += _python_rows(left)
            left = []  # since 3.11 one call of it runs many Python frames: which ones is not to be told
    return "\n".join([*rows, *_python_rows(left)]) + "\n"


def _python_rows(frames: list[tuple[str, str, int]]) -> list[str]:
    return [f"    python  {name} ({file}:{line})" for name, file, line in frames]
