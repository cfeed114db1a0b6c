"""What kind of thing an input is, from its first bytes; names and suffixes are never trusted."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from analyzers.core.elf import MAGIC as ELF
from analyzers.core.files import opened_regular, plain, pread
from analyzers.core.packed import FORMATS, LZ4_LEGACY, Reader, damage
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
    b"GGUF": ("a model file, not evidence", WANTED),
    b"\xff\xfe\0\0": ("text in UTF-32", "run: iconv -f UTF-32 -t UTF-8 FILE > FILE.txt"),
    b"\xff\xfe": ("text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
    b"\xfe\xff": ("text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
}
WIDE = (("UTF-32LE", 4, 0), ("UTF-32BE", 4, 3), ("UTF-16LE", 2, 0), ("UTF-16BE", 2, 1))
WIDE_SAMPLE = 512  # bytes that are looked at
WIDE_SHARE = 0.8  # of the high bytes are NUL: a log is in English, whatever its prompts are
MAX_CONTROLS = (
    0.05  # share of control characters in the head of a text: colours, a torn block; random bytes have 0.1
)
# NUL is not among them: a log that was cut while it was written to starts or ends with any number of them.
_CONTROLS = bytes(code for code in range(1, 32) if code not in b"\t\n\r\x1b")


JOURNAL_MAGIC = b"LPKSHHRH"
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")  # the second: an empty archive
FOLDER, ARCHIVE, JOURNAL = "folder", "archive", "journal"
SERVER_LOG = "server-log"


@dataclass(frozen=True)
class Look:
    """What an input is. ``packed``: its bytes are compressed. ``sure`` is False for a text without a sign."""

    kind: str
    packed: bool = False
    sure: bool = True


def sniff(path: Path) -> str:
    """The kind of ``look``."""
    return look(path).kind


def look(path: Path) -> Look:
    """core, bundle, folder, archive (zip), journal (the raw file), or a kind of text (readers/looks.py).

    Raises UserError for what cannot be read, is no regular file (opening a pipe or reading a device could
    take for ever) or is none of these.
    """
    where = plain(str(path))
    folder = _folder(path, where)
    if folder is not None:
        return Look(folder)
    with opened_regular(path, where) as descriptor:
        raw = pread(descriptor, HEAD, 0)
        if not raw:
            raise UserError("the file is empty", where=where, remedy="give the file that holds the evidence")
        raw = _behind_hole(descriptor, raw, where)
        head = unpacked_head(descriptor, raw, where)
    return _by_bytes(head, packed=head is not raw, where=where)


def _behind_hole(descriptor: int, raw: bytes, where: str) -> bytes:
    """``raw``, or of a log that was cut while it was written to (copytruncate) what stands behind the hole.

    Raises UserError for a file that is one hole: reading ten gigabytes of nothing takes a while.
    """
    if raw.strip(b"\0") or os.fstat(descriptor).st_size <= HEAD:
        return raw
    try:
        return pread(descriptor, HEAD, os.lseek(descriptor, 0, os.SEEK_DATA)) or raw
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UserError(
                "the file is one hole: nothing was ever written to it",
                where=where,
                remedy="copy or fetch it again",
            ) from None
        return raw


def _folder(path: Path, where: str) -> str | None:
    """None for what is no folder. Raises UserError for one that may not be looked into."""
    try:
        if not path.is_dir():
            return None
        if any((path / name).is_file() for name in BUNDLE_FILES):
            return "bundle"
        next(path.iterdir(), None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable name"
        raise UserError(
            f"cannot be read ({reason.lower()})", where=where, remedy="check the path and its rights"
        ) from error
    return FOLDER


def _by_bytes(head: bytes, *, packed: bool, where: str) -> Look:
    if head.startswith((ELF, LZ4_LEGACY)):
        return Look("core", packed)  # the core reader says what kind of ELF it is, and how to unpack lz4
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar":
        return Look("bundle", packed)
    if head.startswith(JOURNAL_MAGIC):
        return Look(JOURNAL, packed)
    if head.startswith(ZIP_MAGICS) and not packed:
        return Look(ARCHIVE)
    return _text(head, packed, where)


def _text(head: bytes, packed: bool, where: str) -> Look:
    foreign = next((told for magic, told in FOREIGN.items() if head.startswith(magic)), None) or wide(head)
    if foreign is not None:
        raise UserError(foreign[0], where=where, remedy=foreign[1])
    # The log readers' grammars: 40 ms that a core does without.
    from analyzers.triage.readers.line_ends import with_line_feeds
    from analyzers.triage.readers.looks import text_kind

    kind = text_kind(with_line_feeds(head))
    if kind is None and packed:
        raise UserError(
            "compressed, but neither a core, a bundle nor a log is in it",
            where=where,
            remedy="decompress it and give the text",
        )
    if kind is None and len(head) - len(head.translate(None, _CONTROLS)) > len(head) * MAX_CONTROLS:
        raise UserError("neither a core, a bundle nor text", where=where, remedy=WANTED)
    return Look(kind or SERVER_LOG, packed, kind is not None)


def wide(head: bytes) -> tuple[str, str] | None:
    """What to say of text in an encoding of two or four bytes a character that has no mark; None for others.

    Bytes at every second place are NUL then, and none at the others; the block of NULs that a torn log holds
    has them at all.
    """
    for name, step, kept in WIDE:
        rows = [head[at : at + WIDE_SAMPLE : step] for at in range(step)]
        told = rows.pop(kept)
        if len(told) > 8 and 0 not in told and all(row.count(0) > len(row) * WIDE_SHARE for row in rows):
            return f"text in {name}", f"run: iconv -f {name} -t UTF-8 FILE > FILE.txt"
    return None


def unpacked_head(descriptor: int, raw: bytes, where: str) -> bytes:
    """The first bytes after one layer of zstd, gzip, xz or bzip2; ``raw`` itself when it is not packed."""
    maker = next((maker for magic, (_, maker) in FORMATS.items() if raw.startswith(magic)), None)
    if maker is None:
        return raw
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            head = _filled(maker(file))
    except UserError as problem:  # lz4 without its package
        raise UserError(problem.what, where=where, remedy=problem.remedy) from None
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
