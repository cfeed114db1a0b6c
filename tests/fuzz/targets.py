"""What is fuzzed: by name its check, seeds, structure-aware mutation, size and share of a run's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.fuzz import seeds, structure
from tests.fuzz.structure import Mutation


@dataclass(frozen=True)
class Target:
    """``check`` names a function of tests.fuzz.checks. ``share``: of the inputs of a whole run, in parts of
    the sum of all; the slow ones get less. ``structured``: how often its own mutation is used.
    """

    name: str
    check: str
    seeds: Callable[[], Iterable[bytes]]
    mutation: Mutation
    share: int
    max_bytes: int = 16 << 10
    structured: float = 0.6


def _lines(*kinds: Callable[[], Iterable[bytes]]) -> Mutation:
    return structure.lines([data for kind in kinds for data in kind()])


def _json(kind: Callable[[], Iterable[bytes]]) -> Mutation:
    return structure.either(_lines(kind), structure.json_values)


def every() -> tuple[Target, ...]:
    """In the order they are run."""
    text = _lines(seeds.logs, seeds.kernel_lines, seeds.traces)
    trace = _lines(seeds.traces)
    return (
        Target("core", "core", seeds.cores, structure.core, 24, 64 << 10, 0.7),
        Target("core-material", "core_material_", seeds.cores, structure.core, 4, 64 << 10, 0.7),
        Target("notes", "notes", seeds.notes, structure.notes, 28),
        Target("core-writer", "corefile_", seeds.notes, structure.notes, 4, 2048, 0.2),
        Target("gdb-mi", "mi", seeds.mi, structure.mi, 2),
        Target("eu-stack", "eu_stack", lambda: [seeds.EU_STACK], _lines(lambda: [seeds.EU_STACK]), 2),
        Target("pasted-trace", "pasted", seeds.traces, trace, 6),
        Target("log", "log", seeds.logs, text, 3),
        Target("journal-export", "journal_export", seeds.exports, _lines(seeds.exports), 5),
        Target("journal-json", "journal_json", seeds.jsons, _json(seeds.jsons), 5),
        Target("journal-verbose", "journal_verbose", seeds.verbose, _lines(seeds.verbose), 5),
        Target("kernel-lines", "kernel", seeds.kernel_lines, _lines(seeds.kernel_lines), 24, 4096),
        Target("listings", "listings", seeds.listings, structure.after_first(_json(seeds.listings)), 5),
        Target("issue", "issue", seeds.issues, _lines(seeds.issues, seeds.traces), 2),
        Target("bundle", "bundle", seeds.archives, structure.tar, 3, 32 << 10, 0.5),
        Target("packed", "packed", seeds.packed, structure.core, 3, 32 << 10, 0.1),
        Target("capture-json", "capture", seeds.captures, structure.json_values, 8, 4096, 0.8),
        Target("report", "report", seeds.logs, text, 1),
    )
