"""The model that makes unloading and waking last, and how long they last with it.

Freeing weights is quick whatever their size; freeing a vocabulary is not, as every piece is a block of its
own. So the width comes from a vocabulary of real size. Measured on b11549, poisoned, two busy cores: 150,000
pieces unload in 48-73 ms and load in 800-920 ms; 256 MiB of weights added 30 ms to the one and 700 ms to the
other; the tiny model takes 1-5 ms and 8-13 ms.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from analyzers.contracts.routes import Width
from collector.lab.reference.gguf import ModelSpec, cached_model

# The size real vocabularies start at (Llama 2: 32,000; Llama 3: 128,256).
PIECES = 48_000
WIDE = ModelSpec(vocabulary=PIECES, embedding=8, feed_forward=16)
NAME = f"random weights, vocabulary of {PIECES:,} pieces"


def wide_model() -> Path:
    """Path of the widening model, made on first use. Raises UserError when it cannot be written."""
    return cached_model(WIDE)


@dataclass
class Widths:
    """Collects, from several threads, how long unloads and reloads lasted. Seconds."""

    unloads: list[float] = field(default_factory=list)
    reloads: list[float] = field(default_factory=list)
    guard: Lock = field(default_factory=Lock)

    def unloaded(self, seconds: float) -> None:
        with self.guard:
            self.unloads.append(seconds)

    def reloaded(self, seconds: float) -> None:
        with self.guard:
            self.reloads.append(seconds)

    def summary(self) -> Width:
        measured = len(self.unloads) + len(self.reloads)
        return Width(
            model=NAME,
            unload_ms=_median_ms(self.unloads),
            reload_ms=_median_ms(self.reloads),
            measured=measured,
        )


def _median_ms(seconds: Sequence[float]) -> float | None:
    return round(statistics.median(seconds) * 1000, 1) if seconds else None
