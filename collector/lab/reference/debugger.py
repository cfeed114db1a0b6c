"""The fallback where the machine's settings give no core: the server runs under gdb, which saves one."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from analyzers.errors import UserError

# gdb starts its program through $SHELL and quotes the arguments for a Bourne shell.
ENVIRONMENT = {"SHELL": "/bin/sh"}
FATAL = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
# Not told to stop at anything else: an interrupted system call would change what is being watched.
QUIET = ("SIGPIPE", "SIGTERM", "SIGINT", "SIGCHLD")
_SIGNAL = re.compile(r"received signal (SIG[A-Z]+)|[Tt]erminated with signal (SIG[A-Z]+)")
_SAVED = re.compile(r"^Saved corefile (.+)$")
_EXITED = re.compile(r"exited with code (\d+)|exited (normally)")


def debugged(argv: list[str], core: Path) -> list[str]:
    """``argv`` under a gdb that runs no foreign code, waits for a fatal signal and writes ``core``.

    Address randomisation stays on, as without a debugger. Raises UserError when there is no gdb.
    """
    gdb = shutil.which("gdb")
    if gdb is None:
        raise UserError(
            "no debugger to take the core with",
            where="gdb",
            remedy="run: apt-get install gdb, or set kernel.core_pattern to a file name",
        )
    before = ["set auto-load off", "set debuginfod enabled off", "set confirm off", "set pagination off"]
    steps = [
        "set disable-randomization off",
        "set print thread-events off",
        *(f"handle {name} nostop noprint pass" for name in QUIET),
        "run",
        f"generate-core-file {core}",
    ]
    options = [part for text in before for part in ("-iex", text)]
    commands = [part for text in steps for part in ("-ex", text)]
    return [gdb, "-nx", "-batch", *options, *commands, "--args", *argv]


def signal_in(text: str) -> int | None:
    """The signal number gdb reports in one line of its output, when it is one that ends a server."""
    found = _SIGNAL.search(text)
    name = (found.group(1) or found.group(2)) if found else None
    return int(signal.Signals[name]) if name in FATAL or name == "SIGKILL" else None


def exit_code_in(text: str) -> int | None:
    """The exit status gdb reports in one line; it prints it in octal."""
    found = _EXITED.search(text)
    if found is None:
        return None
    return 0 if found.group(2) else int(found.group(1), 8)


def saved_core_in(text: str) -> Path | None:
    """The path gdb says it saved a core to."""
    found = _SAVED.match(text.strip())
    return Path(found.group(1)) if found else None
