"""Packed cores: formats by magic, private sparse copies, bombs, damage, a full disk."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.core.notes import read_core
from analyzers.core.packed import DEFAULT_LIMITS, Limits, opened
from analyzers.errors import UserError
from elfcore import CoreBuilder, header

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}
CORE = CoreBuilder().thread(1).load(0x1000, os.urandom(4096) + bytes(3 << 20) + os.urandom(5000)).bytes()


def packed(folder: Path, kind: str, data: bytes = CORE) -> Path:
    path = folder / "core.misleading-name"
    path.write_bytes(PACKERS[kind](data))
    return path


@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_core_is_unpacked_to_a_private_file_that_is_removed(tmp_path: Path, kind: str) -> None:
    # GIVEN a packed core
    path = packed(tmp_path, kind)
    before = path.read_bytes()
    # WHEN it is opened
    with opened(path, tmp_path) as plain:
        # THEN the copy is the core, readable by its owner only
        assert plain != path
        assert plain.read_bytes() == CORE
        assert stat.S_IMODE(plain.stat().st_mode) == 0o600
        assert not read_core(plain).cut
    # and gone afterwards, the input unchanged
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_the_copy_is_sparse(tmp_path: Path) -> None:
    zeros = CORE + bytes(64 << 20)
    with opened(packed(tmp_path, "zstd", zeros), tmp_path) as plain:
        assert plain.stat().st_size == len(zeros)
        assert plain.stat().st_blocks * 512 < 1 << 20


def test_a_plain_file_is_given_back_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "core.zst"  # the name says nothing
    path.write_bytes(CORE)
    with opened(path) as plain:
        assert plain == path


@pytest.mark.parametrize("kind", ["zstd", "gzip", "xz"])
def test_several_frames_in_one_file_are_one_core(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "core"
    path.write_bytes(PACKERS[kind](CORE[:5000]) + PACKERS[kind](CORE[5000:]))
    with opened(path, tmp_path) as plain:
        assert plain.read_bytes() == CORE


@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_core_that_ends_early_gives_what_it_holds(tmp_path: Path, kind: str) -> None:
    # GIVEN a packed core of incompressible memory, cut in the middle
    data = CoreBuilder().thread(1).load(0x1000, os.urandom(2 << 20)).bytes()
    path = packed(tmp_path, kind, data)
    os.truncate(path, path.stat().st_size * 2 // 3)
    # WHEN it is opened and read THEN the notes are there and the core says that it is cut
    with opened(path, tmp_path) as plain:
        core = read_core(plain)
    assert core.cut
    assert len(core.threads) == 1


@pytest.mark.parametrize("kind", PACKERS)
def test_damaged_data_is_one_clear_line(tmp_path: Path, kind: str) -> None:
    path = packed(tmp_path, kind)
    data = bytearray(path.read_bytes())
    data[8:60] = b"\xff" * 52
    path.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"damaged|ends at once"), opened(path, tmp_path):
        pass
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("kind", PACKERS)
def test_something_else_in_the_package_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    with (
        pytest.raises(UserError, match="no core inside"),
        opened(packed(tmp_path, kind, b"log\n" * 99), tmp_path),
    ):
        pass


def test_the_legacy_lz4_format_names_the_command(tmp_path: Path) -> None:
    path = tmp_path / "core.lz4"
    path.write_bytes(b"\x02\x21\x4c\x18" + b"rest")
    with pytest.raises(UserError, match="lz4 -d FILE core"), opened(path):
        pass


@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_is_stopped_by_its_size(tmp_path: Path, kind: str) -> None:
    # GIVEN much more than the limit allows
    bomb = packed(tmp_path, kind, header() + bytes(8 << 20))
    # WHEN opened THEN it is refused and nothing stays behind
    with pytest.raises(UserError, match="more than 1048576 bytes"), opened(bomb, tmp_path, Limits(1 << 20)):
        pass
    assert os.listdir(tmp_path) == [bomb.name]


def test_a_bomb_is_stopped_by_its_ratio_and_an_honest_core_is_not(tmp_path: Path) -> None:
    limits = Limits(DEFAULT_LIMITS.unpacked, 100, 1 << 20)
    bomb = packed(tmp_path, "zstd", header() + b"A" * (8 << 20))
    with pytest.raises(UserError, match="100 times"), opened(bomb, tmp_path, limits):
        pass
    # zeros are holes and cost nothing: the twin passes
    with opened(packed(tmp_path, "zstd", header() + bytes(8 << 20)), tmp_path, limits) as plain:
        assert plain.stat().st_size == 64 + (8 << 20)


def test_a_package_that_wants_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    # GIVEN a zstd frame with a window of 512 MB
    parameters = zstandard.ZstdCompressionParameters(window_log=29, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "core"
    path.write_bytes(writer.compress(CORE) + writer.flush())
    with pytest.raises(UserError, match="wants over 128 MB"), opened(path, tmp_path):
        pass


def test_an_xz_dictionary_of_a_gigabyte_is_refused(tmp_path: Path) -> None:
    # GIVEN an xz block header (at 12, 12 bytes with its CRC) whose dictionary size says 1 GiB
    data = bytearray(lzma.compress(CORE))
    data[16] = 36
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    path = tmp_path / "core"
    path.write_bytes(bytes(data))
    with pytest.raises(UserError, match="wants over 128 MB"), opened(path, tmp_path):
        pass


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "no room"), (errno.EDQUOT, "no room"), (errno.EIO, "cannot")]
)
def test_a_full_disk_is_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    path = packed(tmp_path, "gzip")

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(UserError, match=words) as caught, opened(path, tmp_path):
        pass
    assert "TMPDIR" in caught.value.remedy
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_that_cannot_be_written_is_the_users_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="TMPDIR"), opened(packed(tmp_path, "xz"), tmp_path / "none"):
        pass


@settings(max_examples=120, deadline=None, derandomize=True)
@given(kind=st.sampled_from(list(PACKERS)), at=st.integers(0, 400), new=st.binary(min_size=1, max_size=6))
def test_perturbed_packages_are_opened_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, at: int, new: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    data = bytearray(PACKERS[kind](CORE[:20000]))
    data[at : at + len(new)] = new
    path = folder / "perturbed"
    path.write_bytes(bytes(data))
    try:
        with opened(path, folder) as plain:
            assert plain.exists()
    except UserError:
        return
