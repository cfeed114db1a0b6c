"""Starts llama-blackbox, after making sure that its packages are its own.

The product's import names are plain words (decision 0001). Where a foreign package of the same name comes
first on the path, an import would fail far away or, worse, run foreign code; so it is refused here.
Standard library only: this runs before anything else.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import sys
import threading
from pathlib import Path

NAMES = ("analyzers", "collector", "dashboards")
MARK = Path("contracts") / "registry.py"
EXIT_UNUSABLE = 2


def entry() -> None:
    """Console entry point."""
    problem = foreign()
    if problem:
        print(f"llama-blackbox: {problem}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    gc.disable()  # until the verb is loaded: imports only add objects, and walking them took 5% of a start
    from analyzers.cli.main import main

    _leave(main())


def _leave(status: int) -> None:
    """End as sys.exit does, without taking the interpreter apart first (130 ms of the 0.6 s of a triage).

    What is registered to run at the end runs. Whatever is unusual (a thread that is still alive, a stream
    that cannot be flushed) is left to the interpreter.
    """
    if threading.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(status)
    os._exit(status)


def foreign() -> str | None:
    """One line about the first package that is not ours, or None."""
    homes = {name: _home(name) for name in NAMES}
    ours = homes["analyzers"]
    if ours is None or not (ours / MARK).is_file():
        return _line("analyzers", ours)
    for name, home in homes.items():
        if home is None or home.parent != ours.parent:
            return _line(name, home)
    return None


def _home(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def _line(name: str, home: Path | None) -> str:
    where = str(home) if home else "nowhere on the path"
    return (
        f"the package '{name}' that Python finds ({where}) is not llama-blackbox's; "
        "install llama-blackbox with pipx or in an environment of its own, and unset PYTHONPATH"
    )
