"""Incidents as lines of a file, for whatever reads JSON lines."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from collector.outbox.sinks import Accepted, Later, Refused

VARIABLE = "LLAMA_BLACKBOX_EXAMPLE_SINK"


class JsonLines:
    """Delivery is at least once: a line that is there already is not written again."""

    name = "jsonl"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = set(_known(path))

    def send(self, outgoing: Any) -> Accepted | Later:
        record = outgoing.record
        if (record.id, record.revision) not in self._known:
            try:
                with self._path.open("ab") as file:
                    file.write(outgoing.to_json() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())  # accepted means: it will not be lost
            except OSError as error:
                return Later(f"{self._path.name} cannot be written ({error.strerror})")
            self._known.add((record.id, record.revision))
        return Accepted(want=tuple(row.name for row in outgoing.manifest if row.kind == "report"))

    def attach(self, row: Any, path: Path) -> Accepted | Refused | Later:
        target = self._path.parent / f"{row.incident}-{row.name}"
        try:
            shutil.copyfile(path, target)
        except FileNotFoundError:
            return Refused("it is gone")
        except OSError as error:
            return Later(f"{target.name} cannot be written ({error.strerror})")
        return Accepted()

    def close(self) -> None:
        """Nothing stays open."""


def _known(path: Path) -> list[tuple[str, int]]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            told = json.loads(line)
            found.append((told["id"], told["revision"]))
        except (ValueError, KeyError, TypeError):
            continue  # half a line of a full disk
    return found


def make() -> JsonLines:
    """The entry point. Raises KeyError when the variable names no file."""
    return JsonLines(Path(os.environ[VARIABLE]))
