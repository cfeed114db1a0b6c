"""Does the process get the time that writing its core takes, and what waits for it?"""

from __future__ import annotations

from collections.abc import Iterator

from collector.check.model import TIME, Finding, Level
from collector.check.scene import Scene
from collector.check.supervisor import DOCKER_STOP_SECONDS, KUBERNETES_STOP_SECONDS

LONG = 30.0  # seconds; health checks of proxies and orchestrators give up after 10 to 30
CUT = "SIGKILL ends a dump that is under way: the core is cut, the stacks often missing"
MINIMAL = "sudo llama-blackbox capture install (minimal mode: a fraction of a second at any size)"


def time_rules(scene: Scene) -> Iterator[Finding]:
    """The time a dump takes, against everybody who may lose patience."""
    expected = scene.expected
    if expected is None:
        return
    seconds = expected.seconds
    if scene.unit is not None:
        yield from _watchdog(scene, seconds)
        yield from _stop(scene, seconds)
        yield from _restart(scene, seconds)
    yield from _container(scene, seconds)
    if seconds > LONG:
        what = f"it would keep dying for about {seconds:.0f} s"
        why = "its port and its GPU memory stay taken until the core is written; no restart begins before"
        yield Finding("slow-death", TIME, Level.RISK, what, why, MINIMAL)


def _watchdog(scene: Scene, seconds: float) -> Iterator[Finding]:
    assert scene.unit is not None  # noqa: S101 - asked by the caller
    watchdog, patience = scene.unit.seconds("WatchdogUSec"), scene.unit.seconds("TimeoutAbortUSec")
    patience = scene.unit.seconds("TimeoutStopUSec") if patience is None else patience
    if not watchdog or watchdog == float("inf") or patience is None or patience >= seconds:
        return
    what = f"after a watchdog's SIGABRT systemd waits {patience:g} s, the core takes about {seconds:.0f} s"
    change = scene.unit.override(f"TimeoutAbortSec={_rounded(seconds)}")
    yield Finding("abort-timeout", TIME, Level.RISK, what, CUT, change, f"TimeoutAbortSec={patience:g}s")


def _stop(scene: Scene, seconds: float) -> Iterator[Finding]:
    assert scene.unit is not None  # noqa: S101 - asked by the caller
    patience = scene.unit.seconds("TimeoutStopUSec")
    if patience is None or patience >= seconds:
        return
    what = f"a stop ordered while it dies waits {patience:g} s, the core takes about {seconds:.0f} s"
    change = scene.unit.override(f"TimeoutStopSec={_rounded(seconds)}")
    yield Finding("stop-timeout", TIME, Level.RISK, what, CUT, change, f"TimeoutStopSec={patience:g}s")


def _restart(scene: Scene, seconds: float) -> Iterator[Finding]:
    assert scene.unit is not None  # noqa: S101 - asked by the caller
    restart, pause = scene.unit.properties.get("Restart", ""), scene.unit.seconds("RestartUSec")
    if restart in ("", "no"):
        what, why = (
            "systemd does not start it again",
            "nothing of the evidence is at stake; the service stays down",
        )
        yield Finding("restart", TIME, Level.NOTE, what, why, present=f"Restart={restart or 'no'}")
    elif pause is not None:
        what = f"after a crash it is back in about {seconds:.0f} s of dying and {pause:g} s of RestartSec"
        why = "systemd starts it again once the process is gone, which is after its core is written"
        yield Finding("restart", TIME, Level.NOTE, what, why, present=f"RestartSec={pause:g}s")


def _container(scene: Scene, seconds: float) -> Iterator[Finding]:
    container = scene.container
    if container is None:
        return
    patience, name = container.stop_seconds, "docker stop --time / stop_grace_period in compose.yaml"
    if container.kubernetes:
        patience, name = KUBERNETES_STOP_SECONDS, "terminationGracePeriodSeconds in the pod's spec"
    known = container.read and not container.kubernetes
    patience = DOCKER_STOP_SECONDS if patience is None else patience
    if patience < seconds:
        what = f"a stop ordered while it dies waits {patience:g} s, the core takes about {seconds:.0f} s"
        present = f"{patience:g} s{'' if known else ' (the default; its own was not read)'}"
        yield Finding("stop-timeout", TIME, Level.RISK, what, CUT, f"{name}: {_rounded(seconds)}", present)
    if container.removed and scene.pattern is not None and scene.pattern.kind == "file":
        what, why = "the container is removed when it ends (--rm)", "its file system goes, and a core in it"
        yield Finding(
            "container-removed", TIME, Level.RISK, what, why, "leave --rm out, or mount a volume for cores"
        )


def _rounded(seconds: float) -> int:
    """Half as much again, in whole tens of seconds."""
    return int(seconds * 1.5 / 10 + 1) * 10
