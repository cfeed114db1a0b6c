"""The line that adds an extra's packages fits the way this installation was made."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from analyzers.cli import extras
from analyzers.cli.extras import PIPX_MARK, UV_MARK, install_line

LISTED = [
    "pydantic<3,>=2.7",
    'tomli<3,>=2; python_version < "3.11"',
    'httpx<1,>=0.27; extra == "agent"',
    "lz4<5,>=4.3; extra == 'agent'",
    'pytest>=8; extra == "dev"',
]


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(metadata, "requires", lambda name: LISTED)
    return tmp_path


def test_pip_is_that_of_this_interpreter(prefix: Path) -> None:
    words = shlex.split(install_line("agent"))
    assert words == [sys.executable, "-m", "pip", "install", "httpx<1,>=0.27", "lz4<5,>=4.3"]


def test_pipx_injects_into_its_environment(prefix: Path) -> None:
    (prefix / PIPX_MARK).write_text("{}")
    words = shlex.split(install_line("agent"))
    assert words == ["pipx", "inject", "llama-blackbox", "httpx<1,>=0.27", "lz4<5,>=4.3"]


def test_uv_has_no_pip_inside(prefix: Path) -> None:
    (prefix / UV_MARK).write_text("")
    words = shlex.split(install_line("agent"))
    assert words[:5] == ["uv", "pip", "install", "--python", sys.executable]


def test_a_clone_that_is_not_installed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    words = shlex.split(install_line("agent"))
    root = Path(extras.__file__).parents[2]
    assert words == [sys.executable, "-m", "pip", "install", f"{root}[agent]"]
    assert (root / "pyproject.toml").is_file()


def test_our_own_metadata_is_understood() -> None:
    assert any(line.startswith("httpx") for line in extras.packages_of("agent"))
    assert extras.packages_of("no-such-extra") == []
