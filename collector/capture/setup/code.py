"""The crash path's code in its place: copied, compiled, and checked to be root's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.dropping import NOBODY
from collector.capture.setup.layout import CRASH, SERVER, Layout
from collector.capture.setup.safe import demand_safe, sync_folder

PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
LEAST = (3, 10)
_SECONDS = 30.0
_ASK = "import sys; print(*sys.version_info[:2])"
# The core's reader loads these when it has no rights any more: a Python below a private folder cannot.
_LATE = "import fcntl, hashlib, ipaddress, json, zlib"


def choose_python(asked: str | None) -> str:
    """An interpreter that only root can change, at least Python 3.10. Raises UserError."""
    for path in [asked] if asked else PYTHONS:
        if not asked and not os.path.exists(path):
            continue
        demand_safe(Path(path), f"--python {path}")
        found = _version(path)
        if found is None or found < LEAST:
            what = "cannot be run" if found is None else f"Python {found[0]}.{found[1]}"
            remedy = f"give another with --python (at least {LEAST[0]}.{LEAST[1]})"
            raise UserError(what, where=path, remedy=remedy)
        if not _for_all(path):
            what = "its modules cannot be loaded by a user without rights"
            raise UserError(what, where=path, remedy="give the system's Python with --python")
        return path
    raise UserError(
        "no Python of the system was found", where=", ".join(PYTHONS), remedy="give --python PATH"
    )


def _version(path: str) -> tuple[int, int] | None:
    try:
        ran = subprocess.run([path, "-ISBc", _ASK], capture_output=True, timeout=_SECONDS, check=True, env={})
        major, minor = ran.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _for_all(path: str) -> bool:
    """Whether a user who owns nothing can run it."""
    as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
    try:
        ran = subprocess.run(  # type: ignore[call-overload]
            [path, "-ISBc", _LATE],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env={},
            cwd="/",
            **as_nobody,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(ran.returncode == 0)


def put(layout: Layout, python: str) -> None:
    """Copy both packages below the prefix and compile them. Raises UserError when the place is not root's."""
    demand_safe(layout.prefix, str(layout.prefix))
    for name in (CRASH, SERVER):
        _copy(layout.source / name, layout.prefix / name)
    words = [python, "-IS", "-m", "compileall", "-q", str(layout.prefix / CRASH), str(layout.prefix / SERVER)]
    subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False, env={})
    sync_folder(layout.prefix)


def _copy(source: Path, target: Path) -> None:
    """Modules only, root's, readable by all: nothing secret stands in them."""
    target.mkdir(mode=0o755, exist_ok=True)
    for path in sorted(source.glob("*.py")):
        out = target / path.name
        shutil.copyfile(path, out, follow_symlinks=True)
        os.chmod(out, 0o644)
        os.chown(out, 0, 0)
        descriptor = os.open(out, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    os.chmod(target, 0o755)  # noqa: S103 - nothing secret stands in it, and handlers of any user read it
    sync_folder(target)


def take_away(layout: Layout) -> None:
    """Remove what ``put`` made; the prefix too when nothing else is in it."""
    for name in (CRASH, SERVER):
        shutil.rmtree(layout.prefix / name, ignore_errors=True)
    for path in (layout.settings, layout.previous):
        path.unlink(missing_ok=True)


def handlers(main: Path, proc: Path = Path("/proc")) -> list[int]:
    """PIDs of handlers at work: processes whose arguments name ``main``."""
    found = []
    for each in proc.iterdir():
        if each.name.isdigit():
            try:
                words = (each / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(main) in words:
                found.append(int(each.name))
    return found
