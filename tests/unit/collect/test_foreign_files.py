"""A file that a process names is read as that process could, never by the collector's own rights."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.gather.foreign import ADMINISTRATOR, ANYBODY, Owner, folders_of, owner_of, read_named
from collector.gather.haul import Haul
from collector.gather.settings import add_preset

LIMIT = 1000
STRANGER = 65534


def secret(folder: Path, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text("root:hash")
    path.chmod(mode)
    return path


def test_rights_are_the_processes_own(tmp_path: Path) -> None:
    # GIVEN a file of ours that nobody else may read
    path = str(secret(tmp_path))
    # THEN a stranger's word does not open it, whoever runs this; its owner's does
    assert read_named(path, LIMIT, Owner(STRANGER), Path("/")) is None
    assert read_named(path, LIMIT, ANYBODY, Path("/")) is None
    assert read_named(path, LIMIT, Owner(os.geteuid()), Path("/")) == b"root:hash"
    assert read_named(path, LIMIT, ADMINISTRATOR, Path("/")) == b"root:hash"


@pytest.mark.parametrize(("mode", "read"), [(0o640, True), (0o604, False), (0o600, False)])
def test_a_group_is_asked_before_everybody(mode: int, read: bool, tmp_path: Path) -> None:
    path = secret(tmp_path, mode)
    member = Owner(STRANGER, frozenset({path.stat().st_gid}))
    assert (read_named(str(path), LIMIT, member, Path("/")) is not None) == read


@pytest.mark.parametrize("link", ["/etc/preset.ini", "../etc/preset.ini", "/../../etc/preset.ini"])
def test_a_containers_links_stay_in_the_container(link: str, tmp_path: Path) -> None:
    # GIVEN a root of a container with a link that, on the host, would lead to another file
    (tmp_path / "etc").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "etc/preset.ini").write_text("its own")
    (tmp_path / "conf/now").symlink_to(link)
    # THEN the container's file is read
    assert read_named("/conf/now", LIMIT, ADMINISTRATOR, tmp_path) == b"its own"
    (tmp_path / "conf/host").symlink_to("/etc/passwd")
    assert read_named("/conf/host", LIMIT, ADMINISTRATOR, tmp_path) is None


def test_loops_pipes_devices_and_endless_files_are_none(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    for path in ("/a", "/pipe", "/gone", "/", "\0"):
        assert read_named(path, LIMIT, ADMINISTRATOR, tmp_path) is None
    for path in ("/dev/zero", "/dev/null"):
        assert read_named(path, LIMIT, ADMINISTRATOR, Path("/")) is None
    assert read_named("/proc/kmsg", LIMIT, ADMINISTRATOR, Path("/")) in (None, b"")


def test_a_living_processes_rights_and_folders(tmp_path: Path) -> None:
    # GIVEN this process WHEN its rights are asked for THEN they are its own
    assert owner_of(os.getpid()).uid == os.geteuid()
    assert owner_of(1 << 22) == ANYBODY
    root, cwd = folders_of(os.getpid())
    path = secret(tmp_path)
    assert read_named(str(path), LIMIT, owner_of(os.getpid()), root, cwd) == b"root:hash"
    assert read_named(os.path.relpath(path), LIMIT, owner_of(os.getpid()), root, cwd) == b"root:hash"


def test_a_preset_that_is_not_the_servers_to_read_is_a_gap(tmp_path: Path) -> None:
    # GIVEN a stranger's server that calls a private file its preset
    haul = Haul()
    add_preset(haul, ["llama-server", "--models-preset", str(secret(tmp_path))], {}, Owner(STRANGER))
    # THEN nothing of it is in the haul, and the bundle says so
    assert haul.files == {}
    assert [gap.what for gap in haul.gaps] == ["the preset file"]


@pytest.mark.parametrize(
    "line",
    [
        "api-key = sk-1234567890abcdef",
        "; api-key = sk-1234567890abcdef",
        "# hf-token=sk-1234567890abcdef",
        "--api-key=sk-1234567890abcdef",
        "api-key = a-plain-word-key",
    ],
)
def test_a_presets_keys_are_in_no_bundle(line: str, tmp_path: Path) -> None:
    preset = tmp_path / "preset.ini"
    preset.write_text(f"[model]\nctx-size = 512\n{line}\n")
    haul = Haul()
    add_preset(haul, ["--models-preset", str(preset)], {}, ADMINISTRATOR)
    haul.write(tmp_path / "bundle")
    told = (tmp_path / "bundle/context/preset.ini").read_text()
    assert "512" in told
    assert "sk-1234567890abcdef" not in told
    assert "a-plain-word-key" not in told
