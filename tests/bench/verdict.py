"""From a real core to the printed verdict, beside gdb on the same core."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from collector.lab.faults.d2_unload_under_reader import PHASES
from collector.lab.faults.provoked import Say
from tests.bench import cores
from tests.bench.cores import BenchCore
from tests.bench.measure import MeasureError, Run, alternating, run, warm
from tests.bench.startup import program
from tests.bench.table import MEBI, Row, Section, at_least, at_most, failure, mebibytes, seconds

ROUNDS, GDB_ROUNDS_OF_RECURSION = 5, 3
SIZE_ROUNDS_TIMES = 4  # two near times want more runs than two that lie far apart
ORDINARY_GOAL, RECURSION_GOAL, SIZE_GOAL = 8.0, 20.0, 1.2
MEMORY_GOAL = 200 * MEBI
AFTER_SECONDS, AFTER_BYTES = 5.0, 1536 * MEBI
STATUSES = (0, 3)  # a verdict, or undetermined: both are answers, and which one it was is a row of its own
CLASS, DEFECT, HANDLER = cores.CRASHED_AS, "D2", "handle_completions_impl"
GDB = ("gdb", "-nx", "-batch", "-ex", "thread apply all bt")
NO_DOWNLOADS = {"DEBUGINFOD_URLS": ""}


@dataclass(frozen=True)
class Case:
    """A core, its title, and how many times faster than gdb the verdict must be."""

    title: str
    core: BenchCore
    goal: float
    rounds: int


@dataclass(frozen=True)
class Told:
    """One run of triage: when the headline, and when the whole verdict, had been printed (seconds)."""

    run: Run
    headline: float
    verdict: float

    @property
    def after(self) -> float:
        return self.run.seconds - self.verdict


def measure(say: Say, rounds: int = ROUNDS) -> list[Section]:
    """Every section; a core that cannot be had fails its own section only."""
    sections: list[Section] = []
    small = _or_failure(sections, "Ordinary D2 core", lambda: cores.ordinary(say))
    if small is not None:
        sections.append(_section(Case("Ordinary D2 core", small, ORDINARY_GOAL, rounds), say))
        sections.append(_size_section(small, rounds, say))
    deep = _or_failure(sections, "Endless-recursion D2 core", lambda: cores.recursion(say))
    if deep is not None:
        fewer = min(rounds, GDB_ROUNDS_OF_RECURSION)
        sections.append(_section(Case("Endless-recursion D2 core", deep, RECURSION_GOAL, fewer), say))
    return sections


def measure_native(say: Say, binary: Path, rounds: int = ROUNDS) -> list[Section]:
    """The two crashes on a native server: gdb has more to read there, and the goals were set there."""
    sections: list[Section] = []
    for title, make, goal, times in (
        ("Ordinary D2 core, native server", cores.ordinary, ORDINARY_GOAL, rounds),
        ("Endless-recursion D2 core, native server", cores.recursion, RECURSION_GOAL, 2),
    ):
        core = _or_failure(sections, title, partial(make, say, binary))
        if core is not None:
            sections.append(_section(Case(title, core, goal, min(rounds, times)), say))
    return sections


def _or_failure(sections: list[Section], title: str, make: Callable[[], BenchCore]) -> BenchCore | None:
    try:
        return make()
    except MeasureError as error:
        sections.append(Section(title, (failure("every figure on this core", str(error)),)))
        return None


def _section(case: Case, say: Say) -> Section:
    core = case.core
    warm(core.path)
    say(f"{case.title}: {case.rounds} runs of triage and of gdb")
    told, gdb = alternating(case.rounds, lambda: triage(core), lambda: debug(core))
    rows = [*_speed(case, told, gdb), _right(core), *_memory(core), *_after(told), _fast(core, case.rounds)]
    material = f"{core.note}; {mebibytes(core.size)}. Both files and all libraries were in the page cache."
    return Section(case.title, tuple(rows), material)


def triage(core: BenchCore, *, watch_memory: bool = False) -> Told:
    """The product as a user runs it, output into a pipe."""
    made = run([program(), "triage", core.path], watch_memory=watch_memory, expected=STATUSES)
    headline = made.first(CLASS.encode())
    return Told(made, headline, end_of_verdict(made, headline))


def end_of_verdict(made: Run, headline: float) -> float:
    """The last output before the longest silence: the verdict is out, gdb and the hash are under way."""
    moments = [chunk.at for chunk in made.chunks if chunk.at >= headline] + [made.seconds]
    silences = [(after - before, before) for before, after in pairwise(moments)]
    return max(silences)[1]


def debug(core: BenchCore, *, watch_memory: bool = False) -> Run:
    made = run([*GDB, core.exe, core.path], watch_memory=watch_memory, variables=NO_DOWNLOADS)
    if b"server_queue::start_loop" not in made.output:
        raise MeasureError("gdb's stacks do not show the server's loop")
    return made


def _speed(case: Case, told: Sequence[Told], gdb: Sequence[Run]) -> list[Row]:
    other = [each.seconds for each in gdb]
    how = f"`llama-blackbox triage CORE` and `{_command()}` EXE CORE, medians of {case.rounds}, taking turns"
    rows = []
    for what, values in (
        ("until the whole verdict is printed (all stacks, both keys)", [each.verdict for each in told]),
        ("until the verdict's headline is printed", [each.headline for each in told]),
    ):
        ratio = median(other) / median(values)
        goal, met = at_least(ratio, case.goal)
        figure = f"{ratio:.1f} times as fast: {seconds(values)} beside gdb's {seconds(other)}"
        rows.append(Row(what, figure, how, f"{goal} as fast as gdb", met))
    return rows


def _command() -> str:
    return " ".join(part if " " not in part else f'"{part}"' for part in GDB)


def _right(core: BenchCore) -> Row:
    """A quick wrong answer is worth nothing: the verdict itself, as JSON."""
    made = run([program(), "triage", "--json", "--fast", core.path], expected=STATUSES)
    report: dict[str, Any] = json.loads(made.output)
    verdict, keys = report["verdict"], report["signature"]
    handler = str(verdict.get("handler") or "no handler")
    found = (
        verdict["class"],
        verdict["defect"] or "no defect",
        verdict["phase"],
        handler,
        verdict["confidence"],
    )
    both = bool(keys["bug_key"] and keys["site_key"])
    right = found[:2] == (CLASS, DEFECT) and verdict["phase"] in PHASES and HANDLER in handler and both
    return Row(
        "what the verdict is",
        f"{', '.join(found)}; {'both keys' if both else 'a key is missing'}",
        "`--json --fast` on the same core",
        f"{CLASS}, {DEFECT}, {' or '.join(PHASES)}, its handler, both keys",
        right,
    )


def _memory(core: BenchCore) -> list[Row]:
    told, gdb = triage(core, watch_memory=True), debug(core, watch_memory=True)
    how = "resident pages of the process and its descendants, sampled every millisecond, one run each"
    before, after = told.run.peak(end=told.verdict), told.run.peak(begin=told.verdict)
    return [
        Row(
            "memory until the verdict",
            f"{mebibytes(before)} beside gdb's {mebibytes(gdb.peak())}",
            f"{how}; a page that two processes share counts twice",
            f"under {mebibytes(MEMORY_GOAL)}",
            before < MEMORY_GOAL,
        ),
        Row(
            "memory after the verdict (gdb's answers, the hash)",
            mebibytes(after),
            how,
            f"at most {mebibytes(AFTER_BYTES)}",
            after <= AFTER_BYTES,
        ),
    ]


def _after(told: Sequence[Told]) -> list[Row]:
    values = [each.after for each in told]
    goal, met = at_most(median(values), AFTER_SECONDS, "s")
    how = f"from the end of the verdict to the end of the program, median of {len(told)}"
    return [Row("time after the verdict (gdb's answers, the hash)", seconds(values), how, goal, met)]


def _fast(core: BenchCore, rounds: int) -> Row:
    values = [fast(core) for _ in range(rounds)]
    return Row("`--fast`, whole program", seconds(values), f"median of {rounds}; nothing follows the verdict")


def fast(core: BenchCore) -> float:
    """Seconds of a program that ends with its verdict."""
    return run([program(), "triage", "--fast", core.path], expected=STATUSES).seconds


def _size_section(small: BenchCore, rounds: int, say: Say) -> Section:
    title = "A core ten times the size"
    try:
        big = cores.large(small, say)
    except MeasureError as error:
        return Section(title, (failure("time of the verdict beside the small core", str(error)),))
    warm(small.path)
    warm(big.path)
    count = SIZE_ROUNDS_TIMES * rounds
    say(f"{title}: {count} runs on each")
    one, ten = alternating(count, lambda: fast(small), lambda: fast(big))
    ratio = median(ten) / median(one)
    goal, met = at_most(ratio, SIZE_GOAL, "times")
    row = Row(
        f"time of the verdict, {big.size / small.size:.1f} times the size",
        f"{ratio:.2f} times: {seconds(ten)} beside {seconds(one)}",
        f"`--fast`, whole program (a core's hash comes after the verdict); medians of {count}, in turn",
        goal,
        met,
    )
    return Section(
        title, (row, _right(big)), f"{big.note}; {mebibytes(big.size)} and {mebibytes(small.size)}."
    )
