"""Where runtimes keep a container's log, by its id; no daemon is asked."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from analyzers.contracts.evidence import Incarnation
from collector.sources.follow.files import FileStream
from collector.sources.follow.formats import Wrapped
from collector.sources.follow.opening import Place

DOCKER = (Path("/var/lib/docker/containers"), Path("/var/snap/docker/common/var-lib-docker/containers"))
PODMAN = (Path("/var/lib/containers/storage/overlay-containers"),)
KUBERNETES = Path("/var/log/containers")  # POD_NAMESPACE_CONTAINER-ID.log, links into /var/log/pods
_ID = re.compile(r"[0-9a-f]{12,64}")
MOST_LINKS = 4096  # of a node's containers; kubelet's default limit is 110 pods
ROTATED = 16


def container_log(
    container: str,
    *,
    docker: tuple[Path, ...] = DOCKER,
    podman: tuple[Path, ...] = PODMAN,
    kubernetes: Path = KUBERNETES,
) -> Path | None:
    """The log file of a container (its id, at least twelve hexadecimal digits), None where there is none."""
    if _ID.fullmatch(container) is None:
        return None
    for root in docker:
        for name in _named(root, container):
            if (path := root / name / f"{name}-json.log").is_file():
                return path
    for root in podman:
        for name in _named(root, container):
            if (path := root / name / "userdata" / "ctr.log").is_file():
                return path
    return _kubernetes(kubernetes, container)


def _named(root: Path, container: str) -> list[str]:
    if len(container) == 64:
        return [container]
    with suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for _, entry in zip(range(MOST_LINKS), entries, strict=False)]
        return [name for name in names if name.startswith(container) and _ID.fullmatch(name)]
    return []


def _kubernetes(folder: Path, container: str) -> Path | None:
    with suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(MOST_LINKS), entries, strict=False):
            stem, _, id_ = entry.name.removesuffix(".log").rpartition("-")
            if stem and id_.startswith(container) and _ID.fullmatch(id_):
                return Path(os.path.realpath(entry.path))
    return None


def container_stream(
    path: Path, who: Incarnation, *, cursor: str | None = None, whole: bool = False
) -> FileStream:
    """The stream over a container's log file."""
    return FileStream(Place(path), who, cursor=cursor, whole=whole, format=Wrapped)
