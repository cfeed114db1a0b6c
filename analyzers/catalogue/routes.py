"""Questions about routes: does one reach a defect in a build, and what does a probe do to a server?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analyzers.catalogue.builds import standing_in, standing_of
from analyzers.catalogue.model import Defect, ProbeSafety, Standing

# Of a build that nobody can name, only this is known to leave the server alone: it never touches the queue,
# in any build measured.
ALWAYS_SAFE = "GET /health"
SETTLED = ("fixed", "presumed-fixed", "absent")


def route_of(text: str, method: str) -> str:
    """``POST /tokenize`` from ``/tokenize`` or ``post /tokenize?x=1``; ``method`` where none is named."""
    named, _, path = text.strip().rpartition(" ")
    return f"{(named or method).upper()} {path.partition('?')[0].rstrip('/') or '/'}"


def route_standing(defect: Defect, route: str, build: int | None) -> Standing:
    """Whether ``defect`` can be reached through ``route`` in ``build``.

    A build without the defect has it on no route; a route nobody looked at is unmeasured, never clean.
    """
    whole, wanted = standing_of(defect, build), route_of(route, "POST")
    if whole.status in SETTLED:
        return whole
    known = next((each for each in defect.through if wanted in each.routes), None)
    if known is None:
        return Standing("unmeasured", f"nobody looked at {defect.id} through {wanted}")
    found = standing_in(known.builds, f"{defect.id} through {wanted}", build)
    if found.exposed and not whole.exposed:
        return Standing("unmeasured", whole.because)
    return found


def probe_safety(probes: Iterable[ProbeSafety], build: int | None, route: str) -> ProbeSafety | None:
    """What a GET of ``route`` does to a server of ``build``; None when nobody can say.

    Newer builds than the last one measured, and builds between two that were measured alike, are presumed
    to behave like them.
    """
    wanted = route_of(route, "GET")
    rows = [probe for probe in probes if probe.route == wanted]
    if build is None or not rows or build < rows[0].first:
        return None
    at = next((probe for probe in rows if probe.first <= build <= probe.last), None)
    if at is not None:
        return at
    return replace(rows[-1], presumed=True) if build > rows[-1].last else None


def safe_probes(probes: Iterable[ProbeSafety], build: int | None) -> tuple[str, ...]:
    """The routes that leave a server of ``build`` alone; of an unknown or unmeasured build only /health."""
    rows = tuple(probes)
    routes = dict.fromkeys(probe.route for probe in rows)
    found = [probe_safety(rows, build, route) for route in routes]
    safe = tuple(probe.route for probe in found if probe is not None and probe.safe)
    return safe or (ALWAYS_SAFE,)
