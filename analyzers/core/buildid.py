"""Build-ids: of a file, of the files mapped in a core, whether they agree; and which file is which.

The build-id is the note NT_GNU_BUILD_ID of owner GNU that the linker writes near the start of a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from analyzers.core import elf
from analyzers.core.files import opened_regular, pread
from analyzers.core.memory import Memory
from analyzers.core.model import Core, MappedFile

NT_GNU_BUILD_ID = 3
FIRST_PAGE = 4096  # the kernel dumps the first page of every mapped ELF file (coredump_filter bit 4)
MAX_HEADER_BYTES = 64 << 10  # program or section headers of one file; the largest seen here is 3 KB
MAX_NOTE_BYTES = 4 << 10  # a note segment of one file; usually under 100 bytes
MAX_NOTE_BLOCKS = 8  # note segments and sections of one file; usual are two to four
MAX_FILES = 1024  # different files of one core whose build-id is looked for; a hosted server maps about 60
MAX_ID_BYTES = 64  # SHA-512; usual are 20 (SHA-1) and 16 (MD5)
AT_PHDR = 3
AT_EXECFN = 31
MAX_PATH_BYTES = 4096  # PATH_MAX
DELETED = " (deleted)"  # what the kernel puts behind the name of a mapped file that is gone
SERVER_NAMES = tuple(  # base names that may hold the server's code, surest first
    re.compile(pattern)
    for pattern in (
        r"xllamacpp.*\.abi3\.so$",
        r"libllama-server.*\.so",  # builds that keep the server in a library beside a small main program
        r"llama-server|llama-cli|llama$|llama-app",
        r"libllama.*\.so",
    )
)


@dataclass(frozen=True)
class Match:
    """The file on disk is the one that was mapped."""

    build_id: str


@dataclass(frozen=True)
class Mismatch:
    """The file on disk is another build than the one that was mapped."""

    core_id: str
    file_id: str


@dataclass(frozen=True)
class Unknown:
    """One side has no readable build-id; ``why`` says which."""

    why: str


@dataclass(frozen=True)
class Executables:
    """Mapped paths: the main program, and the file that holds the server's code (often the same one)."""

    main: str | None = None
    server: str | None = None


def build_id_of_file(path: Path) -> str | None:
    """The build-id in hex; None when the file is no ELF64 file or carries none. Raises UserError."""
    with opened_regular(path) as descriptor:
        data = pread(descriptor, elf.HEADER_SIZE, 0)
        if not elf.is_elf64_little(data):
            return None
        header = elf.parse_header(data)
        blocks = (pread(descriptor, min(size, MAX_NOTE_BYTES), at) for at, size in _notes(descriptor, header))
        return _first_id(blocks)


def _notes(descriptor: int, header: elf.Header) -> list[tuple[int, int]]:
    """(offset, size) of every note segment and note section."""
    programs = pread(descriptor, _table(header.program_count, elf.PROGRAM_HEADER_SIZE), header.program_offset)
    sections = pread(descriptor, _table(header.section_count, elf.SECTION_HEADER_SIZE), header.section_offset)
    return [
        (row.offset, row.file_size) for row in elf.program_headers(programs) if row.type == elf.PT_NOTE
    ] + [(row.offset, row.size) for row in elf.section_headers(sections) if row.type == elf.SHT_NOTE]


def _table(count: int, size: int) -> int:
    return min(count * size, MAX_HEADER_BYTES)


def _first_id(blocks: Iterable[bytes]) -> str | None:
    for block in islice(blocks, MAX_NOTE_BLOCKS):
        for note in elf.notes(block):
            if note.owner == b"GNU" and note.type == NT_GNU_BUILD_ID and 0 < len(note.body) <= MAX_ID_BYTES:
                return note.body.hex()
    return None


def build_ids_in_core(core: Core) -> dict[str, str]:
    """Mapped path -> build-id, for every mapped ELF file whose first page was dumped."""
    firsts: dict[str, MappedFile] = {}
    for row in core.mapped:
        if row.file_offset == 0 and len(firsts) < MAX_FILES:
            firsts.setdefault(row.path, row)
    with Memory(core) as memory:
        found = {path: _mapped_id(memory, row) for path, row in firsts.items()}
    return {path: build_id for path, build_id in found.items() if build_id is not None}


def _mapped_id(memory: Memory, row: MappedFile) -> str | None:
    page = memory.read(row.start, FIRST_PAGE)
    if not elf.is_elf64_little(page):
        return None
    header = elf.parse_header(page)
    end = header.program_offset + _table(header.program_count, elf.PROGRAM_HEADER_SIZE)
    found = (r for r in elf.program_headers(page[header.program_offset : end]) if r.type == elf.PT_NOTE)
    return _first_id(memory.read(row.start + r.offset, min(r.file_size, MAX_NOTE_BYTES)) for r in found)


def compare(core: Core, path: Path, mapped: str | None = None) -> Match | Mismatch | Unknown:
    """Whether the file at ``path`` is the build that the core mapped as ``mapped`` (default: as ``path``).

    Raises UserError when the file cannot be opened.
    """
    core_id = core.build_ids.get(mapped if mapped is not None else os.fspath(path))
    file_id = build_id_of_file(path)
    if core_id is None:
        return Unknown("the core does not hold the mapped file's build-id")
    if file_id is None:
        return Unknown("the file has no build-id")
    return Match(core_id) if core_id == file_id else Mismatch(core_id, file_id)


def find_executable(core: Core) -> Executables:
    """The main program (AT_PHDR lies in it, else AT_EXECFN names it) and the holder of the server's code."""
    main = _main_program(core)
    paths = dict.fromkeys(row.path for row in core.mapped)
    for pattern in SERVER_NAMES:
        found = next((path for path in paths if pattern.match(_name(path))), None)
        if found is not None:
            return Executables(main, found)
    return Executables(main, None)


def _name(path: str) -> str:
    return os.path.basename(path.removesuffix(DELETED))


def _main_program(core: Core) -> str | None:
    row = core.mapped_at(core.auxv.get(AT_PHDR, 0))
    if row is not None:
        return row.path
    with Memory(core) as memory:
        name = memory.read(core.auxv.get(AT_EXECFN, 0), MAX_PATH_BYTES).split(b"\0", 1)[0]
    base = os.path.basename(name.decode("utf-8", "surrogateescape"))
    return next((row.path for row in core.mapped if base and os.path.basename(row.path) == base), None)
