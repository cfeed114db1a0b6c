"""Is an answer the one the awake server gives?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, REFUSED, SERVER_ERROR, WRONG_ANSWER
from collector.lab.reference.client import Answer, Request

# What must not depend on sleep, whichever of it a route answers with. Counts of cached tokens, times and
# ids may: each route was sent twice to an awake b11063 and b11549, and everything here was equal.
TELLING = (
    "tokens",
    "content",
    "input_tokens",
    "prompt",
    "error",
    "tokens_evaluated",
    "tokens_predicted",
    "choices",
    "output",
    "delta",
    "data",
    "embedding",
    "results",
)
# What differs between two answers of one awake server, inside of what is telling.
VOLATILE = frozenset({"id", "created", "created_at", "completed_at", "timings"})
# The default temperature is 0.8 and the seed is drawn: two awake answers then differ. The prompt cache is
# lost by a sleep, and with it the batches in which the prompt is computed.
REPEATABLE: dict[str, Any] = {"temperature": 0.0, "seed": 1, "cache_prompt": False}
REFUSED_STATUS = (404, 503)
EVENT = b"data: "
NOT_COMPARABLE = (
    "two awake answers differ already (does this model draw at random?), and this one is like neither: "
    "it is not called right or wrong"
)


def repeatable(request: Request) -> Request:
    """``request`` as one whose answer can be compared with an earlier answer: nothing is drawn at random."""
    if not isinstance(request.body, dict):
        return request
    return replace(request, body={**request.body, **REPEATABLE})


def telling(answer: Answer) -> tuple[int | None, object]:
    """The part of an answer that must not depend on sleep: status, tokens, text, counts, error text.

    A stream's events are read as a list. A body that is no JSON tells as it stands.
    """
    body = _parsed(answer.body)
    if isinstance(body, list):
        return answer.status, [_told(each) for each in body]
    return answer.status, _told(body) if isinstance(body, dict) else answer.body


def _parsed(body: bytes) -> object:
    if body.startswith((EVENT, b"event: ")):
        lines = [line[len(EVENT) :] for line in body.splitlines() if line.startswith(EVENT)]
        return [_json(line) for line in lines]
    return _json(body)


def _json(text: bytes) -> object:
    """The value, or the text itself: hostile JSON may be nested deeper than the parser goes."""
    try:
        return _stable(json.loads(text, parse_constant=str))  # NaN is unequal to itself; its name is not
    except (ValueError, RecursionError):
        return text


def _stable(value: object) -> object:
    if isinstance(value, list):
        return [_stable(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _stable(part) for name, part in value.items() if name not in VOLATILE or _number_id(part)}


def _number_id(part: object) -> bool:
    """A token's id is a small number; those that are made up are texts, times are large."""
    return isinstance(part, int) and part < 1 << 24


def _told(body: object) -> object:
    if not isinstance(body, dict):
        return body
    return {name: body[name] for name in TELLING if name in body}


def differ(awake: Answer | None, again: Answer | None) -> bool:
    """Two answers of one awake server that do not say the same: its model draws at random by itself."""
    return awake is not None and again is not None and telling(awake) != telling(again)


def outcome_of(answer: Answer, awake: Answer | None, again: Answer | None = None) -> str:
    """Outcome of a request that got an answer, compared with the ``awake`` answer to the same request.

    Without a usable awake answer (none at all, or a 503) nothing can be called right or wrong:
    inconclusive, unless it was refused. All requests must be ``repeatable``.

    ``again``: a second awake answer. Where the two differ, an answer like one of them is right, since freed
    memory does not repeat it by luck. One like neither is inconclusive: a third awake answer could differ as
    well, and to call it right would make a build sound. A status of 400 or more that neither has is an error.
    """
    if answer.status is None:
        return INCONCLUSIVE
    if answer.status in REFUSED_STATUS:
        return REFUSED
    if awake is None or awake.status is None or awake.status == 503:
        return INCONCLUSIVE
    known = [awake] if again is None else [awake, again]
    if any(telling(answer) == telling(each) for each in known):
        return ANSWERED
    new_error = answer.status >= 400 and answer.status not in [each.status for each in known]
    if differ(awake, again) and not new_error:
        return INCONCLUSIVE
    # a poisoned look-up answers 400 where the awake server answers 200: an error it does not give
    return SERVER_ERROR if answer.status >= 400 else WRONG_ANSWER
