"""What was gathered so far: files, facts and gaps, on their way into a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.bundle import CONTEXT, Manifest
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap, Host, Process
from analyzers.privacy.redact import Redactor
from analyzers.privacy.walk import clean_model

CORE_FACT = "core-"  # beginning of the ids of what was read in the core


def spelled(text: str) -> str:
    """A path that is no UTF-8 (the kernel takes any bytes), its bytes written as ``\\xff``: JSON has none."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def without_core(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The facts but those read in the core."""
    return [item for item in evidence if not item.id.startswith(CORE_FACT)]


@dataclass
class Haul:
    """Collects; ``core`` is the dead process's core on this host, which only goes in when it is asked for."""

    host: Host = field(default_factory=Host)
    process: Process = field(default_factory=Process)
    files: dict[str, Path | bytes] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    core: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)

    def add(self, name: str, data: Path | bytes, kind: str | None = None) -> None:
        """A file that triage reads like any input."""
        self.files[name] = data
        if kind is not None:
            self.kinds[name] = kind

    def context(self, name: str, data: bytes | str | None, kind: str = CONTEXT) -> None:
        """A file for people, below ``context/``; nothing when it is empty or not there."""
        if data:
            raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
            self.add(f"context/{name}", raw, kind)

    def facts(self, evidence: Iterable[Evidence]) -> None:
        """Facts, each with an id of its own in this haul."""
        taken = {item.id for item in self.evidence}
        for item in evidence:
            fresh = (
                item if item.id not in taken else item.model_copy(update={"id": f"{item.id}-{len(taken)}"})
            )
            taken.add(fresh.id)
            self.evidence.append(fresh)

    def gap(self, what: str, why: str, command: str | None = None) -> None:
        """Something that could not be had; named once, however often it was missed."""
        found = Gap(what=what, why=why, command=command)
        if found not in self.gaps:
            self.gaps.append(found)

    def missed(self, gaps: Iterable[Gap]) -> None:
        for gap in gaps:
            self.gap(gap.what, gap.why, gap.command)

    def knows(self, args: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        """Remember the keys in these, so that they are taken out wherever else they occur."""
        self.redactor = self.redactor.knowing(args=args, env=env)

    def write(
        self, target: Path, *, private: bool = False, memory: bool = False, overwrite: bool = False
    ) -> Manifest:
        """Write the bundle. Raises UserError as ``write_bundle``."""
        evidence = [clean_model(item, spelled) for item in self.evidence]
        if memory and self.core is not None:
            self.add("core", self.core, "core")
            evidence = without_core(evidence)  # triage reads the core itself, and would count its facts twice
        lives = [item.incarnation for item in self.evidence if item.incarnation.start_time is not None]
        parts = ManifestParts(
            host=clean_model(self.host, spelled),
            process=clean_model(self.process, spelled),
            incarnations=list(dict.fromkeys(lives)),
            gaps=[clean_model(gap, spelled) for gap in self.gaps],
            kinds=self.kinds,
        )
        return write_bundle(
            target,
            parts,
            self.files,
            evidence,
            redactor=self.redactor,
            include_private=private,
            include_memory=memory,
            overwrite=overwrite,
        )
