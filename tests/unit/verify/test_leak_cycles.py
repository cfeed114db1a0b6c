"""One cycle: what is read from the kernel, and when it says something."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, LEAKED, Subject
from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.leak import cycles
from collector.lab.verify.leak.cycles import MIB, Reading, judged, leak_trials, with_draft
from collector.lab.verify.leak.memory import Resident, maps, resident

ROLLUP = """00400000-7ffc41d3b000 ---p 00000000 00:00 0                              [rollup]
Rss:               31520 kB
Pss:               18500 kB
Pss_Anon:          12400 kB
Anonymous:         12410 kB
Swap:                  0 kB
"""
SIZE = 33 * MIB
COMMON = {"number": 1, "defect": "D5", "route": "POST /completion", "state": "sleep 1"}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text(ROLLUP)
    (tmp_path / "7" / "maps").write_text(
        f"7f0-7f1 r--p 00000000 00:00 1 {tmp_path.resolve() / 'draft.gguf'}\n"
    )
    return tmp_path


def reading(awake: float, asleep: float, mapped: bool = False) -> Reading:
    def held(mib: float) -> Resident:
        return Resident(int(mib * MIB), int(mib * MIB / 3), int(mib * MIB / 2))

    return Reading(held(awake), held(asleep), mapped)


def test_the_kernels_own_figures_in_bytes(proc: Path) -> None:
    assert resident(7, proc) == Resident(31520 << 10, 12410 << 10, 18500 << 10)


@pytest.mark.parametrize("text", ["", "Rss: x kB\n", ROLLUP.replace("Anonymous", "Other"), "\0" * 50])
def test_a_kernel_that_does_not_tell_gives_nothing(proc: Path, text: str) -> None:
    (proc / "7" / "smaps_rollup").write_text(text)
    assert resident(7, proc) is None


def test_a_process_that_is_gone_gives_nothing(proc: Path) -> None:
    assert resident(8, proc) is None
    assert not maps(8, proc / "draft.gguf", proc)


def test_a_mapped_file_is_seen(proc: Path) -> None:
    assert maps(7, proc / "draft.gguf", proc)
    assert not maps(7, proc / "other.gguf", proc)


def test_a_draft_kept_and_a_draft_freed() -> None:
    # GIVEN the twin's 30 MiB awake and 28 asleep, as measured
    twin = reading(30, 28)
    kept = judged(COMMON, twin, reading(81, 62, mapped=True), SIZE, 1.0)
    freed = judged(COMMON, twin, reading(81, 30), SIZE, 1.0)
    assert (kept.outcome, freed.outcome) == (LEAKED, ANSWERED)
    assert kept.reached
    assert freed.reached
    row = kept.model_dump()
    assert (row["loaded_mib"], row["kept_mib"], row["draft_mapped"]) == (51, 34, True)
    assert "34.0 MiB more than its twin" in kept.notes[0]


def test_a_draft_that_was_never_loaded_proves_nothing() -> None:
    """b11549 with a draft whose kind is not named loads it and drops it: memory then looks sound."""
    trial = judged(COMMON, reading(31, 30), reading(32, 30.5), SIZE, 1.0)
    assert (trial.outcome, trial.reached) == (INCONCLUSIVE, False)
    assert "not in memory while awake" in trial.notes[0]


def test_asan_builds_are_refused_with_the_reason() -> None:
    class Chosen:
        subject = Subject(kind="native", name="b11368", asan=True)

    class Bench:
        chosen = Chosen()

    with pytest.raises(UserError, match="keeps freed memory"):
        next(leak_trials(Bench(), 6))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("control", "subject", "said"),
    [
        ("AddressSanitizer", "AddressSanitizer", "ASan build keeps freed memory"),
        (None, "jemalloc", "kept by jemalloc"),
        ("musl", None, "kept by musl"),
    ],
)
def test_a_server_whose_malloc_is_not_glibcs_is_refused_whatever_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control: str | None, subject: str | None, said: str
) -> None:
    # GIVEN servers of which no file says so: a wrapper, or LD_PRELOAD
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(b"GGUF")
    monkeypatch.setattr(cycles, "cached_model", lambda _: draft)
    started = iter((control, subject))

    class Lab:
        def start(self, _: ServerSpec) -> nullcontext[SimpleNamespace]:
            return nullcontext(SimpleNamespace(allocator=next(started)))

    chosen = SimpleNamespace(subject=Subject(kind="native", name="x"))
    spec = ServerSpec(tmp_path / "m", binary=tmp_path / "missing")
    bench = SimpleNamespace(chosen=chosen, spec=spec, lab=Lab(), say=lambda _: None)
    # WHEN THEN no sleep is measured
    with pytest.raises(UserError, match=said):
        next(leak_trials(bench, 6))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "arguments"),
    [("--spec-type TYPE  comma-separated", ("--spec-type", "draft-simple")), ("-md, --model-draft", ())],
)
def test_the_kind_of_drafting_is_named_where_the_build_asks_for_it(
    tmp_path: Path, said: str, arguments: tuple[str, ...]
) -> None:
    binary = tmp_path / "llama-server"
    binary.write_text(f"#!/bin/sh\necho '{said}'\n")
    binary.chmod(0o755)
    made = with_draft(ServerSpec(tmp_path / "m", binary=binary, arguments=("--x",)), tmp_path / "d")
    assert made.arguments == ("--x", *arguments)
    assert made.draft == tmp_path / "d"


def test_a_program_that_cannot_be_asked_is_given_no_more_arguments(tmp_path: Path) -> None:
    made = with_draft(ServerSpec(tmp_path / "m", binary=tmp_path / "missing"), tmp_path / "d")
    assert made.arguments == ()
