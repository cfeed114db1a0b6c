"""The fuzzer's own tests: every kind of broken promise that it is there to see, it does see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import seeds, structure
from tests.fuzz.guard import ViolationError, demand, inert

ROOT = Path(__file__).resolve().parents[3]
# The guard's hook stays in a process for ever, so each of these has one of its own.
WATCHED = """
import os, socket, subprocess, sys, time
from pathlib import Path
from tests.fuzz.guard import Guard, ViolationError, bound_this_process
SWALLOWED = "try: open(folder.parent / 'x', 'ab')\\nexcept BaseException: pass"
folder = Path(sys.argv[1]) / "work"
folder.mkdir()
bound_this_process()
guard = Guard(folder)
try:
    with guard.watching():
        {act}
except ViolationError as error:
    print("VIOLATION", error)
else:
    print("fine")
"""
BROKEN = {
    "a file elsewhere": "open(folder.parent / 'x', 'w')",
    "a file elsewhere, swallowed": "exec(SWALLOWED)",
    "by a descriptor's folder": "os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=os.open(folder.parent, 0))",
    "through a link": "(os.symlink(folder.parent, folder / 'l'), open(folder / 'l' / 'x', 'w'))",
    "above by dots": "open(f'{folder}/../x', 'w')",
    "a folder elsewhere": "os.mkdir(folder.parent / 'd')",
    "a file renamed out": "(open(folder / 'a', 'w'), os.rename(folder / 'a', folder.parent / 'a'))",
    "something removed elsewhere": "os.unlink('/nonexistent/x')",
    "a process": "subprocess.run(['true'])",
    "a fork": "os.fork()",
    "a shell": "os.system('true')",
    "the network": "socket.create_connection(('127.0.0.1', 9))",
    "too long": "exec('end = time.process_time() + 2.2\\nwhile time.process_time() < end: pass')",
}
FINE = {
    "reading": "open('/etc/hostname').read()",
    "its own folder": "(os.mkdir(folder / 'd'), (folder / 'd/x').touch(), os.rename(folder / 'd', folder / 'e'))",  # noqa: E501
    "a descriptor of its own": "open(os.open(folder / 'x', os.O_CREAT | os.O_RDWR), 'wb')",
}


def said(tmp_path: Path, act: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(act=act), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("act", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_promise_is_seen(tmp_path: Path, act: str) -> None:
    assert "VIOLATION" in said(tmp_path, act)
    assert {path.name for path in tmp_path.iterdir()} == {"work"}


@pytest.mark.parametrize("act", FINE.values(), ids=FINE.keys())
def test_what_a_reader_may_do_is_none(tmp_path: Path, act: str) -> None:
    assert said(tmp_path, act).startswith("fine")


@pytest.mark.parametrize("text", ["a\x1b[2J", "a\x9b", "a\x00", "a\r", "a\u202e", "a\x7f"])
def test_what_steers_a_terminal_is_seen(text: str) -> None:
    with pytest.raises(ViolationError):
        inert(text)


def test_ordinary_text_is_not_one() -> None:
    inert("line\n\tüñ «redacted» … \U0001f680")
    demand(True, "never raised")


def test_mutations_are_the_same_for_the_same_seed_and_not_for_another() -> None:
    # GIVEN each mutation and a seed of its kind
    kinds = {
        "core": (structure.core, seeds.cores()[0]),
        "notes": (structure.notes, seeds.notes()[0]),
        "mi": (structure.mi, seeds.MI_TALK),
        "lines": (structure.lines(seeds.logs()[:4]), seeds.logs()[0]),
        "json": (structure.json_values, seeds.captures()[0]),
        "tar": (structure.tar, seeds.archives()[0]),
    }
    for name, (mutate, data) in kinds.items():
        # WHEN it is used with a hundred numbers, twice
        made = [mutate(data, Random(number)) for number in range(100)]
        assert made == [mutate(data, Random(number)) for number in range(100)], name
        # THEN most results differ from the input and from each other
        assert len({*made} - {data}) > 40, name


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\n", bytes(600), b"{"])
def test_no_mutation_needs_a_well_formed_input(data: bytes) -> None:
    mutations = (structure.core, structure.notes, structure.mi, structure.json_values, structure.tar)
    for mutate in (*mutations, structure.lines([b""]), structure.after_first(structure.lines([]))):
        for number in range(200):
            assert isinstance(mutate(data, Random(number)), bytes)
