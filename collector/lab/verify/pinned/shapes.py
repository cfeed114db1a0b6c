"""The requests that widen a window, each with the defect whose window its sleep is aimed at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from collector.lab.faults.prompts import (
    LONG_TIMEOUT,
    SENTENCE,
    count_tokens,
    foreign_completion,
    foreign_tokenize,
    long_completion,
    long_tokenize,
)
from collector.lab.reference.client import Request

DEFECTS = ("D1", "D2", "D3")
# 40 prompts of 20 KB each are as much to read as one of 780 KB; each is too long for the context, so that
# the answer is the first one's refusal and nothing is generated.
ARRAY_PROMPTS, ARRAY_SENTENCES = 40, 500
# The schema is copied and converted once for each prompt, after the last prompt was read: 100 copies of
# 3,000 unused definitions take 100-200 ms, while the few properties keep the awake answer at half a second.
SCHEMA_PROMPTS, SCHEMA_PROPERTIES, SCHEMA_DEFINITIONS = 100, 20, 3_000
# A stranded client waits this long before it gives up: room to find, judge and release it.
STRANDED_TIMEOUT = 60.0


@dataclass(frozen=True)
class Shape:
    """One request for one defect's window.

    ``plain``: the same request without the part that makes it slow after its last read (D3); its post is
    where the window begins. ``asleep``: sent to a server that sleeps already, so nothing is pinned (D1).
    """

    name: str
    defect: str
    request: Request
    poisoned: bool
    plain: Request | None = None
    asleep: bool = False

    @property
    def key(self) -> str:
        """What its awake answers are remembered by: poison makes them slower."""
        return f"{self.name}{' poisoned' if self.poisoned else ''}"

    @property
    def route(self) -> str:
        return f"{self.request.method} {self.request.route}"


def shapes_for(defect: str, *, unpoisoned: bool) -> tuple[Shape, ...]:
    """The shapes that trials of ``defect`` take in turn. D3 is never poisoned: a sleep a little early
    would then crash its readers instead of stranding it."""
    return {"D1": _stale, "D2": _reader, "D3": _post}[defect](not unpoisoned)


def _stale(poisoned: bool) -> tuple[Shape, ...]:
    return (Shape("token-count", "D1", count_tokens(), poisoned, asleep=True),)


def _reader(poisoned: bool) -> tuple[Shape, ...]:
    long = {
        "long-completion": long_completion(),
        "long-tokenize": long_tokenize(),
        "prompt-array": prompt_array(),
    }
    # read by a look-up that throws on an emptied vocabulary: server errors, where words are read wrongly
    foreign = {"foreign-tokenize": foreign_tokenize(), "foreign-completion": foreign_completion()}
    wanted = long if poisoned else {**long, **foreign}
    return tuple(Shape(name, "D2", request, poisoned) for name, request in wanted.items())


def _post(_: bool) -> tuple[Shape, ...]:
    request = schema_heavy()
    plain = {name: part for name, part in request.body.items() if name != "json_schema"}
    return (Shape("schema-heavy", "D3", request, False, plain=replace(request, body=plain)),)


def prompt_array() -> Request:
    body = {"prompt": [SENTENCE * ARRAY_SENTENCES] * ARRAY_PROMPTS, "n_predict": 1}
    return Request("POST", "/completion", body, timeout=LONG_TIMEOUT)


def schema_heavy() -> Request:
    """Answered alike each time: greedy, seeded, and without the fields that repeat the schema."""
    text = {"type": "string"}
    names = [f"p{number}" for number in range(SCHEMA_PROPERTIES)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict.fromkeys(names, text),
        "required": names,
        "$defs": {f"d{number}": text for number in range(SCHEMA_DEFINITIONS)},
    }
    body: dict[str, Any] = {
        "prompt": ["a"] * SCHEMA_PROMPTS,
        "n_predict": 1,
        "temperature": 0.0,
        "seed": 1,
        "response_fields": ["content", "tokens_evaluated", "index"],
        "json_schema": schema,
    }
    return Request("POST", "/completion", body, timeout=STRANDED_TIMEOUT)
