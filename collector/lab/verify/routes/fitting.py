"""Which options go together: with ``--target`` a running server is asked, without it servers of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzers.errors import UserError
from collector.lab.verify.options import STDOUT, Outputs
from collector.lab.verify.routes.table import Route

WHERE = "verify routes"


def demand_ours(**named: object) -> None:
    """Raises UserError for an option of ``--target`` that was given without it (named as in Python)."""
    for option in _given(named):
        raise UserError(
            f"{option} belongs to --target, and there is none",
            where=WHERE,
            remedy="add --target URL, or leave it out to test a server of our own",
        )


def demand_theirs(places: Outputs, **named: object) -> None:
    """Raises UserError for an option that a running server cannot follow: it is one build, asked once, in the
    state it is found in, and what it answers is compared with its promises alone."""
    written = {"junit": places.junit, "reproducer": places.reproducer, "output": places.folder}
    for option in _given({**named, **written, "update_catalogue": places.update_catalogue}):
        raise UserError(
            f"{option} is for servers that the verifier starts, not for a running one",
            where=f"{WHERE} --target",
            remedy=f"leave {option} out; --json, --picture and --route go with --target",
        )


def demand_allowed(wanted: Sequence[Route], left: Sequence[Route]) -> None:
    """Raises UserError when a named route is not among those ``left``, which leave the server as it is."""
    for route in wanted:
        if route not in left:
            raise UserError(
                "it wakes the server or makes it work",
                where=f"--route {route.name}",
                remedy="add --all-routes if the server may be disturbed, or name /health or /props",
            )


def demand_single_stream(places: Outputs, subjects: int) -> None:
    """Raises UserError when several builds would each put a document on standard output."""
    if subjects > 1 and places.junit == STDOUT:
        raise UserError(
            f"{subjects} builds make {subjects} documents",
            where="--junit -",
            remedy="name a file: each build gets its own, NAME-1, NAME-2 and so on",
        )


def _given(named: Mapping[str, object]) -> list[str]:
    given = (name for name, value in named.items() if value not in (None, False, 0))
    return ["--" + name.replace("_", "-") for name in given]
