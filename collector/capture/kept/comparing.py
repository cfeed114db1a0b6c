"""Whether two cores of one process give the same backtraces, in eu-stack and in gdb.

Every thread's functions and addresses are compared. gdb prints no values of arguments here: they stand in
memory that a minimal core leaves out on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from analyzers.stacks import confine
from analyzers.stacks.command import SYSTEM_SYMBOLS
from analyzers.stacks.gdb import PROCESSES
from analyzers.symbols.farm import farm
from analyzers.symbols.naming import Symbols
from analyzers.symbols.places import Places

SECONDS = 120.0  # gdb needs 4 s for a native server with debug information, 25 s for an endless recursion
MEMORY = 2 << 30
OUTPUT = 64 << 20
FRAMES = 512  # of one thread; eu-stack's unwinding is quadratic beyond
_THREAD = re.compile(rb"^Thread \d+ \(.*?(?:LWP |process )(\d+)\).*$", re.MULTILINE)


def difference(
    full: Path, slim: Path, exe: Path | None, copies: Path | None = None, pass_fds: tuple[int, ...] = ()
) -> str | None:
    """Why the two cannot be called equal; None when both tools print the same of both. Raises nothing.

    ``copies``: a folder with copies of mapped files that are gone; eu-stack finds them by build-id.
    ``pass_fds``: open files that the names of the cores stand for (/proc/self/fd).
    """
    with _farmed(full, copies) as symbols:
        return _difference(full, slim, exe, symbols, pass_fds)


@contextmanager
def _farmed(full: Path, copies: Path | None) -> Iterator[Path | None]:
    if copies is None:
        yield None
        return
    try:
        core = read_core(full)
    except (UserError, OSError):
        yield None  # the tools will say what is wrong with it
        return
    with farm(core, Symbols(core, Places(folders=(copies,)))) as folder:
        yield folder


def _difference(
    full: Path, slim: Path, exe: Path | None, symbols: Path | None, pass_fds: tuple[int, ...]
) -> str | None:
    for tool, command in (("eu-stack", _eu_stack), ("gdb", _gdb)):
        path = confine.find_tool(tool)
        if path is None:
            return f"{tool} is not installed, so the backtraces cannot be compared"
        try:
            one, other = (_run(command(path, core, exe, symbols), core, pass_fds) for core in (full, slim))
        except OSError as problem:
            return f"{tool} cannot be run ({problem.strerror})"
        for name, ran in (("full", one), ("slim", other)):
            if ran.cut_off is not None:
                return f"{tool} did not finish with the {name} core ({ran.cut_off})"
        found = [list(_told(tool, ran.stdout)) for ran in (one, other)]
        if not found[0] or not any(b"#0" in line for line in found[0]):
            return f"{tool} prints no backtrace of the full core"
        if found[0] != found[1]:
            return f"{tool} prints another backtrace of the slim core"
    return None


def _run(argv: list[str], core: Path, pass_fds: tuple[int, ...] = ()) -> confine.Finished:
    return confine.run(
        argv,
        seconds=SECONDS,
        memory_bytes=MEMORY,
        output_bytes=OUTPUT,
        mapped_bytes=core.stat().st_size * 2,
        processes=PROCESSES,
        pass_fds=pass_fds,
    )


def _eu_stack(tool: str, core: Path, exe: Path | None, symbols: Path | None) -> list[str]:
    search = [f"--debuginfo-path=:.debug:{symbols}:{SYSTEM_SYMBOLS}"] if symbols else []
    return [
        tool,
        f"--core={core}",
        "-n",
        str(FRAMES),
        "-m",
        "-b",
        *search,
        *(["-e", str(exe)] if exe else []),
    ]


def _gdb(tool: str, core: Path, exe: Path | None, symbols: Path | None) -> list[str]:
    settings = ("auto-load off", "auto-load safe-path /dev/null", "debuginfod enabled off")
    settings += ("index-cache enabled off", "print frame-arguments none", "width 0")  # type: ignore[assignment]
    if symbols is not None:
        settings += (f"debug-file-directory {symbols}:{SYSTEM_SYMBOLS}",)  # type: ignore[assignment]
    words = [tool, "-nx", "-batch", *(word for text in settings for word in ("-iex", f"set {text}"))]
    return [*words, "-ex", f"thread apply all bt {FRAMES}", *([str(exe)] if exe else []), f"--core={core}"]


def _told(tool: str, out: bytes) -> Iterator[bytes]:
    """The lines that count: threads and frames. The core's own name and gdb's numbering do not."""
    for line in out.split(b"\n"):
        if tool == "gdb" and (found := _THREAD.match(line)):
            yield b"thread " + found[1]
        elif line.lstrip().startswith((b"#", b"TID ")):
            yield line.rstrip()
