"""Servers that are slow and not stuck: a long load, a long prompt, a wake of a large model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from collector.lab.faults.hang_loop import PATIENCE, hanging
from collector.lab.faults.prompts import touch
from collector.lab.faults.provoked import Expected, Provoked, Stage
from collector.lab.reference.client import Request
from collector.lab.reference.conditions import asleep
from collector.lab.reference.gguf import ModelSpec, cached_model
from collector.lab.reference.ports import choose_port
from collector.lab.reference.server import RunningServer

LOADING = Expected("LOAD-SLOW", ("unknown",), ("loading",))
PREFILL = Expected("NOT-A-HANG", ("request",), ("awake",))
WAKING = Expected("NOT-A-HANG", ("wake",), ("waking",))
# Checked tensor by tensor 768 MiB take one second here; two looks a tenth of a second apart fit in.
LARGE = ModelSpec(padding_mib=768)
CHECKED: dict[str, Any] = {"check_tensors": True}
# 4,000 tokens (the models are capped at 4,096) through 15 million weights in batches of eight: about ten
# seconds on one thread, in which no token comes out.
WIDE = ModelSpec(embedding=512, layers=8, feed_forward=512)
CONTEXT, TOKENS, BATCH = 4_096, 4_000, 8
IDLE_SECONDS = 1
DEADLINE = 20.0


@contextmanager
def loading(stage: Stage) -> Iterator[Provoked]:
    """A server in its first load: /health answers 503. It is not waited for."""
    spec = _checked(stage)
    port = choose_port(None)
    stage.lab.folder.mkdir(parents=True, exist_ok=True)
    folder = stage.lab.folder / f"loading-{port}"
    folder.mkdir()
    with RunningServer(spec, folder, port, under_gdb=False) as server:
        seen = server.wait_until(lambda each: each.get("/health", timeout=1.0).status == 503, DEADLINE)
        client = server.begin(Request("GET", "/health", timeout=PATIENCE))
        yield hanging("LOAD-SLOW", LOADING, server, client, happened=seen)


def prefill(stage: Stage) -> Provoked:
    """A long prompt in small batches: no token comes out for many seconds, and the batches move."""
    server = stage.start(
        model=cached_model(WIDE),
        context=CONTEXT,
        parameters={**stage.base.parameters, "n_batch": BATCH, "n_ubatch": BATCH},
        arguments=(*stage.base.arguments, "-b", str(BATCH), "-ub", str(BATCH)),
    )
    body = {"prompt": [[5] * TOKENS], "n_predict": 1, "cache_prompt": False}
    client = server.begin(Request("POST", "/completion", body, timeout=PATIENCE))
    busy = server.wait_until(lambda each: each.output.count("processing task") > 0, DEADLINE)
    return hanging("NOT-A-HANG", PREFILL, server, client, happened=busy)


def waking(stage: Stage) -> Provoked:
    """A request to a sleeping server with a large model: /health answers and /props waits."""
    spec = _checked(stage)
    server = stage.lab.start(replace(spec, idle_seconds=IDLE_SECONDS))
    slept = server.wait_until(asleep, DEADLINE)
    client = server.begin(replace(touch(), timeout=PATIENCE))
    woke = server.wait_until(lambda each: each.output.count("exiting sleeping state") > 0, DEADLINE)
    return hanging("NOT-A-HANG", WAKING, server, client, happened=slept and woke)


def _checked(stage: Stage) -> Any:
    return replace(
        stage.base,
        model=cached_model(LARGE),
        parameters={**stage.base.parameters, **(CHECKED if stage.base.python else {})},
        arguments=(*stage.base.arguments, "--check-tensors"),
    )
