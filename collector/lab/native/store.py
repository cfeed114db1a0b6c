"""Finished builds in the cache: one folder each, with the binary and the record of how it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.lab.native.recipe import SERVER_TARGET
from collector.lab.reference.cache import cache_entries, cache_folder, drafted

RECORD = "build.json"
BUILDS = ("native", "builds")
SCHEMA = "llama-blackbox/native-build/1"
# A record has 1 KB; the cache is the user's own, but may be damaged.
RECORD_LIMIT = 1 << 20


@dataclass(frozen=True)
class NativeBuild:
    """A server ready to run. ``name`` is for people, ``environment`` what it must be started with, ``record``
    the content of build.json: compiler, flags, hashes, seconds, bytes."""

    binary: Path
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)


def builds_folder() -> Path:
    return cache_folder(*BUILDS)


def folder_name(name: str, key: str) -> str:
    """A readable folder name that ends in the key."""
    return f"{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}-{key}"


def load(folder: Path) -> NativeBuild | None:
    """The build in ``folder``, or None when there is none, or only a damaged one."""
    binary = folder / SERVER_TARGET
    try:
        with (folder / RECORD).open("rb") as file:
            record = json.loads(file.read(RECORD_LIMIT))
        whole = binary.stat().st_size == record["bytes"]["binary"] and os.access(binary, os.X_OK)
        made = NativeBuild(binary, str(record["name"]), dict(record["environment"]), record)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return made if whole and record.get("schema") == SCHEMA else None


def find(key: str) -> NativeBuild | None:
    """The finished build with this key."""
    found = [load(folder) for folder in cache_entries(*BUILDS) if folder.name.endswith(f"-{key}")]
    return next((made for made in found if made is not None), None)


def all_builds() -> list[NativeBuild]:
    """Every finished build, by folder name."""
    found = [load(folder) for folder in cache_entries(*BUILDS) if folder.is_dir()]
    return [made for made in found if made is not None]


def publish(key: str, binary: Path, log: Path, record: dict[str, Any]) -> NativeBuild:
    """Keep a finished binary under ``key``; it appears whole or not at all."""
    target = builds_folder() / folder_name(str(record["name"]), key)
    with drafted(target) as draft:  # we hold the tree
        shutil.copy2(binary, draft / SERVER_TARGET)
        shutil.copyfile(log, draft / "build.log")
        (draft / RECORD).write_text(json.dumps({"schema": SCHEMA, **record}, indent=2) + "\n", "utf-8")
        draft.chmod(0o755)
    made = load(target)
    assert made is not None  # noqa: S101 - written a moment ago
    return made
