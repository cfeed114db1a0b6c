"""The files in deploy/capture say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.capture.cli import _store
from collector.capture.crash.request import core_pattern
from collector.capture.crash.settings import STORE
from collector.capture.kept import retention
from collector.capture.kept.retention import Rules, read_rules
from collector.capture.setup.install import PIPE_LIMIT
from collector.capture.setup.kernel import LIMIT, PATTERN
from collector.capture.setup.layout import SOCKET, SYSCTL_NAME, Layout
from collector.capture.setup.sysctlfile import text_of

DEPLOY = Path(__file__).parents[3] / "deploy" / "capture"


def lines(name: str) -> list[str]:
    return [line for line in (DEPLOY / name).read_text().splitlines() if line and not line.startswith("#")]


def test_the_sysctl_file_is_the_one_that_install_writes() -> None:
    line = core_pattern("/usr/bin/python3", str(Layout().main))
    written = text_of({LIMIT: str(PIPE_LIMIT), PATTERN: line}).splitlines()
    assert lines(SYSCTL_NAME) == [row for row in written if not row.startswith("#")]


def test_the_units_run_what_is_installed_and_always_again() -> None:
    unit = lines("llama-blackbox-capture.service")
    assert f"ExecStart=/usr/bin/python3 -ISB {Layout().server} {SOCKET}" in unit
    assert "Restart=always" in unit
    assert "StartLimitIntervalSec=0" in unit


def test_the_retention_file_has_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "unsafe", lambda path: None)
    assert read_rules(DEPLOY / "retention.conf") == Rules()


def test_the_folders_are_private() -> None:
    rows = lines("llama-blackbox.tmpfiles.conf")
    assert f"d {STORE} 0700 root root -" in rows
    assert f"d {Path(SOCKET).parent} 0755 root root -" in rows


def test_without_an_installation_the_store_is_the_default(tmp_path: Path) -> None:
    assert _store(None, tmp_path) == Path(STORE)
    assert _store(tmp_path, tmp_path) == tmp_path
