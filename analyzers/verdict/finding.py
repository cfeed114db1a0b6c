"""What one rule concludes."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE_ORDER = ("undetermined", "weak", "strong", "proven")


@dataclass(frozen=True)
class Ask:
    """A piece of evidence that is missing, why it matters, and the command that would supply it."""

    what: str
    why: str
    command: str | None = None


@dataclass(frozen=True)
class Finding:
    """Class, cause, defect and phase with the reasons in order and the ids of the witnesses."""

    class_: str
    cause: str
    phase: str
    confidence: str
    summary: str
    defect: str | None = None
    handler: str | None = None
    reasons: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    asks: tuple[Ask, ...] = ()
    steps: tuple[tuple[str, str | None], ...] = ()  # (what to do, its command) in place of the class's page
    suspect: str | None = (
        None  # the defect that fits but for one piece of evidence: its advice is worth reading
    )


def at_most(confidence: str, limit: str) -> str:
    """The weaker of two confidences."""
    return min(confidence, limit, key=CONFIDENCE_ORDER.index)
