"""Killed, traced, starved of space: cursor and evidence agree, and what was acknowledged is there."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.outbox import DATABASE
from analyzers.contracts.outbox_read import open_reading

RUN = Path(__file__).parent / "writer_run.py"
STRACE = shutil.which("strace")
ROOT = Path(__file__).parents[3]
WHERE = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'unit' / 'outbox'}"}
LIFE = Incarnation(pid=42)


def command(folder: Path, seed: int, mode: str) -> list[str]:
    return [sys.executable, str(RUN), str(folder), str(seed), mode]


def agree(folder: Path, acknowledged: int) -> int:
    """Every fact up to the stored cursor is there once, none behind it; attachments are whole. The cursor."""
    with open_reading(folder) as outbox:
        cursor = int(outbox.cursors().get("journal", "0"))
        found = [item.id for item in outbox.evidence_of(LIFE, 1 << 30)]
        rows = outbox.incidents()
        assert found == [f"e{number}" for number in range(cursor)]
        assert cursor >= acknowledged
        assert len({row.id for row in rows}) == len(rows)
        for row in rows:
            for attached in outbox.attachments(row.id):
                path = outbox.attachment_path(attached)
                assert path is not None
                assert hashlib.sha256(path.read_bytes()).hexdigest() == attached.sha256
        assert len(outbox.servers()) <= 1
        assert outbox.counters().get("dropped_evidence", 0) == 0
    return cursor


def killed_once(folder: Path, rng: random.Random) -> None:
    process = subprocess.Popen(
        command(folder, rng.randrange(1 << 30), "go"), stdout=subprocess.PIPE, env=WHERE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"start")
    time.sleep(rng.uniform(0.0, 0.15))  # the random moment itself, waited for by nothing
    process.send_signal(signal.SIGKILL)
    told = process.stdout.read().decode().split("\n")[:-1]
    process.wait()
    process.stdout.close()
    assert all(line.startswith("ack ") for line in told)
    agree(folder, int(told[-1].split()[1]) if told else 0)


def test_killed_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(6)
    for _ in range(3):
        killed_once(tmp_path / "outbox", rng)
    assert not list((tmp_path / "outbox").glob("*corrupt*"))


@pytest.mark.full
def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    for seed in range(4):
        rng = random.Random(seed)
        for _ in range(20):
            killed_once(tmp_path / f"{seed}" / "outbox", rng)


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_written_then_synced_then_acknowledged(tmp_path: Path) -> None:
    # GIVEN a writer under strace
    log = tmp_path / "trace"
    calls = "trace=write,pwrite64,fsync,fdatasync,rename,sync_file_range"
    folder = tmp_path / "outbox"
    made = subprocess.run(
        ["strace", "-f", "-y", "-s", "64", "-o", str(log), "-e", calls, *command(folder, 3, "few")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=WHERE,
    )
    acks = [line for line in made.stdout.splitlines() if line.startswith("ack")]
    assert len(acks) == 5
    # THEN before each acknowledgement the log was written and synced behind its last write, and attachments
    # were synced, named and their name synced before the log spoke of them
    events = [name for line in log.read_text().splitlines() if (name := event(line)) is not None]
    begin, staged = events.index("start"), 0
    for _ in acks:
        end = events.index("ack", begin)
        steps = events[begin:end]
        writes = [at for at, step in enumerate(steps) if step == "log write"]
        assert writes
        assert "log sync" in steps[writes[-1] :]
        if "file write" in steps:
            staged += 1
            order = ["file write", "file sync", "file name", "folder sync", "log write"]
            places = [steps.index(name) for name in order]
            assert places == sorted(places)
        begin = end + 1
    assert staged


def event(line: str) -> str | None:
    call = re.search(r"\b(write|pwrite64|fsync|fdatasync|rename)\((.*)", line)
    if call is None:
        return None
    name, rest = call[1], call[2]
    if name == "write" and rest.startswith("1<"):
        told = re.search(r'"(\w+)', rest)
        return told[1] if told else None
    if f"{DATABASE}-wal" in rest:
        return "log sync" if "sync" in name else "log write"
    if name == "rename" and "/.part-" in rest:
        return "file name"
    if "/.part-" in rest.partition(",")[0]:
        return "file sync" if "sync" in name else "file write"
    return "folder sync" if name == "fsync" and "/attachments>" in rest else None


@pytest.mark.parametrize("seed", range(3))
def test_out_of_space_at_random_moments_by_a_size_limit(tmp_path: Path, seed: int) -> None:
    starved(tmp_path / "outbox", seed, "limit")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("seed", range(2))
def test_out_of_space_on_a_small_file_system(tmp_path: Path, seed: int) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        starved(place / "outbox", seed, "ballast")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def starved(folder: Path, seed: int, mode: str) -> None:
    made = subprocess.run(
        command(folder, seed, mode), capture_output=True, text=True, timeout=60, check=False, env=WHERE
    )
    assert made.returncode == 0, made.stderr
    told = made.stdout.splitlines()
    # THEN there was trouble, it went on in memory, and in the end all of it was on the disk, once
    assert int(told[-1].split()[1]) > 0
    assert any(line.startswith("memory") for line in told)
    last = int(told[-2].split()[1])
    assert agree(folder, last) == last
    assert not list(folder.glob("*corrupt*"))
    assert not [path for path in (folder / "attachments").iterdir() if path.name.startswith(".part")]
