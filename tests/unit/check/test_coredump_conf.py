"""What coredump.conf lets systemd-coredump keep of a core of one GiB."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_scenes import GIB, found, host, readiness, scene, subject

from collector.check import rules_systemd
from collector.check.image import Image
from collector.check.model import BLIND, Level


def with_conf(root: Path, *lines: str) -> dict[str, object]:
    text = "[Coredump]\n" + "\n".join(lines) + "\n"
    return dict(found(scene(host(root, {"etc/systemd/coredump.conf.d/50.conf": text}))))


@pytest.mark.parametrize(
    ("lines", "id", "level", "says"),
    [
        (["Storage=none"], "storage", Level.LOST, "none"),
        (["ProcessSizeMax=512M", "ExternalSizeMax=512M"], "external-size", Level.RISK, "cut at 512.0 MiB"),
        (["ExternalSizeMax=512M"], "external-size", Level.RISK, "dropped unless it packs"),
        (["ExternalSizeMax=0"], "external-size", Level.LOST, "ExternalSizeMax=0"),
        (["Storage=journal"], "journal-size", Level.LOST, "larger than JournalSizeMax"),
        (["MaxUse=100M", "KeepFree=1"], "max-use", Level.RISK, "MaxUse (100.0 MiB)"),
        (["MaxUse=100G", "KeepFree=900P"], "keep-free", Level.RISK, "KeepFree"),
    ],
)
def test_each_limit_is_named_with_its_file(
    tmp_path: Path, lines: list[str], id: str, level: Level, says: str
) -> None:
    # GIVEN
    (tmp_path / rules_systemd.STORE).mkdir(parents=True)
    # WHEN
    finding = with_conf(tmp_path, *lines)[id]
    # THEN
    assert finding.level is level  # type: ignore[attr-defined]
    assert says in finding.what  # type: ignore[attr-defined]
    assert "/etc/systemd/coredump.conf.d/99-cores.conf" in finding.change  # type: ignore[attr-defined]


def test_large_enough_limits_are_silent(tmp_path: Path) -> None:
    seen = with_conf(tmp_path, "ProcessSizeMax=2G", "ExternalSizeMax=2G", "MaxUse=10G", "KeepFree=1")
    assert seen.keys().isdisjoint({"external-size", "max-use", "keep-free", "storage"})


def test_the_default_that_the_vendors_file_shows_is_believed(tmp_path: Path) -> None:
    made = host(
        tmp_path, {"etc/systemd/coredump.conf": "[Coredump]\n#ProcessSizeMax=2G\n#ExternalSizeMax=2G\n"}
    )
    big = subject(image=Image(3 * GIB, 3 * GIB))
    assert "cut at 2.0 GiB" in found(scene(made, big))["external-size"].what


def test_without_its_socket_the_handler_gives_up(tmp_path: Path) -> None:
    made = host(tmp_path)
    (tmp_path / "run/systemd/coredump").unlink()
    assert "systemctl start systemd-coredump.socket" in (found(scene(made))["coredump-socket"].change or "")
    (tmp_path / "run/systemd/system/here").unlink()
    (tmp_path / "run/systemd/system").rmdir()
    assert "does not run systemd" in (found(scene(made))["coredump-socket"].change or "")
    assert readiness(scene(made)).verdict == BLIND


@pytest.mark.parametrize(
    ("age", "level"), [("3d", Level.NOTE), ("1d", Level.RISK), ("2w", Level.NOTE), ("-", Level.NOTE)]
)
def test_how_long_cores_are_kept(tmp_path: Path, age: str, level: Level) -> None:
    line = f"d /var/lib/systemd/coredump 0755 root root {age}\n"
    made = host(tmp_path, {"usr/lib/tmpfiles.d/systemd.conf": line})
    assert found(scene(made))["core-age"].level is level
