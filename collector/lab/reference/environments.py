"""One isolated environment per server version, prepared once under the user's cache folder.

The servers come from the ``xllamacpp`` wheels: llama.cpp's own C++ server, hosted by Python.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.reference.cache import cache_folder, drafted, exclusive
from collector.lab.reference.output import printable

PACKAGE = "xllamacpp"
STALE_CAPTURE_VERSION = "2026.9.11063"  # llama.cpp b11063: the newest wheel at hand that has defect D1
UNLOAD_VERSION = "2026.10.11549"  # llama.cpp b11549: has D2 and D3
# The wheels are 33 MB; a slow mirror needs minutes, a stuck one must not hold the user for ever.
INSTALL_TIMEOUT = 600.0
# Version strings become folder names and pip arguments.
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.(post|dev)[0-9]+)*")
VERSION_LIMIT = 60
DONE = "complete.json"
DISK_FULL = "No space left on device"  # strerror(ENOSPC), in pip's last line and in venv's
# Of pip's lines, those that tell a waiting person what the time goes into; the rest names hosts and paths.
WORTH_SAYING = ("Downloading ", "Using cached ")  # its errors are said once, by us
LINE_LIMIT = 10_000  # pip's list of published versions has 1 KB and grows by a dozen bytes a version
ABSENT = re.compile(r"Could not find a version|No matching distribution")
_OFFERED = re.compile(r"from versions: ([^)]*)")
NEIGHBOURS = 2  # published versions named on each side of one that is not
Progress = Callable[[str], None]


def quiet(_: str) -> None:
    """The progress callback of those who do not want to know."""


def prepare(version: str, *, progress: Progress = quiet, offline: bool = False) -> Path:
    """The interpreter of an environment that holds exactly ``xllamacpp==version``.

    Made on first use; a second process that wants the same one waits for the first, and a half-built
    one is never handed out. ``progress`` gets one line per step. ``offline`` forbids making it.
    Raises UserError when this machine cannot run it, or it is missing and cannot be made.
    """
    require_platform(sys.platform, platform.machine())
    if len(version) > VERSION_LIMIT or not _VERSION.fullmatch(version):
        raise UserError(
            "not a version",
            where=f"--version {printable(version, VERSION_LIMIT)}",
            remedy="give one like 2026.10.11549",
        )
    home = cache_folder("servers") / environment_key(version)
    if not is_complete(home):
        if offline:
            raise _not_cached(version, home)
        with exclusive(home.with_suffix(".lock"), lambda: progress("another process is preparing it")):
            if not is_complete(home):
                _build(version, home, progress)
    return interpreter(home)


def require_platform(system: str, machine: str) -> None:
    """Raises UserError anywhere but on x86-64 Linux: the wheels and the core reader are for it."""
    if system != "linux" or machine not in ("x86_64", "AMD64"):
        raise UserError(
            "reference servers need x86-64 Linux",
            where=f"{system} {machine}",
            remedy="run the lab there; triage of files works here",
        )


def environment_key(version: str) -> str:
    """Name of the environment by what is in it: wheel version and Python version."""
    python = f"{sys.implementation.name}-{platform.python_version()}"
    return f"{PACKAGE}-{version}-{python}"


def interpreter(home: Path) -> Path:
    return home / "bin" / "python"


def is_complete(home: Path) -> bool:
    """The environment was built to its end and its interpreter is still there to be run."""
    return (home / DONE).is_file() and os.access(interpreter(home), os.X_OK)


def _build(version: str, home: Path, progress: Progress) -> None:
    """Make the environment in a private folder and rename it into place when it has proved itself."""
    with drafted(home) as draft:
        progress(f"creating an environment for {PACKAGE} {version}")
        _run([sys.executable, "-m", "venv", str(draft)], _no_venv(home))
        progress(f"installing {PACKAGE} {version}")
        _run(_install_command(draft, version), _no_wheel(version, home), progress)
        _run([str(interpreter(draft)), "-I", "-c", f"import {PACKAGE}"], _not_loadable(version, home))
        (draft / DONE).write_text(json.dumps({"package": PACKAGE, "version": version}))
    progress(f"{PACKAGE} {version} is ready")


def _install_command(home: Path, version: str) -> list[str]:
    """pip with the machine's own configuration; only wheels, as nothing is compiled here."""
    options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:", "--progress-bar", "off"]
    return [str(interpreter(home)), "-m", "pip", "install", *options, f"{PACKAGE}=={version}"]


