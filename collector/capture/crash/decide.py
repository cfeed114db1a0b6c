"""Ours or not: whether a dying process runs llama-server's code, told in a millisecond or two.

By the file that is executed, by the files it has mapped, and for a program of another name by texts in
its constant data. Names that a process can choose for itself (comm, argv) prove nothing.
"""

import os
from struct import Struct
from time import monotonic

from collector.capture.crash import limits
from collector.capture.crash.proc import Process

DELETED = " (deleted)"
_UNIFIED = ("llama", "llama-app")  # one program of many verbs
_SERVING = (b"serve", b"server")
# What builds and packages add to the program's name; numbers behind them (cuda12) do not count.
_VARIANTS = (
    *("cpu", "gpu", "cuda", "hip", "rocm", "vulkan", "sycl", "metal", "opencl", "musa", "cann", "openvino"),
    *(
        "openblas",
        "blas",
        "rpc",
        "avx",
        "sse",
        "noavx",
        "native",
        "static",
        "shared",
        "x",
        "amd",
        "arm",
        "aarch",
    ),
    *(
        "debug",
        "release",
        "asan",
        "tsan",
        "ubsan",
        "real",
        "orig",
        "bin",
        "exe",
        "wrapped",
        "linux",
        "ubuntu",
    ),
    *("new", "old", "prev", "bak", "backup", "next", "test", "dev", "main", "master", "stable", "latest"),
    *("nightly", "patched", "fixed", "stock"),
)
_COMMIT_CHARS = 7  # of a shortened commit
_OLD_PROGRAM = "server"  # its name until June 2024: only beside llama.cpp's own libraries
# Texts of the server's code that every build since 2023 has, in pairs: one alone may stand in a quotation.
_TEXTS = (b"update_slots", b"all slots are idle")
_WINDOW = 1 << 20
_MIN_PROGRAM = 1 << 20  # the server's code alone is larger
_PHDR = Struct("<IIQQQQQQ")


def server_mark(process: Process, names: tuple[str, ...] = ()) -> str | None:
    """What shows that this is a llama-server; None when nothing does.

    ``names``: more file names, of programs or libraries, that the settings call a server's. Raises OSError
    when the process is gone.
    """
    program = process.link("exe").removesuffix(DELETED)
    name = program.rpartition("/")[2]
    if _names_server(name) or name in names:
        return f"program {name}"
    mapped = mapped_names(process.read("maps", limits.DECIDE_MAPS_BYTES))
    for file in sorted(mapped):
        if names_library(file) or file in names:
            return f"mapped {file}"
    if (name == _OLD_PROGRAM or _spoken(name)) and any(_names_part(file) for file in mapped):
        return f"program {name} with llama.cpp's libraries"
    if name in _UNIFIED and process.read("cmdline", 4096).split(b"\0")[1:2] in [[verb] for verb in _SERVING]:
        return f"program {name} told to serve"
    return f"texts in {name}" if _has_texts(process) else None


def _names_server(name: str) -> bool:
    """The server's name alone, or with what builds and packages put behind it: llama-server-exporter is
    another program, whose core somebody else waits for."""
    words = _words(name)
    words = words[1:] if words[:1] == ["ollama"] else words  # ollama_llama_server
    named = 1 if words[:1] == ["llamaserver"] else 2 if words[:2] == ["llama", "server"] else 0
    return named > 0 and all(_is_variant(word) for word in words[named:])


def _spoken(name: str) -> bool:
    return any(f"llama{joint}server" in name for joint in ("-", "_", ".", ""))


def _words(name: str) -> list[str]:
    parts = name.lower().replace("_", "-").replace(".", "-").replace("+", "-").split("-")
    return [part for part in parts if part]


def _is_variant(word: str) -> bool:
    number = word.lstrip("bvr")  # b11138, v2
    commit = len(word) >= _COMMIT_CHARS and all(letter in "0123456789abcdef" for letter in word)
    return word.rstrip("0123456789") in _VARIANTS or number.isdigit() or commit


def names_library(name: str) -> bool:
    """A file that holds the server's code where the program is another one."""
    return ".so" in name and ("libllama-server" in name or "xllamacpp" in name)


def _names_part(name: str) -> bool:
    return ".so" in name and name.startswith(("libllama", "libggml"))


def mapped_names(maps: bytes) -> set[str]:
    """Names, without folders, of the mapped files."""
    found = set()
    for line in maps.split(b"\n"):
        at = line.find(b"/")
        if at > 0:
            path = os.fsdecode(line[at:]).removesuffix(DELETED)
            found.add(path.rpartition("/")[2])
    return found


def _has_texts(process: Process) -> bool:
    """Whether the program's constant data holds the server's texts; False when the time is up."""
    end = monotonic() + limits.DECIDE_SECONDS
    descriptor = process.open("exe")
    try:
        if os.fstat(descriptor).st_size < _MIN_PROGRAM:
            return False
        missing = list(_TEXTS)
        for at, size in _constant_ranges(descriptor):
            for window in range(at, at + size, _WINDOW):
                data = os.pread(descriptor, min(_WINDOW + 64, at + size - window), window)
                missing = [text for text in missing if text not in data]
                if not missing or not data or monotonic() > end:
                    return not missing
        return False
    finally:
        os.close(descriptor)


def _constant_ranges(descriptor: int) -> list[tuple[int, int]]:
    """(offset, size) of the loaded segments that are neither writable nor, where there are others, code."""
    head = os.pread(descriptor, 4096, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return []
    at, count = int.from_bytes(head[32:40], "little"), int.from_bytes(head[56:58], "little")
    rows = [row for row in _rows(head, at, count) if row[0] == 1 and not row[1] & 2]
    plain = [row for row in rows if not row[1] & 1 and row[2] > 0]  # the first one holds symbols only
    return [(row[2], row[5]) for row in plain or rows]


def _rows(head: bytes, at: int, count: int) -> list[tuple[int, ...]]:
    whole = min(count, (len(head) - at) // _PHDR.size) if 0 < at < len(head) else 0
    return [_PHDR.unpack_from(head, at + number * _PHDR.size) for number in range(whole)]
