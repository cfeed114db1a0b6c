"""A small environment of its own for pip: fetching a source package runs the package's build backend.

So setuptools, setuptools-scm and wheel must be there and build isolation off; with isolation pip would also
fetch cmake, for nothing.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.steps import Step, StepFailedError, run_step
from collector.lab.reference.cache import cache_folder, drafted, exclusive
from collector.lab.reference.environments import DONE, Progress, interpreter, is_complete, telling_line

BACKEND = ("setuptools>=77", "setuptools-scm>=8", "wheel")
QUIET = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
# 37 MB on a slow line; a stuck one must not hold the user for ever.
TIMEOUT = "900"


def downloader(progress: Progress) -> Path:
    """The interpreter of the environment, made on first use. Raises UserError when it cannot be made."""
    home = cache_folder("native") / f"downloader-{platform.python_version()}"
    with exclusive(
        home.with_suffix(".lock"), lambda: progress("another process is preparing the downloader")
    ):
        if not is_complete(home):
            progress("creating an environment to fetch source packages with")
            _make(home)
    return interpreter(home)


def _make(home: Path) -> None:
    try:
        with drafted(home) as draft:
            _run(draft, sys.executable, "-m", "venv", str(draft))
            _run(draft, str(interpreter(draft)), "-I", "-m", "pip", "install", *QUIET, *BACKEND)
            (draft / DONE).write_text("{}")
    except StepFailedError as error:
        raise UserError(
            f"the environment to fetch sources with cannot be made ({telling_line(error.lines)[:200]})",
            where=str(home),
            remedy="check the network and the package index, and that python3-venv is installed",
        ) from None


def download(python: Path, requirement: str, folder: Path) -> None:
    """Put the source package that meets ``requirement`` into ``folder``. Raises StepFailedError."""
    options = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder))
    _run(folder, str(python), "-I", "-m", "pip", "download", *QUIET, *options, requirement)


def _run(folder: Path, *argv: str) -> None:
    argv = ("timeout", "--kill-after=5", TIMEOUT, *argv)
    run_step(Step(argv, folder, folder / "log", {}))
