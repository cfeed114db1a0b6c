"""Requests whose handling takes long enough to put a sleep into, or too long for a thread's stack."""

from __future__ import annotations

from typing import Any

from collector.lab.reference.client import Request

SENTENCE = "say hello world and crash to the sleep "
# 780 KB: 0.2-0.4 s of tokenising with the smallest vocabulary, far wider than the jitter of a pinned sleep.
SENTENCES = 20_000
# A letter no vocabulary here has: every one falls back to byte tokens, which are looked up by a call
# that throws when the vocabulary is empty, where words are looked up by one that reads on.
FOREIGN = "\u0394"
# 0.2 s of tokenising; the time grows faster than the count (80,000 take 2.7 s, longer than the idle limit).
FOREIGN_COUNT = 20_000
# Many small prompts and a schema of many properties: 20-40 ms of conversion that no longer reads the
# vocabulary, then the tasks are posted.
STRANDING_PROMPTS = 200
STRANDING_PROPERTIES = 300
# The regular-expression splitter recurses once for each character of a run of one class; 8 MB of stack
# hold fewer than these (20,000 still pass).
OVERFLOWING_RUN = 200_000
OVERFLOWING_BRACKETS = 100_000
COUNT_ROUTE = "/v1/chat/completions/input_tokens"
UNKNOWN_TRIGGER_TYPE = 99
LONG_TIMEOUT = 30.0


def touch() -> Request:
    """The smallest work that resets the idle timer."""
    return Request("POST", "/completion", {"prompt": "hello", "n_predict": 1})


def count_tokens(text: str = "say hello") -> Request:
    """A token count, one of the routes that read the vocabulary without posting a task."""
    body = {"messages": [{"role": "user", "content": text}]}
    return Request("POST", COUNT_ROUTE, body, timeout=LONG_TIMEOUT)


def long_completion() -> Request:
    body = {"prompt": SENTENCE * SENTENCES, "n_predict": 1}
    return Request("POST", "/completion", body, timeout=LONG_TIMEOUT)


def long_tokenize() -> Request:
    return Request("POST", "/tokenize", {"content": SENTENCE * SENTENCES}, timeout=LONG_TIMEOUT)


def foreign_tokenize() -> Request:
    return Request("POST", "/tokenize", {"content": FOREIGN * FOREIGN_COUNT}, timeout=LONG_TIMEOUT)


def foreign_completion() -> Request:
    body = {"prompt": FOREIGN * FOREIGN_COUNT, "n_predict": 1}
    return Request("POST", "/completion", body, timeout=LONG_TIMEOUT)


def stranding(timeout: float) -> Request:
    """A request that is past the vocabulary, and not yet queued, for tens of milliseconds."""
    names = [f"p{number}" for number in range(STRANDING_PROPERTIES)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
    }
    body: dict[str, Any] = {"prompt": ["a"] * STRANDING_PROMPTS, "n_predict": 1, "json_schema": schema}
    return Request("POST", "/completion", body, timeout=timeout)


def overflowing_run() -> str:
    """One class of characters, long enough to overflow the splitter's stack."""
    return "!" * OVERFLOWING_RUN


def overflowing_completion() -> Request:
    """Needs a byte-pair model: SentencePiece vocabularies have no splitter."""
    body = {"prompt": overflowing_run(), "n_predict": 1}
    return Request("POST", "/completion", body, timeout=LONG_TIMEOUT)


def overflowing_tokenize() -> Request:
    return Request("POST", "/tokenize", {"content": overflowing_run()}, timeout=LONG_TIMEOUT)


def overflowing_grammar() -> Request:
    """Any model: the grammar parser recurses once for each bracket, in the queue loop's thread."""
    grammar = "root ::= " + "(" * OVERFLOWING_BRACKETS + '"a"' + ")" * OVERFLOWING_BRACKETS
    return Request("POST", "/completion", {"prompt": "hello", "n_predict": 1, "grammar": grammar})


def unknown_trigger() -> Request:
    """A lazy grammar with a trigger of a kind that does not exist; the server asserts that it does."""
    body = {
        "prompt": "hello",
        "n_predict": 1,
        "grammar": 'root ::= "a"',
        "grammar_lazy": True,
        "grammar_triggers": [{"type": UNKNOWN_TRIGGER_TYPE, "value": "a"}],
    }
    return Request("POST", "/completion", body, timeout=LONG_TIMEOUT)
