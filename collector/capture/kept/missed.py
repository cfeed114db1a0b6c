"""Crashes that no handler saw: the kernel says so when core_pipe_limit handlers are at work already."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from collector.capture.setup.safe import write_synced
from collector.gather.tools import read_text
from collector.sources.kernel import KernelLine, read_kernel_lines
from collector.sources.procfs import boot_id

FILE = ".missed.jsonl"
LEAST_KEPT = 1000  # lines of the file; a crash loop fills the kernel's ring with thousands
# "coredump: 4711(llama-server): over core_pipe_limit, skipping core dump" (6.11 and later);
# "Pid 4711(llama-server) over core_pipe_limit" before (fs/coredump.c)
_LIMIT = re.compile(r"(?:^|\b)(?:coredump: |Pid )(\d{1,10})\((.{0,64}?)\):? over core_pipe_limit")
# "coredump: 4711(llama-server): connection to socket failed …" where nobody listens
_SOCKET = re.compile(r"(?:^|\b)coredump: (\d{1,10})\((.{0,64}?)\): .{0,40}socket.{0,80}")
# The kernel tells a crashing thread's name and nothing else: a server's program, Python that hosts one, and
# the names that llama-server's and Python's own threads have.
_LIKELY = ("llama", "server", "python", "http", "pt_main_thread")
_COMM = 15  # characters of a name that the kernel keeps
LIMIT, SOCKET = "over core_pipe_limit", "the coredump socket was not there"


@dataclass(frozen=True)
class Missed:
    """``comm`` is a name that the process chose; ``mono`` seconds since boot, ``wall`` Unix seconds."""

    pid: int
    comm: str
    why: str
    mono: float
    wall: float
    boot_id: str


def in_lines(lines: Iterable[KernelLine], boot: str, boot_wall: float) -> list[Missed]:
    """What the kernel's lines say of them."""
    found = []
    for line in lines:
        for pattern, why in ((_LIMIT, LIMIT), (_SOCKET, SOCKET)):
            hit = pattern.search(line.text)
            if hit is not None:
                comm = "".join(char if " " <= char <= "~" else "?" for char in hit[2])
                at = round(line.mono, 6)
                found.append(Missed(int(hit[1]), comm, why, at, round(boot_wall + at, 3), boot))
                break
    return found


def known(store: Path) -> list[Missed]:
    """Those that were kept, the oldest first; lines that cannot be read are left out."""
    found = []
    for line in (read_text(store / FILE) or b"").splitlines():
        try:
            found.append(Missed(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def is_likely(comm: str, names: Sequence[str] = ()) -> bool:
    """Whether a thread of this name may be a server's; ``names``: further programs that are servers."""
    return any(part in comm.lower() for part in _LIKELY) or comm in [name[:_COMM] for name in names]


def keep_missed(store: Path, since: float = 0.0, names: Sequence[str] = ()) -> list[Missed]:
    """Add what the kernel's ring says now; gives the new ones. Raises OSError.

    ``since``: Unix seconds of the installation; a crash before it, or of a program that is none of ours, was
    never to be captured.
    """
    before = known(store)
    seen = {(one.boot_id, one.pid, one.mono) for one in before}
    told = in_lines(read_kernel_lines(0.0).lines, boot_id() or "", time.time() - time.monotonic())
    ours = (one for one in told if one.wall >= since and is_likely(one.comm, names))
    fresh = [one for one in ours if (one.boot_id, one.pid, one.mono) not in seen]
    if fresh:
        rows = [json.dumps(asdict(one)) for one in (*before, *fresh)][-LEAST_KEPT:]
        write_synced(store / FILE, "\n".join(rows) + "\n", 0o600)
    return fresh
