"""The catalogue as plain data: defects with their builds and advice, pages of help, known wheels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reference:
    """An upstream issue or pull request. ``kind``: issue | pull."""

    kind: str
    number: int
    note: str

    def __str__(self) -> str:
        label = "issue" if self.kind == "issue" else "pull request"
        return f"llama.cpp {label} {self.number}: {self.note}"


@dataclass(frozen=True)
class Advice:
    """One step a person can take now. ``where``: any | systemd | docker."""

    text: str
    command: str | None = None
    where: str = "any"


@dataclass(frozen=True)
class LookAlike:
    """Something that resembles this defect or class, and the sign that keeps the two apart."""

    what: str
    apart: str


@dataclass(frozen=True)
class Mark:
    """A mangled name in the binary's symbol table. ``affected`` tells what a binary that has it is."""

    symbol: str
    affected: bool
    builds: str

    def __str__(self) -> str:
        return f"{'affected' if self.affected else 'fixed'} ({self.builds}): {self.symbol}"


@dataclass(frozen=True)
class Witness:
    """One build that was looked at. ``method``: measured | source | reported; ``date``: ISO or "reported"."""

    build: int
    method: str
    date: str
    how: str

    def __str__(self) -> str:
        when = "" if self.date == "reported" else f", {self.date}"
        return f"b{self.build}: {self.how} ({self.method}{when})"


@dataclass(frozen=True)
class BuildRange:
    """Builds ``first`` to ``last`` (both included; ``last`` None: open upward) that share a status.

    ``status``: affected | fixed | absent. Only the witnesses were looked at; the rest is inferred.
    """

    status: str
    first: int
    last: int | None
    witnesses: tuple[Witness, ...]

    def __contains__(self, build: int) -> bool:
        return self.first <= build and (self.last is None or build <= self.last)

    def __str__(self) -> str:
        return f"{self.status}: b{self.first} {f'to b{self.last}' if self.last else 'and later'}"


@dataclass(frozen=True)
class Standing:
    """What the catalogue says of one defect in one build, with the sentence that says why.

    ``status``: affected | fixed | presumed-affected | presumed-fixed | unmeasured | absent.
    """

    status: str
    because: str

    @property
    def exposed(self) -> bool:
        """True when the build has the defect, or is presumed to have it."""
        return self.status in ("affected", "presumed-affected")


@dataclass(frozen=True)
class Defect:
    """One known defect. ``proven_by`` is a list of groups: one proof id of EVERY group must be held."""

    id: str
    name: str
    title: str
    summary: str
    detail: str
    cause: str
    classes: tuple[str, ...]
    phases: tuple[str, ...]
    handlers: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    exposure: bool = True  # False: history, never reported by an exposure check
    fixed_in: int | None = None  # first build known to be free of it
    references: tuple[Reference, ...] = ()
    look_alikes: tuple[LookAlike, ...] = ()
    marks: tuple[Mark, ...] = ()
    builds: tuple[BuildRange, ...] = ()
    proven_by: tuple[tuple[str, ...], ...] = ()
    not_enough: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()

    def advice_for(self, deployment: str | None = None) -> tuple[Advice, ...]:
        """Steps for every deployment plus those of ``deployment`` (systemd, docker), in order."""
        return tuple(step for step in self.advice if step.where in ("any", deployment))


@dataclass(frozen=True)
class QueueLayout:
    """Byte offsets of ``server_queue``'s members, as the wheels' own DWARF gives them."""

    id: str
    size: int
    members: Mapping[str, int]


@dataclass(frozen=True)
class KnownBuild:
    """A released wheel recognised by the GNU build-id of its ``.abi3.so``; it calls itself b0-unknown."""

    build_id: str
    distribution: str
    version: str
    build: int
    layout: QueueLayout
    method: str
    date: str
    defects: Mapping[str, str] = field(default_factory=dict)  # defect id -> affected | fixed | absent


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs or steps; ``command`` in an Advice is printed as it should be typed."""

    heading: str
    lines: tuple[str, ...] = ()
    steps: tuple[Advice, ...] = ()


@dataclass(frozen=True)
class Page:
    """One page of help. ``kind``: defect | class | cause | phase | confidence | state."""

    id: str
    kind: str
    title: str
    sections: tuple[Section, ...] = ()
