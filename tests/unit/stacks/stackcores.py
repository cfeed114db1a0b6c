"""Small hand-made cores for the stack tests: one code segment, one stack, registers and notes."""

from __future__ import annotations

import struct
from pathlib import Path

from analyzers.core.model import Core, MappedFile, Segment, ThreadRegisters

CODE, CODE_SIZE = 0x400000, 0x10000
STACK = 0x7F0000000000
TID = 4242
SERVER = "/opt/server/llama-server"


def note(kind: int, body: bytes) -> bytes:
    padded = body + b"\0" * (-len(body) % 4)
    return struct.pack("<III", 5, len(body), kind) + b"CORE\0\0\0\0" + padded


def prstatus(tid: int, rip: int, rsp: int) -> bytes:
    registers = [0] * 27
    registers[16], registers[19] = rip, rsp
    return (
        struct.pack("<i", 11)
        + b"\0" * 28
        + struct.pack("<i", tid)
        + b"\0" * 76
        + struct.pack("<27Q", *registers)
        + b"\0" * 8
    )


def write_core(folder: Path, words: list[int], *, rsp: int = STACK, threads: int = 1) -> Core:
    """A core whose crashed thread's stack holds ``words`` from STACK on; also written as a real ELF file."""
    stack = struct.pack(f"<{len(words)}Q", *words)
    notes = b"".join(note(1, prstatus(TID + index, CODE + 0x10, rsp)) for index in range(threads))
    notes_at, stack_at = 64 + 3 * 56, 4096
    assert notes_at + len(notes) <= stack_at
    elf = (
        b"\x7fELF\x02\x01\x01"
        + b"\0" * 9
        + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    )
    headers = b"".join(
        struct.pack("<IIQQQQQQ", *row)
        for row in (
            (4, 0, notes_at, 0, 0, len(notes), 0, 4),
            (1, 5, stack_at, CODE, 0, 0, CODE_SIZE, 4096),
            (1, 6, stack_at, STACK, 0, len(stack), len(stack), 4096),
        )
    )
    path = folder / "core"
    path.write_bytes((elf + headers + notes).ljust(stack_at, b"\0") + stack)
    block = notes_at + 20 + 112
    return Core(
        path=path,
        threads=tuple(
            ThreadRegisters(
                TID + index, {"rip": CODE + 0x10, "rsp": rsp}, block + index * (len(notes) // threads)
            )
            for index in range(threads)
        ),
        mapped=(MappedFile(CODE, CODE + CODE_SIZE, 0, SERVER),),
        segments=(
            Segment(CODE, CODE_SIZE, stack_at, 0, True),
            Segment(STACK, len(stack), stack_at, len(stack), False, writable=True),
        ),
        file_size=path.stat().st_size,
    )


def tool(folder: Path, name: str, script: str) -> None:
    """A stand-in for a stack tool: a shell script of builtins only, since a confined tool cannot fork."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
