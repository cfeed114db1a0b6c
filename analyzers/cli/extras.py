"""How to add the packages of an extra to this very installation, whichever way it was made."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

NAME = "llama-blackbox"
PIPX_MARK, UV_MARK = "pipx_metadata.json", "uv-receipt.toml"  # what these leave in an environment of theirs
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_line(extra: str) -> str:
    """One command that can be run as it stands: the extra's packages by name, since an index need not know
    this application; or the clone itself, where that is what runs.
    """
    packages = packages_of(extra)
    if packages:
        return f"{_installer()} {shlex.join(packages)}"
    clone = Path(__file__).resolve().parents[2]
    what = str(clone) if (clone / "pyproject.toml").is_file() else NAME
    return f"{_python()} -m pip install {shlex.quote(f'{what}[{extra}]')}"


def packages_of(extra: str) -> list[str]:
    """The requirements of ``extra``, like ``httpx<1,>=0.27``, as the installation's metadata lists them."""
    from importlib import metadata  # 20 ms that only somebody without the extra pays

    try:
        listed = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return []
    pairs = [line.partition(";") for line in listed]
    return [package.strip() for package, _, marker in pairs if extra in _EXTRA.findall(marker)]


def _installer() -> str:
    """pipx and uv keep their environments without a pip of their own."""
    prefix = Path(sys.prefix)
    if (prefix / PIPX_MARK).is_file():
        return f"pipx inject {NAME}"
    if (prefix / UV_MARK).is_file():
        return f"uv pip install --python {_python()}"
    return f"{_python()} -m pip install"


def _python() -> str:
    return shlex.quote(sys.executable or "python3")
