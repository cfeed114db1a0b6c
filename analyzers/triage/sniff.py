"""What kind of thing an input is, from its first bytes; names and suffixes are never trusted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from analyzers.core.elf import MAGIC as ELF
from analyzers.core.files import opened_regular, plain, pread
from analyzers.core.packed import FORMATS, LZ4_MAGICS, Reader, damage
from analyzers.errors import UserError

HEAD = 64 << 10
TAR_MAGIC_AT = 257
MANIFEST = "manifest.json"
BUNDLE_FILES = (MANIFEST, "evidence.jsonl")  # either makes a folder a bundle
WANTED = "give a core, a server's log, a journal export, a backtrace or a bundle"
_PICTURE = ("a picture", "paste its text into a file")
# Things people hand over by mistake, and what they should have handed over.
FOREIGN: dict[bytes, tuple[str, str]] = {
    b"\x89PNG": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"%PDF": ("a PDF document", "paste its text into a file"),
    b"PK\x03\x04": ("a zip archive", "unpack it and name the files in it"),
    b"GGUF": ("a model file, not evidence", WANTED),
    b"LPKSHHRH": ("a journal file", "run: journalctl --file FILE -o export > server.export"),
    b"\xff\xfe": ("text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
    b"\xfe\xff": ("text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
}
MAX_CONTROLS = (
    0.05  # share of control characters in the head of a text: colours, a torn block; random bytes have 0.1
)
# NUL is not among them: a log that was cut while it was written to starts or ends with any number of them.
_CONTROLS = bytes(code for code in range(1, 32) if code not in b"\t\n\r\x1b")


def sniff(path: Path) -> str:
    """One of: core, bundle, journal-export, journal-json, kernel-log, server-log, stack-trace.

    Raises UserError for what cannot be read, is no regular file (opening a pipe or reading a device could
    take for ever) or is none of these.
    """
    where = plain(str(path))
    if _is_folder(path, where):
        return "bundle"
    with opened_regular(path, where) as descriptor:
        raw = pread(descriptor, HEAD, 0)
        if not raw:
            raise UserError("the file is empty", where=where, remedy="give the file that holds the evidence")
        head = unpacked_head(descriptor, raw, where)
    return _by_bytes(head, packed=head is not raw, where=where)


def _is_folder(path: Path, where: str) -> bool:
    """True for a bundle's folder. Raises UserError for any other one."""
    try:
        if not path.is_dir():
            return False
        if any((path / name).is_file() for name in BUNDLE_FILES):
            return True
        next(path.iterdir(), None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable name"
        raise UserError(
            f"cannot be read ({reason.lower()})", where=where, remedy="check the path and its rights"
        ) from error
    raise UserError(
        f"a folder and no bundle (it has no {MANIFEST})", where=where, remedy="name the files in it"
    )


def _by_bytes(head: bytes, *, packed: bool, where: str) -> str:
    if head.startswith((ELF, *LZ4_MAGICS)):
        return "core"  # the core reader says what kind of ELF it really is, and how to unpack lz4
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar":
        return "bundle"
    if packed:
        raise UserError(
            "compressed, but neither a core nor a bundle is in it",
            where=where,
            remedy="decompress it and give the text",
        )
    return _text_kind(head, where)


def _text_kind(head: bytes, where: str) -> str:
    from analyzers.logs import looks  # the log readers' grammars: 40 ms that a core does without
    from analyzers.triage.traces import looks_like_trace

    foreign = next((told for magic, told in FOREIGN.items() if head.startswith(magic)), None)
    if foreign is not None:
        raise UserError(foreign[0], where=where, remedy=foreign[1])
    tests: tuple[tuple[Callable[[bytes], bool], str], ...] = (
        (looks.looks_like_export, "journal-export"),
        (looks.looks_like_json, "journal-json"),
        (looks.looks_like_log, "server-log"),
        (looks.looks_like_kernel, "kernel-log"),
        (looks_like_trace, "stack-trace"),
    )
    kind = next((kind for test, kind in tests if test(head)), None)
    if kind is None and len(head) - len(head.translate(None, _CONTROLS)) > len(head) * MAX_CONTROLS:
        raise UserError("neither a core, a bundle nor text", where=where, remedy=WANTED)
    return kind or "server-log"


def unpacked_head(descriptor: int, raw: bytes, where: str) -> bytes:
    """The first bytes after one layer of zstd, gzip, xz or bzip2; ``raw`` itself when it is not packed."""
    maker = next((maker for magic, (_, maker) in FORMATS.items() if raw.startswith(magic)), None)
    if maker is None:
        return raw
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            head = _filled(maker(file))
    except damage():
        head = b""
    if not head:
        raise UserError("the compressed data is cut or damaged", where=where, remedy="copy or fetch it again")
    return head


def _filled(reader: Reader) -> bytes:
    """HEAD bytes, or all there are; what came before damage still counts."""
    head = b""
    try:
        while len(head) < HEAD and (part := reader.read(HEAD - len(head))):
            head += part
    except damage():
        if not head:
            raise
    return head
