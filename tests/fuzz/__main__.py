"""``python -m tests.fuzz [N] [--seed S] [--only NAME,…] [--corpus FOLDER]``: N inputs over all targets.

Everything under test is imported once, instrumented by atheris; then each target runs in a fork of its own
with libFuzzer in it, bounded by kernel limits. Same N and seed and no corpus: the same inputs.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import pkgutil
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType

DEFAULT = 200_000
SEED = 20261202
WALL_SECONDS = 60  # a single input on a busy machine; the CPU bound of the guard is the real one
MEMORY_MB = 900  # resident; instrumented modules and their libraries take 200
SETTLED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")
DONE = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Outcome:
    """``edges`` of the instrumented code that were reached; ``corpus``: inputs that reached something new.
    ``finding`` is the fuzzer's own account of what went wrong, None when nothing did."""

    name: str
    inputs: int
    edges: int
    corpus: int
    seconds: float
    finding: str | None = None


def main() -> int:
    """0: nothing found; 1: something was, and its input is kept; 2: atheris is not installed."""
    asked = _asked()
    try:
        checks = prepared()
    except ImportError:
        print("fuzz: atheris is not installed; run deploy/setup.sh test", file=sys.stderr)
        return 2
    from tests.fuzz.targets import every

    chosen = [one for one in every() if not asked.only or one.name in asked.only.split(",")]
    whole = sum(one.share for one in chosen)
    outcomes = []
    for one in chosen:
        outcomes.append(_run(one, max(1, asked.inputs * one.share // whole), asked, checks))
        print(_row(outcomes[-1]), flush=True)
    return _summed(outcomes, asked.seed)


def prepared() -> ModuleType:
    """The checks, with everything that they reach instrumented. Raises ImportError without atheris."""
    import atheris

    sys.dont_write_bytecode = True  # what a reader imports late would be written beside the sources
    with atheris.instrument_imports(include=["analyzers", "collector"]):
        import analyzers
        from tests.fuzz import checks

        _import_all(analyzers)
    checks.without_tools()
    return checks


def _import_all(package: ModuleType) -> None:
    """Readers import each other when they are used: without this those would not be instrumented."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.startswith("analyzers.cli"):
            importlib.import_module(found.name)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("inputs", nargs="?", type=int, default=DEFAULT)
    parser.add_argument("--seeds", type=int, default=0, help="of each target at most; 0: all")
    parser.add_argument("--seconds", type=int, default=0, help="for each target at most, whatever N says")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="targets, comma-separated")
    parser.add_argument("--corpus", type=Path, help="a folder kept from run to run, one below it per target")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz-findings"))
    return parser.parse_args()


def _row(done: Outcome) -> str:
    rate = done.inputs / max(done.seconds, 0.001)
    told = f"{done.name:16} {done.inputs:>9,} inputs {done.edges:>6,} edges {done.corpus:>5,} kept"
    return f"{told} {done.seconds:>7.1f} s {rate:>8,.0f}/s" + (f"\n{done.finding}" if done.finding else "")


def _summed(outcomes: list[Outcome], seed: int) -> int:
    failed = [one.name for one in outcomes if one.finding]
    inputs, used = sum(one.inputs for one in outcomes), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(f"fuzz: {len(outcomes)} targets, {inputs:,} inputs, {seconds:.0f} s of CPU, seed {seed}, findings: "
          f"{', '.join(failed) or 'none'}")  # fmt: skip
    return 1 if failed else 0


def _run(target: object, runs: int, asked: argparse.Namespace, checks: object) -> Outcome:
    """One target in a fork; its output is read afterwards."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch, tempfile.TemporaryFile() as said:
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _child(target, runs, asked, checks, Path(scratch), said.fileno())
        _, raw = os.waitpid(child, 0)
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
        return _outcome(target, text, os.waitstatus_to_exitcode(raw), time.monotonic() - begun, asked)


def _outcome(target, text: str, status: int, seconds: float, asked: argparse.Namespace) -> Outcome:
    edges, _, corpus = SETTLED.findall(text)[-1] if SETTLED.search(text) else (0, 0, 0)
    done = DONE.search(text)
    finding = None
    if status != 0:
        finding = f"status {status}; inputs are kept in {asked.findings}\n{text[-4000:]}"
    return Outcome(target.name, int(done[1]) if done else 0, int(edges), int(corpus), seconds, finding)


def _child(target, runs: int, asked: argparse.Namespace, checks, scratch: Path, output: int) -> None:
    """Never returns: libFuzzer ends the process itself."""
    import atheris

    from tests.fuzz.guard import Guard, bound_this_process

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    work, corpus = scratch / "work", _corpus(target, asked, scratch)
    tempfile.tempdir = str(work)
    asked.findings.mkdir(parents=True, exist_ok=True)
    prefix = f"{asked.findings.resolve()}/{target.name}-"
    os.chdir(scratch)
    bound_this_process()
    guard, check = Guard(work), getattr(checks, target.check)

    def one(data: bytes) -> None:
        _emptied(work)
        with guard.watching():
            checks.answered(check, data, work)

    def mutated(data: bytes, size: int, seed: int) -> bytes:
        dice = Random(seed)
        if dice.random() < target.structured:
            return target.mutation(bytes(data), dice)[:size]
        return atheris.Mutate(data, size)

    arguments = [f"fuzz-{target.name}", f"-runs={runs}", f"-seed={asked.seed}", f"-timeout={WALL_SECONDS}",
                 f"-max_total_time={asked.seconds}",
                 f"-rss_limit_mb={MEMORY_MB}", f"-max_len={target.max_bytes}", "-print_final_stats=1",
                 f"-artifact_prefix={prefix}", "-len_control=0", *map(str, corpus)]  # fmt: skip
    atheris.Setup(arguments, one, custom_mutator=mutated, internal_libfuzzer=True)
    atheris.Fuzz()
    os._exit(0)


def _corpus(target, asked: argparse.Namespace, scratch: Path) -> list[Path]:
    """The seeds, read-only, behind the folder that new inputs go to."""
    grown = asked.corpus / target.name if asked.corpus else scratch / "grown"
    begun = scratch / "seeds"
    for folder in (grown, begun):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = list(target.seeds())
    step = -(-len(seeds) // asked.seeds) if asked.seeds else 1
    for number, data in enumerate(seeds[::step]):
        (begun / f"{number:04}").write_bytes(data[: target.max_bytes])
    return [grown.resolve(), begun]


def _emptied(folder: Path) -> None:
    if folder.exists():
        for name in os.listdir(folder):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    else:
        folder.mkdir()


if __name__ == "__main__":
    sys.exit(main())
