"""The sysctl.d file that keeps core_pattern over a reboot, and which files of others come after it.

All sysctl.d folders together are applied in the order of the files' names; of two files of one name, the one
in the earlier folder counts (sysctl.d(5)).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.capture.setup.kernel import NAMES
from collector.gather.tools import read_text

_HEAD = "# Written by `llama-blackbox capture install`; `llama-blackbox capture remove` takes it away.\n"
_LINE = re.compile(r"^\s*-?\s*([\w./-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_MOST_FILES = 500


@dataclass(frozen=True)
class Other:
    """Another file that sets one of our sysctls; ``after``: it is applied after ours, and wins at boot."""

    path: Path
    name: str
    value: str
    after: bool

    @property
    def words(self) -> str:
        told = f"{self.path} sets {self.name} = {self.value}"
        if self.after:
            return f"{told}; it is applied after ours: a reboot would end the capture (rename or remove it)"
        return (
            f"{told}; ours is applied after it, so ours holds after a reboot; what reads it later undoes ours"
        )


def text_of(settings: Mapping[str, str]) -> str:
    """The file's text."""
    return _HEAD + "".join(f"{name} = {value}\n" for name, value in settings.items())


def others(folders: Sequence[Path], ours: str) -> list[Other]:
    """Files besides ``ours`` (a name) that set core_pattern, core_pipe_limit or suid_dumpable."""
    found: list[Other] = []
    for name, path in sorted(_effective(folders).items()):
        if name == ours:
            continue
        text = (read_text(path, 1 << 16) or b"").decode("utf-8", "replace")
        for hit in _LINE.finditer(text):
            key = hit[1].replace("/", ".")
            if key in NAMES:
                found.append(Other(path, key, hit[2], name > ours))
    return found


def _effective(folders: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            paths = sorted(folder.glob("*.conf"))[:_MOST_FILES]
        except OSError:
            continue
        for path in paths:
            found.setdefault(path.name, path)
    return found
