"""Settings and previous pattern: apart, and believed only where nobody else can have written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.capture.crash.handling import previous
from collector.capture.crash.settings import PREVIOUS, SETTINGS, read_previous, read_settings, written


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text(written("full", "/srv/captures", ("a.so", "my-server")))
    found = read_settings(str(tmp_path))
    assert (found.mode, found.store, found.names, found.faults) == (
        "full",
        "/srv/captures",
        ("a.so", "my-server"),
        [],
    )


@pytest.mark.parametrize("text", ["mode = everything", "\x00\xff", "store = relative", "reserve = -1"])
def test_a_damaged_line_gives_the_default_and_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS).write_bytes(text.encode("latin-1") + b"\nnames = x\n")
    found = read_settings(str(tmp_path))
    assert (found.mode, found.names) == ("minimal", ("x",))
    assert len(found.faults) == 1


def test_a_damaged_settings_file_does_not_take_the_previous_pattern_along(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).mkdir()
    (tmp_path / PREVIOUS).write_text("|/usr/bin/other %P\n")
    assert read_settings(str(tmp_path)).faults
    assert read_previous(str(tmp_path)) == "|/usr/bin/other %P"


@pytest.mark.parametrize("kind", ["writable", "link", "folder"])
def test_a_pattern_others_may_have_written_is_not_run(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a previous pattern that another user could have put there
    said: list[str] = []
    monkeypatch.setattr("collector.capture.crash.handling.tell", said.append)
    file = tmp_path / PREVIOUS
    file.write_text("|/tmp/evil\n")
    if kind == "writable":
        file.chmod(0o666)
    elif kind == "link":
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other")
    else:
        tmp_path.chmod(0o777)
    # THEN it is not believed, and the kernel's log says so
    assert previous(str(tmp_path)) == "core"
    assert len(said) == 1
