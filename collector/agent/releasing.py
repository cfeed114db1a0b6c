"""Releases stranded requests where the operator asked for it: once, when a reload can succeed.

Every waking call reloads the model, and a reload that fails aborts the server (D7): so the model's files must
be as they were and memory must be there before anything is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzers.catalogue.builds import build_number_of
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ActionFact, ModelFileFact, fact_of, to_evidence
from collector.discovery.model import Found
from collector.gather.network import within
from collector.sources.modelfile import look_at_model
from collector.sources.procfs import PROC
from collector.sources.sockdiag import TcpSample
from collector.sources.target import Target

# Without mmap the weights are read into memory, and the context comes on top: a tenth and 256 MiB.
ROOM_FACTOR, ROOM_BYTES = 1.1, 256 << 20
# POST /tokenize passes the barrier and reads nothing of the model when its body is empty. Up to b11138 it
# was measured on wheels only; an unknown build gets the same call, because none is gentler.
GENTLEST = "tokenize"
TRIED = "a release failed before in this life of the server; not tried again"
GOOD = frozenset({"released", "woken", "abandoned", "nothing-to-release"})
ACTION = "release-stranded"  # as collector.actions.release names it
Release = Callable[..., Evidence]


def release_stranded(*told: Any, **more: Any) -> Evidence:
    """The real action. The HTTP library takes 12 MB: only an agent that acts has it."""
    from collector.actions.release import release_stranded as act

    return act(*told, **more)


def waker_of(build: int | None) -> str:
    """The gentlest call that wakes a server of ``build``; a key of collector.actions.release.WAKERS."""
    return GENTLEST


def memory_available() -> int | None:
    """MemAvailable in bytes; None where it is hidden."""
    try:
        for line in (PROC / "meminfo").read_text("ascii", "replace").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


@dataclass
class Releaser:
    """``seen`` when a server is first found, ``release`` when it is stranded; ``release`` blocks until the
    server woke: call it in a thread of its own."""

    act: Release = release_stranded
    look: Callable[..., list[ModelFileFact]] = look_at_model
    available: Callable[[], int | None] = memory_available
    inside: Callable[[int, Callable[[], Evidence]], Evidence] = within
    _files: dict[int, tuple[Incarnation, list[ModelFileFact]]] = field(default_factory=dict)
    _failed: dict[int, Incarnation] = field(default_factory=dict)

    def seen(self, found: Found) -> None:
        """Remember how its model files look now, while it is known to have them loaded."""
        known = self._files.get(found.pid)
        if found.model_files and (known is None or known[0] != found.incarnation):
            files = self.look(list(found.model_files), pid=found.pid)
            self._files[found.pid] = (found.incarnation, files)

    def gone(self, pid: int) -> None:
        """Forget a server that ended."""
        self._files.pop(pid, None)
        self._failed.pop(pid, None)

    def release(self, found: Found, target: Target, connections: Sequence[TcpSample]) -> Evidence:
        """One call at most; the action as evidence. Refused after one failure in this life."""
        if self._failed.get(found.pid) == found.incarnation:
            return refusal(found, TRIED)
        files = self._files_of(found)
        short = self._too_little(files)
        if short is not None:
            return self._remembered(found, refusal(found, short))
        quiet = max((tcp.last_data_recv_ms or 0 for tcp in connections), default=0) / 1000
        from collector.sources.stranded import Stranded

        stranded = Stranded(target, tuple(connections), quiet, ())
        waker = waker_of(build_number_of(found.build))
        done = self.inside(found.pid, lambda: self.act(stranded, files=files, waker=waker))
        return self._remembered(found, done)

    def _files_of(self, found: Found) -> list[ModelFileFact]:
        known = self._files.get(found.pid)
        return known[1] if known is not None and known[0] == found.incarnation else []

    def _too_little(self, files: Sequence[ModelFileFact]) -> str | None:
        free = self.available()
        need = int(sum(file.size or 0 for file in files) * ROOM_FACTOR) + ROOM_BYTES
        if not files or free is None or free >= need:
            return None
        return f"{free >> 20} MiB of memory are available and the reload may need {need >> 20} MiB"

    def _remembered(self, found: Found, done: Evidence) -> Evidence:
        fact = fact_of(done, ActionFact)
        if fact is None or fact.outcome not in GOOD:
            self._failed[found.pid] = found.incarnation
        return done


def refusal(found: Found, why: str) -> Evidence:
    """The action that was not done."""
    mono = time.monotonic()
    return to_evidence(
        ActionFact(action=ACTION, outcome="refused"),
        id=f"{ACTION}-{found.pid}-{int(mono * 1000)}",
        source=f"action, process {found.pid}",
        text=f"release of a stranded request: refused ({why})",
        trust=Trust.SUPERVISOR,
        wall=time.time(),
        mono=mono,
        incarnation=found.incarnation,
    )
