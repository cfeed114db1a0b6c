"""Faults by the content of one request to an awake server: the twins that sleep must not be blamed for."""

from __future__ import annotations

from dataclasses import dataclass

from collector.lab.faults.prompts import (
    count_tokens,
    overflowing_completion,
    overflowing_grammar,
    overflowing_run,
    overflowing_tokenize,
    unknown_trigger,
)
from collector.lab.faults.provoked import ANSWERED, CRASH, DEATH_DEADLINE, Expected, Provoked, Stage, closed
from collector.lab.reference.client import Request
from collector.lab.reference.conditions import asleep, exited
from collector.lab.reference.gguf import ModelSpec, cached_model

IDLE_SECONDS = 1
SLEEP_DEADLINE = 10.0


@dataclass(frozen=True)
class Content:
    """One telling request and what it must be diagnosed as. ``splitter``: it needs a byte-pair model."""

    name: str
    request: Request
    expected: Expected
    splitter: bool = False


def _overflow(name: str, request: Request, handler: str) -> Content:
    expected = Expected("SEGV-STACK", ("request",), ("awake",), None, (handler,))
    return Content(name, request, expected, splitter=True)


# Each runs through the very reader, under the very handler, of a sleep defect.
OVERFLOW_COMPLETION = _overflow("overflow-completion", overflowing_completion(), "handle_completions_impl")
OVERFLOW_TOKENIZE = _overflow("overflow-tokenize", overflowing_tokenize(), "tokenize")
OVERFLOW_COUNT = _overflow("overflow-count", count_tokens(overflowing_run()), "handle_count_tokens")
# In the queue loop's own thread: no handler is on that stack.
OVERFLOW_GRAMMAR = Content(
    "overflow-grammar", overflowing_grammar(), Expected("SEGV-STACK", ("request", "unknown"), ("awake",))
)
# GGML_ASSERT(false && "unknown trigger type") in the sampler's set-up, in the loop's thread.
ASSERTION = Content(
    "assert-trigger", unknown_trigger(), Expected("ABRT-ASSERT", ("request", "server"), ("awake",))
)


def provoke(stage: Stage, content: Content = OVERFLOW_COMPLETION, *, slept_before: bool = False) -> Provoked:
    """Send the request to a server that is awake.

    ``slept_before``: it has been to sleep and woken, so sleep lines stand in the same log, and still
    the request alone is to blame.
    """
    model = cached_model(ModelSpec(tokenizer="bpe")) if content.splitter else stage.base.model
    server = stage.start(model=model, idle_seconds=IDLE_SECONDS if slept_before else -1)
    notes: tuple[str, ...] = ()
    if slept_before:
        slept = server.wait_until(asleep, SLEEP_DEADLINE)
        server.get("/slots")  # wakes it, and counts as work
        notes = ("slept and woke before",) if slept else ("did not sleep in time",)
    answer = server.send(content.request)
    if answer.status is None:
        server.wait_until(exited, DEATH_DEADLINE)
    crashed = server.ending is not None
    outcome = CRASH if crashed else ANSWERED
    return closed(
        content.name + ("-slept-before" if slept_before else ""),
        content.expected,
        server,
        outcome,
        happened=crashed,
        answers=(answer,),
        notes=notes,
    )
