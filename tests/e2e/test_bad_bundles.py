"""Bundles that are damaged, hostile or hand-made: refused in one line, or read with their gaps named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from bad_material import ASLEEP, FAULT, REQUEST, START, entry, put, tar, zst
from bad_run import UNUSABLE, judged, quick, refused, triage, untouched

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.report import Process
from tests.fixtures.elfcore import CoreBuilder

LOG = (START + REQUEST + ASLEEP).encode()
MANIFEST = json.dumps({"schema": "llama-blackbox/bundle/1", "files": []}).encode()
SPARSE = b"x" * 1000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for inputs beside an own temporary folder; nothing may be left in it or written beside it."""
    temp, given = tmp_path / "temp", tmp_path / "given"
    temp.mkdir()
    given.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    yield given
    assert os.listdir(temp) == []
    assert sorted(os.listdir(tmp_path)) == ["given", "temp"]
    assert not Path("/tmp/bad-planted").exists()


def hostile(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    return zst(tar(("manifest.json", MANIFEST), *members))


HOSTILE = {
    "up": (hostile(("../planted", b"x")), "leads out"),
    "up inside": (hostile(("a/../../planted", b"x")), "leads out"),
    "absolute": (hostile(("/tmp/bad-planted", b"x")), "not relative"),
    "symbolic link": (hostile(entry("a", tarfile.SYMTYPE, "/etc/passwd")), "a symbolic link"),
    "link, then through it": (
        hostile(entry("a", tarfile.SYMTYPE, ".."), ("a/planted", b"x")),
        "a symbolic link",
    ),
    "hard link": (hostile(entry("a", tarfile.LNKTYPE, "manifest.json")), "a hard link"),
    "device": (hostile(entry("a", tarfile.CHRTYPE)), "a device"),
    "block device": (hostile(entry("a", tarfile.BLKTYPE)), "a device"),
    "pipe": (hostile(entry("a", tarfile.FIFOTYPE)), "a named pipe"),
    "twice": (hostile(("a.log", b"x"), ("a.log", b"y")), "there twice"),
    "file as folder": (hostile(("a", b"x"), ("a/b", b"y")), "there twice"),
    "escape in a name": (hostile(("a\x1b[2J", b"x")), "control characters"),
    "bomb": (hostile(("a.log", bytes(200 << 20))), "times its size"),
    "cut": (
        zst(tar(("manifest.json", MANIFEST), ("a.log", random.Random(1).randbytes(90_000))))[:60_000],
        "cut",
    ),
    "manifest of nonsense": (zst(tar(("manifest.json", b"\xff{]"))), "manifest cannot be read"),
    "manifest of a list": (zst(tar(("manifest.json", b"[1]"))), "manifest cannot be read"),
    "not a bundle's manifest": (zst(tar(("manifest.json", b'{"schema":"npm/1"}'))), "not a bundle"),
    "a newer manifest": (
        zst(tar(("manifest.json", b'{"schema":"llama-blackbox/bundle/9"}'))),
        "update llama-blackbox",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_archive_is_refused_and_writes_nothing(place: Path, name: str) -> None:
    data, told = HOSTILE[name]
    path = put(place / "b.tar.zst", data)
    with untouched(path):
        refused(quick(path), str(path), told)


def test_a_window_that_wants_all_memory_is_refused(place: Path) -> None:
    params = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1)
    packed = (
        zstandard.ZstdCompressor(compression_params=params).compressobj().compress(tar(("a.log", SPARSE)) * 9)
    )
    path = put(place / "b.tar.zst", packed or b"\x28\xb5\x2f\xfd\x00\xa0" + bytes(50))
    with untouched(path):
        refused(quick(path), str(path))


@pytest.mark.parametrize("pack", ["", ".gz", ".zst"])
def test_an_honest_archive_of_the_same_parts_is_read(place: Path, pack: str) -> None:
    import gzip

    data = tar(("manifest.json", MANIFEST), ("server.log", LOG), ("kern.log", FAULT.encode()))
    path = put(place / f"b.tar{pack}", {"": bytes, ".gz": gzip.compress, ".zst": zst}[pack](data))
    with untouched(path):
        judged(quick(path), "server.log: not named in the manifest")


def bundle(place: Path, name: str = "b") -> Path:
    write_bundle(
        place / name, ManifestParts(created=1.0), {"server.log": LOG, "kern.log": FAULT.encode()}, ()
    )
    return place / name


def test_what_was_altered_removed_or_added_is_named(place: Path) -> None:
    path = bundle(place)
    (path / "server.log").write_bytes(LOG + b"forged\n")
    (path / "kern.log").unlink()
    put(path / "extra.log", START)
    with untouched(path):
        outcome = triage("--json", path)
    judged(outcome, "server.log: altered", "kern.log: named in the manifest, missing", "extra.log: not named")


def test_links_devices_and_closed_files_in_a_folder_are_not_followed(place: Path) -> None:
    path = bundle(place)
    secret = put(place / "outside.log", ASLEEP)
    (path / "server.log").unlink()
    (path / "server.log").symlink_to(secret)
    os.mkfifo(path / "pipe")
    (path / "loop").symlink_to(path)
    with untouched(path, secret):
        outcome = quick(path)
    judged(outcome, "server.log", "pipe", "loop")
    assert "entering sleeping state" not in outcome.out


def test_a_folder_that_is_no_bundle_and_an_empty_one_are_refused(place: Path) -> None:
    put(place / "d" / "notes.txt", "nothing of a server")
    refused(quick(place / "d"), "no bundle", "name the files that are")
    (place / "e").mkdir()
    refused(quick(place / "e"), "no bundle")


def test_evidence_of_nonsense_costs_only_its_lines(place: Path) -> None:
    lines = [
        b"nonsense",
        b'{"id":1}',
        b"[" * 5000,
        b"\xff\xfe",
        b'{"a":' * 5000,
        b'{"id":"\\ud800"}',
        b"null",
    ]
    path = put(place / "b" / "manifest.json", MANIFEST).parent
    put(path / "evidence.jsonl", b"\n".join(lines))
    with untouched(path):
        judged(quick(path), "evidence.jsonl: 7 lines hold no fact")


def test_foreign_files_in_a_bundle_are_gaps(place: Path) -> None:
    cores = {
        "core": CoreBuilder().thread(4000, rip=1).bytes(),
        "core.zst": zst(CoreBuilder().thread(7).bytes()),
    }
    files = {
        "photo.png": b"\x89PNG\r\n\x1a\n",
        "inner.tar": tar(("manifest.json", MANIFEST)),
        "empty.log": b"",
        **cores,
    }
    path = put(place / "b" / "manifest.json", MANIFEST).parent
    for name, data in files.items():
        put(path / name, data)
    with untouched(path):
        outcome = quick(path)
    report = judged(
        outcome, "photo.png: a picture", "inner.tar: a bundle inside a bundle", "empty.log: the file is empty"
    )
    assert report["process"]["signal"] == "SIGSEGV"
    assert sum(item["count"] for item in report["incidents"]) == 2


def test_a_bundle_of_a_process_says_whose_it_is_and_keeps_its_hash(place: Path) -> None:
    write_bundle(
        place / "b.tar.zst", ManifestParts(created=1.0, process=Process(pid=77)), {"server.log": LOG}, ()
    )
    path = place / "b.tar.zst"
    with untouched(path):
        report = judged(triage("--json", path))
    assert report["process"]["pid"] == 77
    assert report["inputs"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.full
@pytest.mark.parametrize("form", ["tar", "zst"])
def test_flipped_bytes_in_an_archive_never_bring_the_reader_down(place: Path, form: str) -> None:
    plain = tar(("manifest.json", MANIFEST), ("server.log", LOG), ("evidence.jsonl", b"{}\n"))
    data, dice = plain if form == "tar" else zst(plain), random.Random(5)
    for _ in range(200):
        broken = bytearray(data)
        for _ in range(dice.choice((1, 4, 32))):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        path = put(
            place / "b", bytes(broken[: dice.choice((len(broken), dice.randrange(len(broken))))]) or b"x"
        )
        outcome = quick(path)
        if outcome.status == UNUSABLE:
            refused(outcome, str(path))
        else:
            judged(outcome)
