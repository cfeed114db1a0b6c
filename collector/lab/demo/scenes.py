"""The three scenes of the demo: provoke on a real server, capture, hand over to triage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap
from collector.actions.release import release_stranded
from collector.actions.snapshot import snapshot
from collector.lab.demo.record import record
from collector.lab.faults import d1_stale_capture, d2_unload_under_reader, d3_stranded
from collector.lab.faults.provoked import Expected, Provoked, Say, Stage
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from collector.sources.modelfile import look_at_model
from collector.sources.stranded import find_stranded
from collector.sources.target import Target

PATIENCE_SECONDS = 2.0  # of the search for a stranded request; the agent's default is longer
ANSWER_DEADLINE = 30.0


@dataclass(frozen=True)
class Scene:
    """One fault: its defect id, a sentence, the server's version, and how to play it."""

    defect: str
    title: str
    version: str
    play: Callable[[Stage, Path], Played]


@dataclass(frozen=True)
class Played:
    """What came of a scene: inputs for triage, what it must find, and remarks."""

    inputs: tuple[Path, ...]
    expected: Expected
    happened: bool
    remarks: tuple[str, ...] = ()


def run_scene(scene: Scene, folder: Path, say: Say) -> Played:
    """Play one scene in ``folder``. Raises UserError when a server cannot be prepared or started."""
    python = prepare(scene.version, progress=say)
    base = ServerSpec(model=cached_model(), python=python)
    with ReferenceServer(folder / "servers") as lab:
        return scene.play(Stage(lab, base, say=say), folder)


def with_core(play: Callable[[Stage], Provoked], stage: Stage) -> Provoked:
    """Play; when the machine's settings leave no core to read, play again under gdb, and say so."""
    provoked = play(stage)
    if not provoked.happened or provoked.core.path is not None:
        return provoked
    stage.say(f"no core where the present setting puts it ({provoked.core.reason}); once more under gdb")
    return play(Stage(stage.lab, stage.base, under_gdb=True, say=stage.say))


def play_d1(stage: Stage, folder: Path) -> Played:
    return _crash(with_core(d1_stale_capture.provoke, stage), folder)


def play_d2(stage: Stage, folder: Path) -> Played:
    return _crash(with_core(d2_unload_under_reader.provoke, stage), folder)


def _crash(provoked: Provoked, folder: Path) -> Played:
    inputs = record(provoked, folder)
    return Played(tuple(inputs), provoked.expected, provoked.happened, provoked.notes)


def play_d3(stage: Stage, folder: Path) -> Played:
    """Leave a request stranded, find it from outside, look at the threads, release it."""
    provoked = d3_stranded.provoke(stage)
    if not provoked.happened:
        return Played((), provoked.expected, False, provoked.notes)
    server = provoked.server
    files = look_at_model([str(server.spec.model)], pid=server.pid)
    found = find_stranded(Target(server.port, pid=server.pid), PATIENCE_SECONDS)
    if found is None:
        return Played((), provoked.expected, True, ("the stranded request was not found from outside",))
    stage.say(
        f"found from outside: a request that waits since {found.quiet_seconds:.1f} s on a sleeping server"
    )
    seen = snapshot(server.pid)
    stage.say(f"looked at its threads: no thread stood still longer than {seen.longest_stop * 1000:.1f} ms")
    action = release_stranded(found, files=files)
    answered = _answer(provoked)
    stage.say(f"released with one waking call: {answered}")
    evidence: Sequence[Evidence] = (*found.evidence, *seen.evidence, action)
    gaps: Sequence[Gap] = (*found.gaps, *seen.gaps)
    inputs = record(provoked, folder, evidence, gaps)
    server.take_down()
    return Played(tuple(inputs), provoked.expected, True, (answered,))


def _answer(provoked: Provoked) -> str:
    client = provoked.client
    if client is None:
        return "there was no client"
    client.wait(ANSWER_DEADLINE)
    answer = client.answer
    return f"the client got its answer (HTTP {answer.status})" if answer else "the client still waits"


SCENES = (
    Scene("D1", "a token count wakes a sleeping server", STALE_CAPTURE_VERSION, play_d1),
    Scene("D2", "the server falls asleep under a tokenising request", UNLOAD_VERSION, play_d2),
    Scene("D3", "a request is queued just after the server fell asleep", UNLOAD_VERSION, play_d3),
)
