"""Folders, archives, standard input and packed texts: every file's kind is shown, what is none is unused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from analyzers.core import packed
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.triage.inputs import UNUSED
from analyzers.triage.readers import folders
from analyzers.triage.run import Options, Triage, finish, triage
from analyzers.triage.sniff import look, sniff

LOG = (
    b"0.00.004.097 I srv          init: initializing ...\n"
    b"2.00.004.097 I que    start_loop: entering sleeping state\n"
)
KERNEL = (
    b"[ 4646.603480] llama-server[42]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14\n"
)


def run(*paths: Path, fast: bool = True) -> Triage:
    with ExitStack() as stack:
        result = triage(paths, Options(fast=fast), stack)
        return result if fast else finish(result)


def kinds(result: Triage) -> dict[str, str]:
    return {item.name: item.kind for item in result.report.inputs}


def filled(root: Path) -> Path:
    (root / "sub").mkdir(parents=True)
    (root / "server.log").write_bytes(LOG)
    (root / "sub" / "kern.log.2.gz").write_bytes(gzip.compress(KERNEL))
    (root / "README").write_text("hello\n")
    (root / "model.gguf").write_bytes(b"GGUF" + bytes(99))
    (root / "empty").write_bytes(b"")
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "server.log")
    (root / "away").symlink_to("/etc")
    return root


def test_a_folder_lists_every_file_with_its_kind(tmp_path: Path) -> None:
    result = run(filled(tmp_path / "given"), fast=False)
    assert kinds(result) == {
        "given": "folder",
        "given/server.log": "server-log",
        "given/sub/kern.log.2.gz": "kernel-log",
        "given/README": UNUSED,
        "given/model.gguf": UNUSED,
        "given/empty": UNUSED,
    }
    # THEN both logs count, links and the pipe are named and not followed, and files have their hash
    assert result.report.process.signal == "SIGSEGV"
    (left,) = (gap for gap in result.report.gaps if gap.what == "3 names in given")
    assert "links are not followed" in left.why
    assert "not a regular file" in left.why
    hashes = {item.name: item.sha256 for item in result.report.inputs}
    assert hashes["given/server.log"]
    assert hashes["given"] is None


def test_a_folder_without_evidence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(UserError, match=r"none of its 1 files is evidence"):
        run(tmp_path)


def test_a_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 3)
    for number in range(9):
        (tmp_path / f"{number}.log").write_bytes(LOG)
    deep = tmp_path.joinpath(*["d"] * 12)
    deep.mkdir(parents=True)
    (deep / "x.log").write_bytes(LOG)
    result = run(tmp_path)
    assert sum(kind == "server-log" for kind in kinds(result).values()) == 3
    assert any("6 or more further files" in gap.what for gap in result.report.gaps)
    assert any("too deep" in gap.why for gap in result.report.gaps)


def test_a_file_that_only_looked_like_a_core_is_unused_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(LOG)
    (tmp_path / "llama-server").write_bytes(Path(sys.executable).read_bytes()[:100_000])
    result = run(tmp_path)
    assert kinds(result)[f"{tmp_path.name}/llama-server"] == UNUSED
    assert any(gap.what.endswith("llama-server") and "not used" in gap.why for gap in result.report.gaps)


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_zip_is_read_like_a_folder_and_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = zipped(tmp_path / "a.zip", {"d/server.log": LOG, "kern.txt": KERNEL, "notes": b"hello"})
    result = run(path)
    assert kinds(result) == {
        "a.zip": "archive",
        "a.zip/d/server.log": "server-log",
        "a.zip/kern.txt": "kernel-log",
        "a.zip/notes": UNUSED,
    }
    assert list(temporary.iterdir()) == []


def test_names_that_lead_out_of_a_zip_are_left_in_it(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"../../out": KERNEL, "/etc/x": KERNEL, "ok.log": LOG})
    assert kinds(run(path)) == {"a.zip": "archive", "a.zip/ok.log": "server-log"}


def test_a_zip_bomb_and_a_cut_zip_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_UNZIPPED", 1 << 20)
    with pytest.raises(UserError, match="unpacks to more than"):
        run(zipped(tmp_path / "bomb.zip", {"x": bytes(3 << 20)}))
    path = zipped(tmp_path / "cut.zip", {"x": LOG * 99})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match="a zip archive that cannot be read"):
        run(path)


class _Stdin:
    def __init__(self, data: bytes, tty: bool = False) -> None:
        self.buffer = io.BytesIO(data)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def test_standard_input_is_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(KERNEL))
    assert kinds(run(Path("-"))) == {"standard input": "kernel-log"}


@pytest.mark.parametrize(
    ("data", "tty", "told"), [(b"", False, "nothing came in"), (b"", True, "a terminal")]
)
def test_nothing_on_standard_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, data: bytes, tty: bool, told: str
) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(data, tty))
    with pytest.raises(UserError, match=told):
        run(Path("-"))


def test_standard_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_STDIN", 10)
    monkeypatch.setattr("sys.stdin", _Stdin(KERNEL))
    with pytest.raises(UserError, match="more than 10 bytes"):
        run(Path("-"))


PACKERS = [zstandard.compress, gzip.compress, lzma.compress, bz2.compress, lz4.frame.compress]


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_log_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "kern.log.3"
    path.write_bytes(pack(b"[ 1.000000] other: a line\n" * 50 + KERNEL))
    result = run(path)
    assert kinds(result) == {"kern.log.3": "kernel-log"}
    assert result.report.process.signal == "SIGSEGV"


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_core_is_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = b"\x7fELF" + bytes(range(256)) * 9000
    path = tmp_path / "core"
    path.write_bytes(pack(data) + (pack(b"more") if pack is lz4.frame.compress else b""))
    with opened(path) as unpacked:
        assert unpacked.read_bytes().startswith(data)


def test_a_cut_lz4_core_gives_what_it_holds(tmp_path: Path) -> None:
    data = b"\x7fELF" + os.urandom(3 << 20)
    path = tmp_path / "core"
    path.write_bytes(lz4.frame.compress(data)[: 2 << 20])
    with opened(path) as unpacked:
        got = unpacked.read_bytes()
    assert len(got) > 1 << 20
    assert data.startswith(got)


def test_without_the_package_lz4_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "core.lz4"
    path.write_bytes(lz4.frame.compress(b"\x7fELF" + bytes(99)))
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    for attempt in (lambda: sniff(path), lambda: opened(path).__enter__()):
        with pytest.raises(UserError, match=r"lz4 is not installed.*llama-blackbox\[lz4\]") as caught:
            attempt()
        assert str(path) in str(caught.value)


def test_a_file_that_is_one_hole_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    if path.stat().st_blocks:
        pytest.skip("this file system has no holes")
    with pytest.raises(UserError, match="one hole"):
        look(path)


def test_a_log_behind_a_hole_is_read_by_its_own_line_numbers(tmp_path: Path) -> None:
    # GIVEN what copytruncate leaves of a log whose writer goes on at its old place
    path = tmp_path / "server.log"
    with path.open("wb") as file:
        file.seek(1 << 33)
        file.write(b"\n" + LOG)
    # THEN it is read at once, and the first line is the hole
    result = run(path)
    assert result.report.inputs[0].kind == "server-log"
    assert [event.source for event in result.report.timeline] == ["server.log:2", "server.log:3"]


def test_raw_journals_without_the_collectors_reader_name_the_extra(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    path.write_bytes(b"LPKSHHRH" + bytes(5000))
    with pytest.raises(
        UserError, match=r"only the collector reads these.*llama-blackbox\[journal\].*journalctl --file"
    ):
        run(path)


def test_a_folders_journals_are_read_together(tmp_path: Path) -> None:
    place = tmp_path / "machine"
    place.mkdir()
    for name in ("system.journal", "system@1.journal"):
        (place / name).write_bytes(b"LPKSHHRH" + bytes(99))
    asked: list[list[str]] = []

    def journals(files, target: Path) -> None:
        asked.append(sorted(path.name for path in files))
        (target / "manifest.json").write_text('{"schema": "llama-blackbox/bundle/1"}')
        (target / "kern.txt").write_bytes(KERNEL)

    with ExitStack() as stack:
        result = triage([place], Options(fast=True, journals=journals), stack)
    assert asked == [["system.journal", "system@1.journal"]]
    assert kinds(result) == {"machine": "folder", "machine/*.journal": "journal"}
    assert result.report.process.signal == "SIGSEGV"


def test_the_formats_table_holds_lz4() -> None:
    assert {kind for kind, _ in packed.FORMATS.values()} == {"zstd", "gzip", "xz", "bzip2", "lz4"}
