"""How far a frame can be trusted: by the way it was found, never by how plausible its name looks."""

from __future__ import annotations

from analyzers.contracts.facts import Frame, StackFact

REGISTER, UNWOUND, SCANNED, GUESSED, PRINTED = "register", "unwound", "scanned", "guessed", "printed"
TRUSTS: dict[str, str] = {
    REGISTER: "the instruction the kernel saved for this thread; its callers are not known",
    UNWOUND: "found by unwinding: the program's own tables say where each caller stands on the dumped stack",
    SCANNED: "a stack word behind a call instruction: a caller, or left over from an earlier call",
    GUESSED: "a word on the stack that points into code which is not at hand: a caller or any other value",
    PRINTED: "printed as text by a program; it is no better than whoever could have printed it",
}
OF_RUNG: dict[str, str] = {
    "notes": REGISTER,
    "scan": SCANNED,
    "eu-stack": UNWOUND,
    "stride": UNWOUND,
    "gdb": UNWOUND,
    "live": UNWOUND,
    "self-trace": PRINTED,
    "pasted": PRINTED,
}
_WORST_FIRST = (GUESSED, SCANNED, PRINTED, REGISTER, UNWOUND)


def trust_of(frame: Frame, rung: str) -> str | None:
    """The frame's own trust, else its rung's; None for a rung this version does not know."""
    return frame.trust or OF_RUNG.get(rung)


def stack_trust(stack: StackFact) -> str | None:
    """One sentence on the least trusted way in which this stack's frames were found."""
    ways = {trust_of(frame, stack.rung) for frame in stack.frames} or {OF_RUNG.get(stack.rung)}
    return next((TRUSTS[way] for way in _WORST_FIRST if way in ways), None)
