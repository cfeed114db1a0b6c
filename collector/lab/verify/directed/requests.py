"""The request of each point: two words, answered by an awake server in a millisecond, always alike."""

from __future__ import annotations

import random
from typing import Any

from collector.lab.faults.prompts import count_tokens
from collector.lab.reference.client import Request
from collector.lab.reference.vocabulary import WORDS
from collector.lab.verify.answers import repeatable
from collector.lab.verify.directed.points import SCHEMA_CONVERSION, TOKEN_COUNT, TOKENISER, Point

# Longer than all bounds of a trial together: that the client gave up must never look like an answer.
PATIENCE = 600.0
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def two_words(chance: random.Random) -> str:
    """Two words of the generated model's vocabulary; any model knows them."""
    return " ".join(chance.sample(WORDS, 2))


def request_for(point: Point, words: str) -> Request:
    """The request that passes ``point``.

    The tokeniser is reached by /tokenize: it queues no task, so that D2 is seen without D3. A bias given as a
    word makes the server read the vocabulary after it has converted the schema.
    """
    if point.name == TOKEN_COUNT:
        made = count_tokens(words)
    elif point.name == TOKENISER:
        made = Request("POST", "/tokenize", {"content": words})
    else:
        body: dict[str, Any] = {"prompt": words, "n_predict": 1}
        if point.name == SCHEMA_CONVERSION:
            body |= {"json_schema": SCHEMA, "logit_bias": [["hello", 1.0]]}
        made = Request("POST", "/completion", body)
    fixed = repeatable(made)
    return Request(fixed.method, fixed.route, fixed.body, timeout=PATIENCE)
