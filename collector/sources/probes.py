"""Gentle HTTP probes: routes that neither wake the model nor keep it awake, each call bounded.

GET /health never touches the queue. GET /props answers while asleep and blocks while the model is freed or
loaded. GET /metrics pokes the loop, resets the rate gauges of other scrapers and kept models awake before
b10519: only on request. GET /slots wakes and keeps awake: never (field notes section 2).
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ProbeFact, to_evidence
from collector.sources.http import PROBE_TIMEOUT, Answer, call
from collector.sources.target import Target

_GAUGE = re.compile(
    rb"^llamacpp:requests_(processing|deferred)(?:\{[^}\n]{0,200}\})? (\d{1,9})(?:\.0*)?\s*$", re.MULTILINE
)
_DECODES = re.compile(
    rb"^llamacpp:n_decode_total(?:\{[^}\n]{0,200}\})? (\d{1,15})(?:\.0*)?\s*$", re.MULTILINE
)
_MAX_PATH = 4096

_OUTCOMES = {
    "timeout": "no complete answer within {timeout:g} s",
    "refused": "no connection",
    "too-big": "answer over the size limit, dropped",
    "redirect": "a redirect, not followed",
    "garbage": "not an HTTP answer",
    "unexpected": "not what this route answers",
}


@dataclass(frozen=True)
class Probe:
    """One probe: the contract's fact, its ``outcome`` (as in Answer, or ``unexpected``) and its evidence.

    ``slots_enabled``, ``model_path`` and ``build`` are what /props says besides; server-printed, bounded.
    """

    fact: ProbeFact
    outcome: str
    evidence: Evidence
    slots_enabled: bool | None = None
    model_path: str | None = None
    build: str | None = None

    @property
    def blocked(self) -> bool:
        """No complete answer came in time: with /health fine, the model is being freed or loaded."""
        return self.outcome == "timeout"


def probe_health(
    target: Target, *, timeout: float = PROBE_TIMEOUT, incarnation: Incarnation | None = None
) -> Probe:
    """GET /health, without the key. 200 also while asleep, unloading and waking.

    Behind --api-prefix even this route demands the key (401 on b11368).
    """
    answer = call(target, "GET", "/health", authorized=bool(target.prefix), timeout=timeout)
    return _probe(target, "/health", answer, timeout, incarnation)


def probe_props(
    target: Target, *, timeout: float = PROBE_TIMEOUT, incarnation: Incarnation | None = None
) -> Probe:
    """GET /props: ``is_sleeping`` is True only while the model is freed and the loop waits."""
    answer = call(target, "GET", "/props", timeout=timeout)
    said = _object(answer) if answer.status == 200 else None
    fields = said or {}
    sleeping = fields.get("is_sleeping")
    probe = _probe(
        target,
        "/props",
        answer,
        timeout,
        incarnation,
        is_sleeping=sleeping if isinstance(sleeping, bool) else None,
        unexpected=answer.status == 200 and said is None,
    )
    slots, path, build = (fields.get(name) for name in ("endpoint_slots", "model_path", "build_info"))
    return Probe(
        probe.fact,
        probe.outcome,
        probe.evidence,
        slots_enabled=slots if isinstance(slots, bool) else None,
        model_path=path if isinstance(path, str) and len(path) <= _MAX_PATH else None,
        build=build if isinstance(build, str) and len(build) <= 100 and build.isprintable() else None,
    )


def probe_metrics(
    target: Target, *, timeout: float = PROBE_TIMEOUT, incarnation: Incarnation | None = None
) -> Probe:
    """GET /metrics. Call it only where the operator opted in: it is the one probe with side effects."""
    answer = call(target, "GET", "/metrics", timeout=timeout)
    gauges = {name.decode(): int(value) for name, value in _GAUGE.findall(answer.body)}
    return _probe(
        target,
        "/metrics",
        answer,
        timeout,
        incarnation,
        processing=gauges.get("processing"),
        deferred=gauges.get("deferred"),
        decodes=_decodes(answer.body),
        unexpected=answer.status == 200 and not gauges,
    )


def probe(
    target: Target,
    *,
    metrics: bool = False,
    timeout: float = PROBE_TIMEOUT,
    incarnation: Incarnation | None = None,
) -> list[Evidence]:
    """/health, /props and, when ``metrics``, /metrics: at most three times ``timeout`` seconds."""
    probes = [probe_health, probe_props, *([probe_metrics] if metrics else [])]
    return [ask(target, timeout=timeout, incarnation=incarnation).evidence for ask in probes]


def _decodes(body: bytes) -> int | None:
    found = _DECODES.search(body)
    return int(found[1]) if found else None


def _object(answer: Answer) -> dict[str, object] | None:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _probe(
    target: Target,
    route: str,
    answer: Answer,
    timeout: float,
    incarnation: Incarnation | None,
    *,
    is_sleeping: bool | None = None,
    processing: int | None = None,
    deferred: int | None = None,
    decodes: int | None = None,
    unexpected: bool = False,
) -> Probe:
    outcome = "unexpected" if unexpected and answer.outcome == "answered" else answer.outcome
    fact = ProbeFact(
        route=route,
        status=answer.status,
        seconds=round(answer.seconds, 6),
        timeout=timeout,
        is_sleeping=is_sleeping,
        requests_processing=processing,
        requests_deferred=deferred,
        decodes=decodes,
        outcome=outcome,
    )
    return Probe(fact, outcome, _evidence(target, fact, outcome, incarnation))


def _evidence(target: Target, fact: ProbeFact, outcome: str, incarnation: Incarnation | None) -> Evidence:
    mono = time.monotonic()
    return to_evidence(
        fact,
        id=f"probe{fact.route.replace('/', '-')}-{int(mono * 1000)}",
        source=f"probe, {target.name}",
        text=f"GET {fact.route}: {_reading(fact, outcome)}",
        trust=Trust.SERVER,
        wall=time.time(),
        mono=mono,
        incarnation=incarnation,
    )


def _reading(fact: ProbeFact, outcome: str) -> str:
    if outcome in _OUTCOMES:
        status = f"{fact.status}, " if fact.status is not None else ""
        return status + _OUTCOMES[outcome].format(timeout=fact.timeout)
    parts = [str(fact.status)]
    if fact.is_sleeping is not None:
        parts.append(f"is_sleeping {str(fact.is_sleeping).lower()}")
    if fact.requests_processing is not None:
        parts.append(f"{fact.requests_processing} processing")
    if fact.requests_deferred is not None:
        parts.append(f"{fact.requests_deferred} deferred")
    return ", ".join(parts)
