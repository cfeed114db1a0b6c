"""Which malloc a live server really uses: filling freed memory and memory figures hold for glibc's alone."""

from __future__ import annotations

import re
from pathlib import Path

PROC = Path("/proc")
# A server maps a few hundred objects.
MAPS_LIMIT = 8 << 20
SANITIZER = "AddressSanitizer"
# By the names of the libraries as distributions and the projects install them. Each brings a malloc
# of its own, which reads neither MALLOC_PERTURB_ nor GLIBC_TUNABLES.
FOREIGN = (
    (re.compile(rb"lib(clang_rt\.)?asan[-.\w]*\.so"), SANITIZER),
    (re.compile(rb"lib(clang_rt\.)?(hwa|m|t|l)san[-.\w]*\.so"), "a sanitizer"),
    (re.compile(rb"libjemalloc[-.\w]*\.so"), "jemalloc"),
    (re.compile(rb"libtcmalloc[-.\w]*\.so"), "tcmalloc"),
    (re.compile(rb"libmimalloc[-.\w]*\.so"), "mimalloc"),
    (re.compile(rb"libsnmalloc[-.\w]*\.so"), "snmalloc"),
    (re.compile(rb"libhardened_malloc[-.\w]*\.so"), "hardened_malloc"),
    (re.compile(rb"libtbbmalloc[-.\w]*\.so"), "tbbmalloc"),
    (re.compile(rb"ld-musl-[-.\w]*\.so|libc\.musl-"), "musl"),
)


def foreign_allocator(pid: int, proc: Path = PROC) -> str | None:
    """The allocator that is not glibc's, by what the process has mapped; None for glibc's, and for a process
    that is gone. One that is linked in statically is not seen."""
    try:
        with (proc / str(pid) / "maps").open("rb") as listed:
            names = {
                line.rpartition(b"/")[2] for line in listed.read(MAPS_LIMIT).splitlines() if b"/" in line
            }
    except OSError:
        return None
    return next((what for how, what in FOREIGN if any(how.match(name) for name in names)), None)
