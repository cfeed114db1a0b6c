"""systemd's configuration as systemd reads it, spans and sizes as it writes them, sysctl files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.check.host import Host, seconds_of, size_of


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_drop_ins_are_applied_by_name_whatever_their_folder(tmp_path: Path) -> None:
    # GIVEN a main file and drop-ins in three folders
    for name, text in {
        "etc/systemd/coredump.conf": "[Coredump]\nStorage=journal\nProcessSizeMax=1G\n",
        "usr/lib/systemd/coredump.conf": "[Coredump]\nStorage=none\n",
        "usr/lib/systemd/coredump.conf.d/50-vendor.conf": "[Coredump]\nProcessSizeMax=2G\n",
        "etc/systemd/coredump.conf.d/10-early.conf": "[Coredump]\nProcessSizeMax=3G\nExternalSizeMax=3G\n",
        "run/systemd/coredump.conf.d/90-late.conf": "[Coredump]\nExternalSizeMax=4G\n[Other]\nStorage=none\n",
    }.items():
        put(tmp_path, **{name: text})

    # WHEN
    conf = Host(tmp_path).conf("coredump.conf", "Coredump")

    # THEN
    assert str(conf.get("Storage", "external")) == "journal (/etc/systemd/coredump.conf)"
    assert conf.get("ProcessSizeMax", "").value == "2G"
    assert str(conf.get("ExternalSizeMax", "")) == "4G (/run/systemd/coredump.conf.d/90-late.conf)"


def test_an_equal_name_in_etc_hides_the_vendors_and_an_empty_one_masks_it(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "usr/lib/systemd/coredump.conf.d/50-a.conf": "[Coredump]\nStorage=none\n",
            "etc/systemd/coredump.conf.d/50-a.conf": "",
        },
    )
    assert Host(tmp_path).conf("coredump.conf", "Coredump").get("Storage", "external").value == "external"


def test_an_empty_value_brings_the_default_back_and_a_comment_shows_it(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "etc/systemd/coredump.conf": "[Coredump]\n#ProcessSizeMax=2G\nExternalSizeMax=1G\n",
            "etc/systemd/coredump.conf.d/x.conf": "[Coredump]\nExternalSizeMax=\n",
        },
    )
    conf = Host(tmp_path).conf("coredump.conf", "Coredump")
    assert str(conf.get("ProcessSizeMax", "32G")) == "2G (the default)"
    assert str(conf.get("ExternalSizeMax", "32G")) == "32G (the default)"


def test_nothing_there_raises_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path / "missing")
    assert host.conf("coredump.conf", "Coredump").get("Storage", "external").file is None
    assert (host.sysctl("kernel/core_pattern"), host.number("x"), host.sysctl_file("x")) == (None, None, None)


def test_a_hostile_file_is_bounded_and_harmless(tmp_path: Path) -> None:
    path = tmp_path / "etc/systemd/coredump.conf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"[Coredump]\n" + b"\xff\x1b[2J=\n" * 10 + b"Storage=none\n" + b"A" * (1 << 20))
    assert Host(tmp_path).conf("coredump.conf", "Coredump").get("Storage", "x").value == "none"


def test_the_file_that_sets_a_sysctl_is_the_last_one_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        **{
            "usr/lib/sysctl.d/50-coredump.conf": "kernel.core_pattern=|/usr/lib/systemd/systemd-coredump\n",
            "etc/sysctl.d/60-mine.conf": "-kernel/core_pattern = core.%p\n",
        },
    )
    assert Host(tmp_path).sysctl_file("kernel.core_pattern") == "/etc/sysctl.d/60-mine.conf"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32G", 32 << 30),
        ("767M", 767 << 20),
        ("0", 0),
        ("1.5K", 1536),
        ("infinity", 1 << 62),
        ("x", None),
        ("", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1min 30s", 90.0),
        ("100ms", 0.1),
        ("2w", 1209600.0),
        ("0", 0.0),
        ("infinity", float("inf")),
        ("soon", None),
    ],
)
def test_spans(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