def _run(argv: list[str], failed: Callable[[str], UserError], progress: Progress = quiet) -> None:
    """Run one step, hand its lines on, and raise ``failed(last line)`` when it does not succeed."""
    lines: list[str] = []
    try:
        # A limit from outside: pip's own covers single reads only.
        limited = ["timeout", "--kill-after=5", str(INSTALL_TIMEOUT), *argv]
        with subprocess.Popen(
            limited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            for line in process.stdout or ():
                lines.append(printable(line.strip(), LINE_LIMIT))
                if lines[-1].startswith(WORTH_SAYING):
                    progress(lines[-1])
    except OSError as error:
        raise failed(error.strerror or "cannot be run") from None
    if process.returncode:
        raise failed(telling_line(lines))


def telling_line(lines: list[str]) -> str:
    """The first line that calls itself an error, or the last one."""
    errors = [line for line in lines if line.startswith("ERROR:")]
    spoken = [line for line in lines if line]
    return (errors or spoken[-1:] or ["it said nothing"])[0]


def _not_cached(version: str, home: Path) -> UserError:
    return UserError(
        f"the server {PACKAGE} {version} is not prepared and this run is offline",
        where=str(home),
        remedy=_offline_remedy(version),
    )


def _offline_remedy(version: str) -> str:
    return (
        "run it once with a package index in reach, or on a connected machine run: "
        f"python3 -m pip download --no-deps -d wheels {PACKAGE}=={version} "
        "and here set PIP_FIND_LINKS to that folder and PIP_NO_INDEX=1"
    )


def _no_venv(home: Path) -> Callable[[str], UserError]:
    return lambda last: UserError(
        f"python -m venv failed ({last})",
        where=str(home),
        remedy=_room(last) or "run: apt-get install python3-venv",
    )


def _no_wheel(version: str, home: Path) -> Callable[[str], UserError]:
    def failed(last: str) -> UserError:
        near = neighbours(version, last)
        if ABSENT.search(last) and near:
            return UserError(
                f"no wheel of {PACKAGE} {version} for this machine is published",
                where=f"--version {version}",
                remedy=f"choose a published one: {', '.join(near)}",
            )
        return UserError(
            f"{PACKAGE} {version} cannot be installed ({printable(last)})",
            where=str(home),
            remedy=_room(last) or _offline_remedy(version),
        )

    return failed


def neighbours(version: str, text: str) -> list[str]:
    """Published versions around ``version``, from pip's own list of them; none without such a list."""
    offered = _OFFERED.search(text)
    known = [each.strip() for each in offered[1].split(",")] if offered else []
    ordered = sorted((each for each in known if _VERSION.fullmatch(each)), key=_numbers)
    below = [each for each in ordered if _numbers(each) < _numbers(version)][-NEIGHBOURS:]
    return below + [each for each in ordered if _numbers(each) > _numbers(version)][:NEIGHBOURS]


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"[0-9]+", version)]


def _room(last: str) -> str | None:
    """What to do about a full disk; None when the line tells of something else."""
    return "free some space there and try again" if DISK_FULL in last else None


def _not_loadable(version: str, home: Path) -> Callable[[str], UserError]:
    return lambda last: UserError(
        f"{PACKAGE} {version} cannot be loaded ({last})",
        where=str(home),
        remedy="choose another version; this one needs a newer system library or CPU",
    )
