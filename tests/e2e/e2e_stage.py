"""Faults on real servers, each played at most once in a session and handed to whoever asks about it.

A play ends with what a host would hand over: a bundle (log, settings, kernel lines, answers, ending) and,
where the process left one, its core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from collector.lab.demo.record import record
from collector.lab.faults.provoked import Provoked, Stage
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare
from collector.sources.kernel import as_dmesg

SAID: list[str] = []  # counts and misses; printed at the end of the run, also when all is well
STALE, UNLOAD = STALE_CAPTURE_VERSION, UNLOAD_VERSION  # has D1; has D2 and D3


@dataclass(frozen=True)
class Play:
    """One fault as it happened, and the files that it left."""

    provoked: Provoked
    folder: Path
    bundle: Path
    left_core: Path | None
    kernel: Path

    @property
    def inputs(self) -> list[Path]:
        """All that a host would hand over."""
        return [self.bundle, *([self.left_core] if self.left_core else [])]

    @property
    def core(self) -> Path:
        """The core; the test that needs one is skipped, and says why, where this machine leaves none."""
        if self.left_core is None:
            pytest.skip(f"no core: {self.provoked.core.reason}")
        return self.left_core

    @property
    def log(self) -> Path:
        """The raw log, as the server printed it."""
        return self.provoked.log

    @property
    def pid(self) -> int:
        return self.provoked.server.pid

    @property
    def kernel_spoke(self) -> bool:
        """The kernel's own line about this death could be read."""
        return bool(self.provoked.kernel.lines)


def hand_over(
    provoked: Provoked, folder: Path, more: Sequence[Evidence] = (), gaps: Sequence[Gap] = ()
) -> Play:
    """Write down what ``provoked`` left, below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    bundle = record(provoked, folder, more, gaps)[0]
    kernel = folder / "kernel.txt"
    kernel.write_text(as_dmesg(provoked.kernel.lines))
    return Play(provoked, folder, bundle, provoked.core.path, kernel)


@dataclass(frozen=True)
class Scene:
    """``version`` of the server, and how to play on it; ``folder`` is the play's own."""

    version: str
    play: Callable[[Stage, Path], Play]


class Plays:
    """Plays each scene when it is first asked for, and remembers it: a failed one fails everybody at once."""

    def __init__(self, lab: ReferenceServer, folder: Path, scenes: dict[str, Scene]) -> None:
        self._lab = lab
        self._folder = folder
        self._scenes = scenes
        self._done: dict[str, Play | BaseException] = {}

    def stage(self, version: str) -> Stage:
        """A stage with the smallest model and the server of that version."""
        return Stage(self._lab, ServerSpec(cached_model(), python=prepare(version)))

    def __call__(self, name: str) -> Play:
        if name not in self._done:
            self._done[name] = self._play(name)
        done = self._done[name]
        if isinstance(done, BaseException):
            raise done
        return done

    def _play(self, name: str) -> Play | BaseException:
        scene = self._scenes[name]
        try:
            play = scene.play(self.stage(scene.version), self._folder / name)
            if not play.provoked.happened:
                told = "; ".join(play.provoked.notes)
                pytest.fail(f"{name} did not happen: {play.provoked.outcome} ({told})", pytrace=False)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as problem:  # noqa: BLE001 - raised again
            SAID.append(f"{name}: {problem}")
            return problem
        return play
