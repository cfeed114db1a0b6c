"""The verifier as a process of its own: started, watched, ended from outside, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verify_wheels import command_environment

DEADLINE = 180.0  # for one step of a run on a busy machine
POLL = 0.02


class Verifier:
    """``llama-blackbox verify ARGUMENTS`` in its own session; its servers are found as its descendants."""

    def __init__(self, folder: Path, *arguments: str, **options: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = folder / "stdout", folder / "stderr"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("llama-blackbox")), "verify", *arguments],
                cwd=folder,
                env={**command_environment(), **options.pop("variables", {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                **options,
            )

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def servers(self) -> list[int]:
        """PIDs of the servers that live below it."""
        return [pid for pid in descendants(self.process.pid) if is_server(pid)]

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def a_server(self) -> int:
        assert until(lambda: bool(self.servers()) or self.ended)
        assert self.servers(), f"no server was started: {self.err.read_text()}"
        return self.servers()[0]

    def end(self) -> int:
        return self.process.wait(DEADLINE)


def verified(folder: Path, *arguments: str, **options: Any) -> tuple[int, str, str]:
    """Status, standard output and standard error of a run to its end."""
    with Verifier(folder, *arguments, **options) as verifier:
        status = verifier.end()
    return status, verifier.out.read_text(), verifier.err.read_text()


def until(condition: Callable[[], bool], deadline: float = DEADLINE) -> bool:
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL)
    return True


def descendants(pid: int) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        children = [int(each) for each in _children(waiting.pop())]
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[str]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [each for task in tasks for each in (task / "children").read_text().split()]
    except OSError:
        return []


def is_server(pid: int) -> bool:
    """It listens as a server does by its command line, past the launcher that starts it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    hosted = any(word.endswith(b"hosted.py") for word in words) and not any(b"launch.py" in w for w in words)
    return hosted or (bool(words) and words[0].endswith(b"llama-server"))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def trials_in(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (folder / "trials.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines]
