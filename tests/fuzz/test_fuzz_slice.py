"""The bounded, seeded slice of ``make fuzz`` that every change passes; and the fuzzer finds what is there."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INPUTS, SEEDS = 9_000, 15  # some 20 s on one idle core; a run of all seeds would take as long again
PATIENCE = 600  # seconds, on a machine that does ten other things

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed"
)


def fuzz(tmp_path: Path, *words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    run = f"import sys\nfrom tests.fuzz import __main__ as fuzzer\n{code}\nsys.exit(fuzzer.main())"
    return subprocess.run(
        [sys.executable, "-c", run, *words, "--findings", str(tmp_path / "findings")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_seeded_slice_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = fuzz(tmp_path, str(INPUTS), "--seeds", str(SEEDS))
    summary = done.stdout.splitlines()[-1] if done.stdout else done.stderr
    with capsys.disabled():
        print(f"\n{summary}")
    assert done.returncode == 0, done.stdout[-8000:]
    told = re.match(r"fuzz: (\d+) targets, ([\d,]+) inputs", summary)
    assert told is not None
    assert int(told[2].replace(",", "")) >= 0.9 * INPUTS
    assert list((tmp_path / "findings").iterdir()) == []


PLANTED = {
    "an error that is none of ours": "raise KeyError('planted')",
    "a process": "__import__('subprocess').Popen(['true'])",
    "a file elsewhere": "open('/tmp/fuzz-planted-never-made', 'w')",
    "memory without end": "bytearray(4 << 30)",
    "time without end": "sum(range(3 * 10**8))",
}


def test_a_fault_behind_a_condition_is_found_and_its_input_kept(tmp_path: Path) -> None:
    # GIVEN readers with a fault each that only some of the mutated cores reach
    code = f"""
from dataclasses import replace
from tests.fuzz import targets
real, first = fuzzer.prepared, targets.every()[0]
faults = {list(PLANTED.values())!r}
def prepared():
    checks = real()
    for number, fault in enumerate(faults):
        exec(f"def planted_{{number}}(data, folder):\\n if len(data) > 64 and data[16] == 255:\\n  {{fault}}")
        setattr(checks, f"planted_{{number}}", locals()[f"planted_{{number}}"])
    return checks
fuzzer.prepared = prepared
targets.every = lambda: [
    replace(first, name=f"p{{number}}", check=f"planted_{{number}}", share=1) for number in range(len(faults))
]
"""
    # WHEN they are fuzzed
    done = fuzz(tmp_path, "50000", code=code)
    # THEN the run fails and says which, and the inputs are there to be tried again
    assert done.returncode == 1, done.stdout + done.stderr
    assert "findings: p0, p1, p2, p3, p4" in done.stdout, done.stdout[-3000:]
    kept = sorted((tmp_path / "findings").iterdir())
    assert [path.name[:3] for path in kept] == ["p0-", "p1-", "p2-", "p3-", "p4-"]
    assert all(path.read_bytes()[16] == 255 for path in kept)
