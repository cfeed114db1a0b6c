"""A writer that is killed, traced or starved of space: ``writer_run.py FOLDER SEED MODE``.

It goes on behind the stored cursor. Every durable commit is told on standard output: ``ack CURSOR``.
MODE: ``go`` writes for ever; ``few`` five batches; ``limit`` and ``ballast`` take the space away now and then
(RLIMIT_FSIZE, a file that fills the file system) and end with a clean close after sixty batches.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from pathlib import Path

from outbox_parts import Clock, fact, incident, life

from analyzers.contracts.outbox import ServerRow, TransitionRow
from collector.outbox.limits import RETRY_SECONDS
from collector.outbox.store import Store, open_store
from collector.outbox.write import NewAttachment, Write, Yielded

MOST = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


def batch(first: int, rng: random.Random) -> tuple[Write, int]:
    """A write whose cursor is the number of facts up to it; now and then an incident with an attachment."""
    after = first + rng.randint(1, 40)
    found = tuple(fact(at, text="x" * rng.randint(0, 400)) for at in range(first, after))
    change = TransitionRow(f"n{first}", "awake", 1.0)
    records, files = (), ()
    if rng.random() < 0.5:
        records = (incident(1000 + first), incident(7, revision=after))
        files = (NewAttachment(records[0].id, "log.txt", "log", str(first).encode() * rng.randint(1, 5000)),)
    whole = Write(
        (Yielded("journal", str(after), found),), records, files, (ServerRow("k", "awake", 1.0),), (change,)
    )
    assert life().pid == 42
    return whole, after


def squeeze(folder: Path, mode: str, rng: random.Random) -> None:
    if mode == "limit":
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = rng.choice([path.stat().st_size for path in files] or [0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + rng.randint(0, 20_000), MOST))
    else:
        with (folder.parent / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                file.truncate(max(0, file.tell() - rng.randint(0, 30_000)))


def release(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
    (folder.parent / "ballast").unlink(missing_ok=True)


def starve(store: Store, clock: Clock, folder: Path, mode: str, rng: random.Random, at: int) -> None:
    troubled = 0
    for number in range(60):
        if number % 6 == 2:
            squeeze(folder, mode, rng)
        if number % 6 == 5:
            release(folder)
        clock.now += RETRY_SECONDS
        write, at = batch(at, rng)
        done = store.commit(write)
        troubled += store.health().state != "ok"
        os.write(1, f"{'ack' if done else 'memory'} {at}\n".encode())
    release(folder)
    clock.now += RETRY_SECONDS
    assert store.flush()
    os.write(1, f"ack {at}\ntroubled {troubled}\n".encode())
    assert store.close()


def run(folder: Path, seed: int, mode: str) -> None:
    rng, clock = random.Random(seed), Clock()
    store = open_store(folder, mono=clock)
    at = int(store.cursors().get("journal", "0"))
    os.write(1, f"start {at}\n".encode())
    if mode in ("limit", "ballast"):
        starve(store, clock, folder, mode, rng, at)
        return
    for _ in range(5 if mode == "few" else 1 << 30):
        write, at = batch(at, rng)
        assert store.commit(write)
        os.write(1, f"ack {at}\n".encode())


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
