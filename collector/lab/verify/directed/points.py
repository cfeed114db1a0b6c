"""The named points a request's thread can be held at, and the symbols that stand for them per build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analyzers.errors import UserError

AFTER_BARRIER, TOKENISER, BEFORE_POST = "after-barrier", "tokeniser", "before-post"
TOKEN_COUNT, SCHEMA_CONVERSION = "token-count", "schema-conversion"
DEFECTS = ("D1", "D2", "D3")
# Any route handler: server_routes::handle_… and the lambdas of its constructor and of init_routes().
HANDLER = r"server_routes::"
# The queue's own thread passes some of the points as well, and holding it would stop the server.
LOOP = re.compile(r"server_queue::(start_loop|worker_loop)|12server_queue1[01](start_loop|worker_loop)")


@dataclass(frozen=True)
class Point:
    """One place in the server. ``symbols``: alternatives, the first that a build has is taken; each is the
    beginning of mangled names, and every function whose name starts so is meant.

    ``leave``: hold when the function has returned, not where it begins. ``asleep``: the request is sent to a
    server that sleeps already, and nothing is held. ``handler`` must be on the thread's stack. ``step_out``:
    when let go, the thread is followed to the end of the function, which shows that it did its work.
    """

    name: str
    defect: str
    about: str
    symbols: tuple[str, ...]
    handler: str = HANDLER
    leave: bool = False
    asleep: bool = False
    step_out: bool = False


# Names by nm on the wheels of b11063 and b11549 and on native b11138 and b11368: the first alternatives are
# in all four. The others are the callers one step out, for builds that inline or rename the first.
POINTS = (
    Point(
        TOKEN_COUNT,
        "D1",
        "in the token count, on the first request to a sleeping server",
        ("_Z14tokenize_mixedPK11llama_vocab", "_Z15common_tokenizePK11llama_vocab"),
        handler=r"server_routes::handle_count_tokens",
        asleep=True,
    ),
    Point(
        AFTER_BARRIER,
        "D2",
        "where the wake barrier has been passed and nothing has been read",
        ("_ZN12server_queue19wait_until_no_sleepEv",),
        handler=r"server_routes::handle_completions_impl",  # the route before it has a barrier of its own
        leave=True,
    ),
    Point(
        TOKENISER,
        "D2",
        "where the prompt is tokenised",
        (
            "_ZNK11llama_vocab4impl8tokenizeE",
            "_ZNK11llama_vocab8tokenizeE",
            "_Z15common_tokenizePK11llama_vocab",
        ),
    ),
    Point(
        SCHEMA_CONVERSION,
        "D2",
        "where a JSON schema becomes a grammar; the vocabulary is read once more after it",
        ("_Z22json_schema_to_grammar",),
    ),
    Point(
        BEFORE_POST,
        "D3",
        "where everything is read and the tasks are about to be queued",
        (
            "_ZN12server_queue4postEOSt6vectorI11server_task",
            "_ZN12server_queue4postERSt6vectorI11server_task",
            "_ZN22server_response_reader10post_tasksE",
        ),
        step_out=True,
    ),
)
BY_NAME = {point.name: point for point in POINTS}


def listing() -> str:
    """All points for the help text."""
    return "; ".join(f"{point.name} ({point.defect}): {point.about}" for point in POINTS)


def under_handler(stack: Sequence[str], handler: str = HANDLER) -> bool:
    """The decision to hold: a route handler is on the stack (function names, innermost first), and it is not
    the queue's own thread. Names may be mangled: ``13server_routes`` is told from its length prefix."""
    mangled = handler.replace("::", r"\d+")
    if any(LOOP.search(name) for name in stack):
        return False
    return any(re.search(handler, name) or re.search(mangled, name) for name in stack)


def wanted_points(defects: Iterable[str], names: Iterable[str]) -> list[Point]:
    """The points asked for by name, or all of ``defects``; raises UserError for a name nobody knows."""
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in BY_NAME:
            raise UserError(
                f"no such point: {name[:40]!r}", where="--point", remedy=f"choose from {', '.join(BY_NAME)}"
            )
    chosen = [BY_NAME[name] for name in asked] if asked else list(POINTS)
    limit = set(defects)
    kept = [point for point in chosen if not limit or point.defect in limit]
    if not kept:
        raise UserError(
            "none of the points aims at these defects",
            where="--point, --defect",
            remedy="give one of the two, or points and defects that belong together",
        )
    return kept


def unknown_defects(defects: Iterable[str]) -> None:
    """Raises UserError for a defect that no point aims at."""
    for defect in defects:
        if defect not in DEFECTS:
            raise UserError(
                f"no point aims at {defect[:20]!r}",
                where="--defect",
                remedy=f"choose from {', '.join(DEFECTS)}",
            )


def usable(
    points: Sequence[Point], found: Mapping[str, object], subject: str, explicit: bool
) -> tuple[list[Point], list[Point]]:
    """``points`` split into those whose symbol the build has and those without.

    Raises UserError when a point that was asked for by name is missing, or when all are: there are no
    symbols then.
    """
    there = [point for point in points if any(symbol in found for symbol in point.symbols)]
    missing = [point for point in points if point not in there]
    if not found:
        raise UserError(
            "the server has no symbols that say where a request could be held",
            where=subject,
            remedy="test a build that is not stripped, or use: llama-blackbox verify pinned",
        )
    if missing and (explicit or not there):
        names = ", ".join(point.name for point in missing)
        raise UserError(
            f"this build has no symbol for the point {names}", where=subject, remedy="choose another --point"
        )
    return there, missing
