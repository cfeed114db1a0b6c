"""What an input is, by its bytes alone; and that looking never blocks, never runs and never guesses."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import re
import socket
import struct
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.errors import UserError
from analyzers.triage.sniff import HEAD, sniff

KINDS = {
    *("core", "bundle", "folder", "archive", "journal", "journal-export", "journal-json", "journal-verbose"),
    *("journal-text", "container-log", "server-log", "kernel-log", "stack-trace", "core-record", "sockets"),
    *("unit-state", "container-state", "pod-description", "issue"),
}
SERVER = b"0.00.004.097 I srv          init: loading model\n"
KERNEL = b"[ 4646.603480] llama-server[42]: segfault at 172 ip 0000000000000172 sp 00007ffe error 14\n"
TRACE = b"#0  0x00007f0000001234 in llama_decode () from libllama.so\n#1  0x00007f0000001240 in main ()\n"
EXPORT = b"__CURSOR=s=abc\n__REALTIME_TIMESTAMP=1\nMESSAGE=hello\n\n"
JSON = b'{"__CURSOR":"s=abc","MESSAGE":"hello"}\n'
DAMAGED = re.compile("cut or damaged|neither")
REFUSED = re.compile("not a regular file|cannot be opened")
MAGICS = [b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh9", b"\x7fELF", b"{", b"#0 "]
RANDOM = random.Random(7).randbytes(4096)


def elf(kind: int = 4) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", kind, 62) + bytes(300)


def tar() -> bytes:
    info = tarfile.TarInfo("manifest.json")
    return info.tobuf() + bytes(1024)


def put(folder: Path, data: bytes) -> Path:
    path = folder / "input"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (SERVER, "server-log"),
        (KERNEL, "kernel-log"),
        (TRACE, "stack-trace"),
        (EXPORT, "journal-export"),
        (JSON, "journal-json"),
        (elf(), "core"),
        (tar(), "bundle"),
        (b"\x02\x21\x4c\x18" + RANDOM, "core"),  # legacy lz4: the core reader names the tool
        (b"hello\n", "server-log"),
        (b"x", "server-log"),
        (bytes(5000), "server-log"),
        (bytes(5000) + SERVER, "server-log"),
        (b"\xff\xe9\xe8" * 100, "server-log"),
        (b"\x1b[31mred\x1b[0m\n" * 50, "server-log"),
        (RANDOM[:600] + b"\n" + SERVER * 3, "server-log"),
    ],
)
def test_what_it_holds_decides(tmp_path: Path, data: bytes, kind: str) -> None:
    assert sniff(put(tmp_path, data)) == kind


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize(("data", "kind"), [(elf(), "core"), (tar(), "bundle")])
def test_one_layer_of_packing_is_looked_through(
    tmp_path: Path, pack: Callable[[bytes], bytes], data: bytes, kind: str
) -> None:
    assert sniff(put(tmp_path, pack(data + RANDOM * 40))) == kind


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress, lzma.compress, bz2.compress])
def test_what_is_packed_and_no_evidence_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UserError, match="neither a core, a bundle nor a log is in it"):
        sniff(put(tmp_path, pack(b"hello\n" * 100)))


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("keep", [6, 14, 30])
def test_a_cut_packed_file_never_raises_anything_else(
    tmp_path: Path, pack: Callable[[bytes], bytes], keep: int
) -> None:
    data = pack(RANDOM)
    with pytest.raises(UserError, match=DAMAGED):
        sniff(put(tmp_path, data[:keep]))
    with pytest.raises(UserError, match=DAMAGED):
        sniff(put(tmp_path, data[:keep] + RANDOM))


def test_a_cut_packed_core_is_still_a_core(tmp_path: Path) -> None:
    whole = gzip.compress(elf() + RANDOM * 100)
    assert sniff(put(tmp_path, whole[: len(whole) // 2])) == "core"


def test_a_broken_deflate_stream_is_damage(tmp_path: Path) -> None:
    head = gzip.compress(b"x")[:10]
    with pytest.raises(zlib.error):
        gzip.decompress(head + b"\xff" * 64)
    with pytest.raises(UserError, match="cut or damaged"):
        sniff(put(tmp_path, head + b"\xff" * 64))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n" + RANDOM, "a picture"),
        (b"\xff\xd8\xff\xe0" + RANDOM, "a picture"),
        (b"%PDF-1.7\n" + RANDOM, "a PDF document"),
        (b"GGUF" + bytes(99), "a model file"),
        (SERVER.decode().encode("utf-16"), "iconv"),
        (RANDOM, "neither a core, a bundle nor text"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(UserError, match="input") as caught:
        sniff(put(tmp_path, data))
    assert told in str(caught.value)


def test_a_pipe_a_socket_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    pipe, sock = tmp_path / "pipe", tmp_path / "sock"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sock))
        for path in (pipe, sock, Path("/dev/zero"), Path("/dev/urandom"), Path("/dev/tty")):
            with pytest.raises(UserError, match=REFUSED):
                sniff(path)


def test_folders_and_names_that_lead_nowhere(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, told in (
        (tmp_path / "nothing", "no such file"),
        (loop, "too many levels"),
        (tmp_path / ("x" * 5000), "name too long"),
        (Path("a\0b"), "not a usable name"),
    ):
        with pytest.raises(UserError, match=told) as caught:
            sniff(path)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["manifest.json", "evidence.jsonl"])
def test_a_folder_with_either_file_of_a_bundle_is_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "server.log").write_bytes(SERVER)
    assert sniff(tmp_path) == "folder"
    (tmp_path / name).mkdir()
    assert sniff(tmp_path) == "folder"
    (tmp_path / name).rmdir()
    (tmp_path / name).write_text("{}")
    assert sniff(tmp_path) == "bundle"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.binary(max_size=600),
        st.tuples(
            st.sampled_from(MAGICS),
            st.binary(max_size=300),
        ).map(b"".join),
        st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    )
)
def test_any_bytes_are_a_kind_or_one_refusal(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    with suppress(UserError):
        assert sniff(path) in KINDS
    assert path.read_bytes() == data


def test_only_the_head_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(SERVER)
        file.truncate(1 << 40)
    assert HEAD < 1 << 20
    assert sniff(path) == "server-log"
