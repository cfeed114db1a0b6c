"""How much a bundle may ask of the machine that opens it. All sizes are in bytes."""

from __future__ import annotations

MIB = 1024 * 1024
GIB = 1024 * MIB

MAX_FILES = 10_000  # a bundle of a busy fleet host holds a few hundred
MAX_TOTAL = 32 * GIB  # the largest core systemd-coredump keeps by default
MAX_RATIO = 1_000  # logs reach about 50, sparse cores some hundreds; a bomb many thousands
RATIO_FROM = 64 * MIB  # below this much output no ratio is looked at: small files of one line compress wildly
MAX_WINDOW = 128 * MIB  # what the zstd tool itself accepts without being told more
MAX_NAME = 1_024  # bytes of a path inside a bundle
MAX_HEADER = 64 * 1024  # bytes of a tar extension header: names and times need a few hundred
MAX_HEADERS = 4 * MAX_FILES  # headers of all kinds, so that an archive of nothing but headers ends
MAX_MANIFEST = 16 * MIB  # room for MAX_FILES entries
MAX_EVIDENCE = 512 * MIB
MAX_EVIDENCE_LINE = 4 * MIB  # a stack of 52,000 frames that nobody folded
MAX_EVIDENCE_LINES = 1_000_000
MAX_NAMED = 5  # bad lines or files of one sort that are named one by one; the rest is counted
CHUNK = MIB  # bytes moved at once
