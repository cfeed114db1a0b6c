"""Releases a stranded request by waking the server once. Never called by anything but an explicit order.

Measured on b11549: POST /tokenize, GET /slots (a 501 where it is disabled), POST /props (501), POST
/slots/0 (501), GET /lora-adapters and POST /detokenize all wake, in 6-12 ms with a tiny model. The first,
with ``{}``, passes the barrier and then reads neither the vocabulary nor the queue, needs no endpoint
enabled and answers 200. GET /slots posts a task of its own and, in some builds, answers with prompts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ActionFact, ModelFileFact, to_evidence
from collector.sources.http import Answer, call
from collector.sources.modelfile import look_again, look_at_model
from collector.sources.probes import Probe, probe_props
from collector.sources.procfs import read_incarnation
from collector.sources.sockdiag import TCP_ESTABLISHED, TcpSample, read_connections
from collector.sources.sockets import same_request
from collector.sources.stranded import Stranded
from collector.sources.target import Target

ACTION = "release-stranded"
# A large model takes a minute and more to load again; the server holds our call until it has.
WAKE_TIMEOUT = 300.0
ANSWER_TIMEOUT = 30.0
_LOOK_EVERY = 0.1  # seconds; one look costs 2-3 ms of kernel time

_TCP_CLOSE_WAIT = 8
_ALIVE = 1 << TCP_ESTABLISHED | 1 << 4 | 1 << 5 | 1 << _TCP_CLOSE_WAIT | 1 << 9  # both FIN_WAITs, LAST_ACK

WAKERS: dict[str, tuple[str, str, object]] = {
    "tokenize": ("POST", "/tokenize", {}),
    "props": ("POST", "/props", {}),
    "slots": ("GET", "/slots", None),
}
# Behind the barrier: success, a refused body, an internal error, a disabled endpoint. A refused key (401),
# an unknown route (404) and a loading server (503) are answered before the handler runs.
_WOKE = (200, 400, 500, 501)


@dataclass(frozen=True)
class Hands:
    """What the release acts and looks with; tests put their own in."""

    props: Callable[[Target], Probe] = probe_props
    connections: Callable[..., list[TcpSample]] = read_connections
    call: Callable[..., Answer] = call
    sleep: Callable[[float], None] = time.sleep
    mono: Callable[[], float] = time.monotonic


def release_stranded(
    stranded: Stranded,
    *,
    files: Sequence[ModelFileFact] = (),
    waker: str = "tokenize",
    wake_timeout: float = WAKE_TIMEOUT,
    answer_timeout: float = ANSWER_TIMEOUT,
    hands: Hands | None = None,
) -> Evidence:
    """Wake the server once and see the waiting clients answered. ``files`` is an earlier look at the model.

    Outcomes of the ActionFact: ``released`` (every client answered or gone), ``woken`` (awake, an answer
    still under way after ``answer_timeout``), ``abandoned`` (a client left first), ``nothing-to-release``,
    ``refused`` (a model file is missing, changed, unreadable or not known: the reload would abort the
    server), ``failed`` (the one call did not wake it; there is no second). ``seconds`` runs from the call.
    """
    release = _Release(stranded, hands or Hands(), waker)
    reason = release.reason_not_to(files)
    if reason is not None:
        return release.evidence(*reason)
    return release.evidence(*release.act(wake_timeout, answer_timeout))


class _Release:
    def __init__(self, stranded: Stranded, hands: Hands, waker: str) -> None:
        self._stranded = stranded
        self._target = stranded.target
        self._hands = hands
        self._waker = waker
        self._seconds: float | None = None

    def reason_not_to(self, files: Sequence[ModelFileFact]) -> tuple[str, str] | None:
        """(outcome, reason) that forbids or saves the call, None when it may be made."""
        probe = self._hands.props(self._target)
        if probe.fact.is_sleeping is False:
            return "nothing-to-release", "the server is awake"
        if probe.blocked:
            return "nothing-to-release", "the server is loading or freeing its model"
        waiting = self._hands.connections(self._target.port)
        if not any(same_request(old, new) for old in self._stranded.connections for new in waiting):
            return "nothing-to-release", "no client waits any more"
        return _bad_files(self._files(files, probe))

    def _files(self, seen: Sequence[ModelFileFact], probe: Probe) -> list[ModelFileFact]:
        if seen:
            return look_again(seen, pid=self._target.pid)
        return look_at_model([probe.model_path] if probe.model_path else [], pid=self._target.pid)

    def act(self, wake_timeout: float, answer_timeout: float) -> tuple[str, str]:
        """Make the one call, then watch the clients. (outcome, what happened)."""
        method, path, body = WAKERS[self._waker]
        began = self._hands.mono()
        answer = self._hands.call(self._target, method, path, json_body=body, timeout=wake_timeout)
        self._seconds = self._hands.mono() - began
        named = f"{method} {path}"
        # An answer too big for us is an answer all the same.
        if answer.status not in _WOKE:
            return "failed", f"{named}: {answer.status or answer.outcome}; not tried again"
        outcome = self._watch(answer_timeout)
        self._seconds = self._hands.mono() - began
        return outcome, f"{named} woke it in {answer.seconds:.3f} s"

    def _watch(self, timeout: float) -> str:
        until = self._hands.mono() + timeout
        while True:
            states = self._client_states()
            if "waiting" not in states:
                return "abandoned" if "abandoned" in states else "released"
            if self._hands.mono() >= until:
                return "woken"
            self._hands.sleep(_LOOK_EVERY)

    def _client_states(self) -> set[str]:
        now = {tcp.cookie: tcp for tcp in self._hands.connections(self._target.port, states=_ALIVE)}
        return {client_state(old, now.get(old.cookie)) for old in self._stranded.connections}

    def evidence(self, outcome: str, reason: str) -> Evidence:
        """The action as evidence, the collector's own word."""
        fact = ActionFact(action=ACTION, outcome=outcome, seconds=self._seconds)
        mono = time.monotonic()
        pid = self._target.pid
        took = "" if self._seconds is None else f" after {self._seconds:.3f} s"
        return to_evidence(
            fact,
            id=f"{ACTION}-{int(mono * 1000)}",
            source=f"action, {self._target.name}",
            text=f"release of a stranded request: {outcome}{took} ({reason})",
            trust=Trust.SUPERVISOR,
            wall=time.time(),
            mono=mono,
            incarnation=read_incarnation(pid) if pid is not None else None,
        )


def client_state(before: TcpSample, now: TcpSample | None) -> str:
    """``answered`` (bytes went back, or the connection is over), ``abandoned`` (it hung up), ``waiting``."""
    if now is None or now.bytes_sent != before.bytes_sent:
        return "answered"
    return "abandoned" if now.state == _TCP_CLOSE_WAIT else "waiting"


def _bad_files(files: Sequence[ModelFileFact]) -> tuple[str, str] | None:
    if not files:
        return "refused", "the model file is not known, a failed reload would abort the server"
    bad = next((file for file in files if file.state != "present"), None)
    if bad is None:
        return None
    return "refused", f"a model file is {bad.state}, the reload would abort the server"
