"""Python frames of a hosted server by py-spy, read out of its memory without stopping it.

py-spy 0.4 refuses --native together with --nonblocking, so the C++ side comes from eu-stack alone.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

from analyzers.cli.extras import install_line
from analyzers.contracts.report import Gap
from collector.gather.tools import run

TOOL = "py-spy"
SECONDS = 10.0  # 70 ms measured; a memory that changes under it makes it try again
MAX_FRAMES, MAX_THREADS = 200, 500
EXTRA = "agent"


def python_stacks(pid: int) -> tuple[str | None, Gap | None]:
    """One line a frame, of every Python thread; or why there is none. Never stops the process."""
    tool = find_tool()
    if tool is None:
        return None, Gap(what="Python frames", why=f"{TOOL} is not installed", command=install_line(EXTRA))
    ran = run([tool, "dump", "--nonblocking", "--json", "--pid", str(pid)], seconds=SECONDS)
    threads = _threads(ran.out) if ran.ok else None
    if threads is None:
        command = f"sudo {TOOL} dump --nonblocking --pid {pid}"
        return None, Gap(what="Python frames", why=_why(ran.why), command=command)
    return "\n".join(_text(thread) for thread in threads[:MAX_THREADS]), None


def find_tool() -> str | None:
    """py-spy beside this interpreter (the extra ``agent``), else on PATH."""
    beside = Path(sys.executable).with_name(TOOL)
    if beside.is_file() and importlib.util.find_spec("collector") is not None:
        return str(beside)
    return shutil.which(TOOL)


def _why(said: str) -> str:
    if "ermission" in said:
        return "this user may not read the memory of that process"
    return f"{TOOL}: {said}"


def _threads(out: bytes) -> list[dict[str, object]] | None:
    try:
        said = json.loads(out)
    except (ValueError, RecursionError):
        return None
    return [thread for thread in said if isinstance(thread, dict)] if isinstance(said, list) else None


def _text(thread: dict[str, object]) -> str:
    """Function, file and line of each frame; never a local variable."""
    head = f"thread {thread.get('os_thread_id')} ({_plain(thread.get('thread_name'))})"
    active = "active" if thread.get("active") else "idle"
    rows = [f"{head}: {active}{', holds the GIL' if thread.get('owns_gil') else ''}"]
    frames = thread.get("frames")
    for frame in (frames if isinstance(frames, list) else [])[:MAX_FRAMES]:
        if isinstance(frame, dict):
            rows.append(
                f"    {_plain(frame.get('name'))} ({_plain(frame.get('short_filename'))}:{frame.get('line')})"
            )
    return "\n".join(rows) + "\n"


def _plain(value: object) -> str:
    return "".join(char if char.isprintable() else "?" for char in str(value))[:200]
