"""Cores where hosts keep them, and files beside them that are none."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.gather.corefiles import apport_core, apport_fields, apport_reports, in_store, plain_places
from collector.gather.slim import core_file

BOOT = "0123456789abcdef" * 2
CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 4, 62) + bytes(100)
PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, 62) + bytes(100)


def test_the_stores_names_tell_whose_a_core_is(tmp_path: Path) -> None:
    names = (
        f"core.llama-server.998.{BOOT}.4242.1764650000000000.zst",
        rf"core.python3\x2e11.0.{BOOT}.7.1764650001000000",
        f"core.short.0.{BOOT}.9.12",
        "core.4242",
        "notes.txt",
    )
    for name in names:
        (tmp_path / name).write_bytes(CORE)
    (tmp_path / f"core.linked.0.{BOOT}.8.1764650002000000").symlink_to(tmp_path / "notes.txt")
    found = in_store(tmp_path)
    assert [(kept.pid, kept.comm, kept.boot_id) for kept in found] == [
        (7, "python3.11", BOOT),
        (4242, "llama-server", BOOT),
    ]
    assert found[1].wall == 1_764_650_000.0
    assert in_store(tmp_path / "gone") == []


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("core", "core", True),
        ("core", "core.4242", True),  # core_uses_pid
        ("core", "corefile", False),
        ("core.%e.%p", "core.llama-server.4242", True),
        ("%h-%e.dump", "host-llama-server.dump", True),
        ("100%%-%p", "100%-4242", True),
        ("cores/%p", "cores/4242", True),
        ("|/usr/lib/systemd/systemd-coredump %P", "core", False),
        ("@/run/coredump", "core", False),
        ("", "core", False),
    ],
)
def test_the_shapes_of_core_pattern(tmp_path: Path, pattern: str, name: str, fits: bool) -> None:
    (tmp_path / "pattern").write_text(pattern + "\n")
    home = tmp_path / "home"
    (home / name).parent.mkdir(parents=True)
    (home / name).write_bytes(CORE)
    found = [kept.path for kept in plain_places([home], tmp_path / "pattern")]
    assert found == ([home / name] if fits else [])


def test_an_absolute_pattern_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores" / "c.1").write_bytes(CORE)
    (tmp_path / "pattern").write_text(f"{tmp_path}/cores/c.%p")
    assert [kept.path.name for kept in plain_places([Path("/nowhere")], tmp_path / "pattern")] == ["c.1"]


def test_a_program_a_link_and_a_pipe_of_a_cores_name_are_none(tmp_path: Path) -> None:
    (tmp_path / "pattern").write_text("core.%p")
    (tmp_path / "core.1").write_bytes(PROGRAM)
    (tmp_path / "real").write_bytes(CORE)
    (tmp_path / "core.2").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "core.3")
    (tmp_path / "core.4").mkdir()
    assert list(plain_places([tmp_path], tmp_path / "pattern")) == []


def report(folder: Path, core: bytes | None) -> Path:
    """An apport report as its problem_report.py writes one: base64 lines of one gzip stream."""
    lines = ["ProblemType: Crash", "ExecutablePath: /usr/bin/llama-server", "Signal: 11"]
    lines += ["ProcEnviron:", " HF_TOKEN=hf_secret", "ProcMaps:", " 00-10 r-xp x"]
    if core is not None:
        packer = zlib.compressobj(wbits=31)
        parts = [
            packer.compress(core[:50]) + packer.flush(zlib.Z_FULL_FLUSH),
            packer.compress(core[50:]) + packer.flush(),
        ]
        lines += ["CoreDump: base64", *(" " + base64.b64encode(part).decode() for part in parts if part)]
    path = folder / "_usr_bin_llama-server.998.crash"
    path.write_text("\n".join([*lines, "Uname: Linux"]) + "\n")
    return path


def test_an_apport_report_gives_its_core_and_short_fields(tmp_path: Path) -> None:
    path = report(tmp_path, CORE)
    assert [kept.path for kept in apport_reports(tmp_path)] == [path]
    fields = apport_fields(path)
    assert fields["ExecutablePath"] == "/usr/bin/llama-server"
    assert fields["Signal"] == "11"
    assert not any("hf_secret" in value for value in fields.values())
    assert apport_core(path, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == CORE
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_a_report_without_a_core_or_with_a_torn_one(tmp_path: Path) -> None:
    path = report(tmp_path, None)
    with pytest.raises(UserError, match="carries no core"):
        core_file(path, tmp_path)
    torn = report(tmp_path, CORE)
    torn.write_text(torn.read_text().replace("CoreDump: base64\n ", "CoreDump: base64\n !!"))
    assert not apport_core(torn, tmp_path / "torn")


def test_an_ordinary_core_stays_where_it_is(tmp_path: Path) -> None:
    assert core_file(tmp_path / "core.7", tmp_path) == tmp_path / "core.7"
