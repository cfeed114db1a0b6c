"""Is an answer the one the awake server gives?"""

from __future__ import annotations

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, REFUSED, SERVER_ERROR, WRONG_ANSWER
from collector.lab.reference.client import Answer

# What must not depend on sleep, whichever of it a route answers with. Times and ids of an answer do.
TELLING = (
    "tokens",
    "content",
    "input_tokens",
    "prompt",
    "error",
    "tokens_evaluated",
    "choices",
    "data",
    "embedding",
)
REFUSED_STATUS = (404, 503)


def telling(answer: Answer) -> tuple[int | None, object]:
    """The part of an answer that must not depend on sleep: status, tokens, text, counts, error text."""
    body = answer.json()
    if isinstance(body, list):
        return answer.status, [_told(each) for each in body]
    return answer.status, _told(body) if isinstance(body, dict) else answer.body


def _told(body: object) -> object:
    if not isinstance(body, dict):
        return body
    return {name: body[name] for name in TELLING if name in body}


def outcome_of(answer: Answer, awake: Answer | None) -> str:
    """Outcome of a request that got an answer, compared with the ``awake`` answer to the same request.

    Without an awake answer nothing can be called right: inconclusive, unless it was refused.
    """
    if answer.status is None:
        return INCONCLUSIVE
    if awake is not None and telling(answer) == telling(awake):
        return ANSWERED
    if answer.status in REFUSED_STATUS:
        return REFUSED
    if awake is None:
        return INCONCLUSIVE
    # a poisoned look-up answers 400 where the awake server answers 200: an error it does not give
    return SERVER_ERROR if answer.status >= 400 else WRONG_ANSWER
