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
class Sign:
    """A name in a binary's symbol table that dates it: only builds above ``after`` (the last one looked at
    without it) and below ``before`` (the first one without it again) have it. Its absence tells nothing: a
    binary may be stripped, or the function inlined. ``prefix``: names that begin with ``symbol`` count too.
    """

    id: str
    symbol: str
    after: int | None = None
    before: int | None = None
    prefix: bool = False
    how: str = ""


@dataclass(frozen=True)
class Mark(Sign):
    """A sign that also tells a defect: ``affected`` is what a binary that has the name is."""

    affected: bool = False
    builds: str = ""

    def __str__(self) -> str:
        shown = f"{self.symbol}{'…' if self.prefix else ''}"
        return f"{'affected' if self.affected else 'fixed'} ({self.builds}): {shown}"


@dataclass(frozen=True)
class Witness:
    """One build that was looked at. ``method``: measured | source | reported; ``date``: ISO or "reported";
    ``local``: seen by this machine's own verifier, not shipped."""

    build: int
    method: str
    date: str
    how: str
    local: bool = False

    def __str__(self) -> str:
        when = "" if self.date == "reported" else f", {self.date}"
        here = ", local" if self.local else ""
        return f"b{self.build}: {self.how} ({self.method}{when}{here})"


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
        last = self.last if self.last is not None else max(witness.build for witness in self.witnesses)
        shown = f"{self.status}: b{self.first}" + (f" to b{last}" if last != self.first else "")
        return shown if self.last is not None else f"{shown}; in later builds presumed"


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
class Through:
    """Routes that share what is known about reaching a defect through them."""

    routes: tuple[str, ...]
    builds: tuple[BuildRange, ...]


@dataclass(frozen=True)
class ProbeSafety:
    """What one GET does to a server of one build, as it was measured on ``first`` to ``last``.

    ``wakes`` a sleeping one; ``resets`` the idle timer; ``blocks`` while the model unloads or wakes;
    ``moves_sleep``: makes a server whose limit has passed sleep at once. ``presumed``: the build itself was
    not measured.
    """

    route: str
    first: int
    last: int
    wakes: bool
    resets: bool
    blocks: bool
    moves_sleep: bool
    method: str
    date: str
    how: str
    presumed: bool = False

    @property
    def safe(self) -> bool:
        """It leaves the server as it is. It may still have to wait for its answer (``blocks``)."""
        return not (self.wakes or self.resets or self.moves_sleep)


@dataclass(frozen=True)
class LocalWitness:
    """What this machine's own verifier found, from the overlay. ``status``: affected | fixed (clean trials).

    ``stock`` False: a patched or unknown tree, told by its ``build_id`` alone and never by a number.
    """

    defect: str
    status: str
    build: int | None
    build_id: str | None
    stock: bool
    date: str
    how: str
    trials: int
    bound: float | None = None
    routes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recognised:
    """Which build something is. ``build`` is its number, else it lies in ``first`` to ``last`` (either may be
    open). ``how``: build-id | marks | marks and version text | commit | version text | unknown."""

    build: int | None
    first: int | None
    last: int | None
    how: str
    because: str
    wheel: KnownBuild | None = None

    def __str__(self) -> str:
        if self.build is not None:
            return f"b{self.build} by its {self.how}"
        low = f"b{self.first} or later" if self.first is not None else ""
        high = f"b{self.last} or earlier" if self.last is not None else ""
        span = f"between b{self.first} and b{self.last}" if low and high else low or high
        return f"{span} by its {self.how}" if span else "not known"


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
    through: tuple[Through, ...] = ()
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
