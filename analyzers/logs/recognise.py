"""One raw line of any text evidence to a fact with its trust, or None. The order is fixed and short.

Trust comes from where the line stands: kernel and supervisor wording is believed only when the whole
file has the transport's form (a kernel log, a journal's short form); in a server's own log a prompt
could have put it there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AbortFact, ExitFact, KernelFact, LogFact
from analyzers.logs import describe, grammar
from analyzers.logs.aborts import parse_abort
from analyzers.logs.kernel import parse_kernel_body
from analyzers.logs.prefix import Prefix, strip
from analyzers.logs.supervisor import parse_supervisor_line
from analyzers.logs.telling import FATAL, LIFE
from analyzers.logs.text import decode, visible

OUTSIDE = "outside"  # the group of facts that are not the server's own: kernel, supervisor, shell
FORM_LINES = 64  # lines that decide a file's form
FORM_SHARE = 0.8  # most lines must carry the wrapper; the rest may be continuation lines

_SUPERVISORS = frozenset(
    {"systemd", "systemd-coredump", "systemd-coredum", "dockerd", "containerd", "podman", "kubelet"}
)
# The same two in journalctl -o with-unit, which puts the journal's own unit where a program's name stands.
# Not docker.service: what containers print comes under its name as well.
_MANAGER_UNIT = re.compile(r"(?:.{1,200}/)?init\.scope|systemd-coredump@[\w.-]{1,80}\.service")
ENGINES = frozenset({"compose", describe.FORM})  # forms in which a bare line is the engine's own
_LEVEL = re.compile(r"(?:\d{1,9}\.\d\d\.\d{3}\.\d{3} )?(?:[IWE] )?")
_SECOND_INTERRUPT = "Received second interrupt, terminating immediately."


@dataclass(frozen=True)
class Found:
    """A recognised line before it becomes Evidence. ``elapsed`` s, ``wall`` Unix s, ``mono`` s since boot."""

    fact: LogFact | AbortFact | KernelFact | ExitFact
    group: str
    shown: str
    trust: Trust
    prefix: Prefix
    elapsed: float | None = None
    wall: float | None = None


def form_of(lines: Iterable[str]) -> str | None:
    """The wrapper form most of the first lines carry (``Prefix.form``), or None for a bare log."""
    forms = Counter(strip(line)[0].form for line in lines if line.strip() and not line.startswith("-- "))
    total = sum(forms.values())
    form, count = forms.most_common(1)[0] if forms else (None, 0)
    return form if count >= FORM_SHARE * max(total, 1) else None


def recognise(raw: bytes, form: str | None = None) -> Found | None:
    """The fact of one raw line, given the form of its file. Never raises."""
    prefix, body = strip(decode(raw))
    if prefix.form == "syslog" and prefix.name == "kernel" and prefix.pid is None:
        return _kernel(body, prefix, form)
    if prefix.form == "dmesg":
        return _kernel(body, prefix, form)
    if prefix.form == "syslog" and _is_supervisor(prefix.name or ""):
        return _supervisor(body, prefix, Trust.SUPERVISOR if form == "syslog" else Trust.CLIENT)
    if form in ENGINES and prefix.form is None:
        # compose puts a container's name before every line of its output, so a bare line is compose's own.
        told = _supervisor(body, prefix, Trust.SUPERVISOR)
        if told is not None and isinstance(told.fact, ExitFact) and told.fact.by == "docker":
            return told
    return recognise_body(body, prefix)


def _is_supervisor(name: str) -> bool:
    return name in _SUPERVISORS or _MANAGER_UNIT.fullmatch(name) is not None


def recognise_body(body: str, prefix: Prefix) -> Found | None:
    """The fact of what the server's own streams carry: its log, its abort text, its shell, its router."""
    line = grammar.parse_line(body)
    told = grammar.recognise(line, prefix.port) if line is not None else None
    if line is not None and told is not None:
        wall = prefix.wall if prefix.wall is not None else line.wall
        return Found(told.fact, told.group, told.shown, Trust.SERVER, prefix, line.elapsed, wall)
    return _raw(body, prefix)


def _raw(body: str, prefix: Prefix) -> Found | None:
    elapsed = grammar.elapsed_of(body)
    text = body[_end_of_level(body) :]
    if text == _SECOND_INTERRUPT:
        fact = LogFact(event="stopping", port=prefix.port)
        return Found(fact, LIFE, text, Trust.SERVER, prefix, elapsed, prefix.wall)
    aborted = parse_abort(text)
    if aborted is not None:
        return Found(aborted.fact, FATAL, aborted.shown, Trust.SERVER, prefix, elapsed, prefix.wall)
    return _exit(text, prefix, elapsed) or _kernel_text(text, prefix)


def _end_of_level(body: str) -> int:
    match = _LEVEL.match(body)
    return match.end() if match else 0


def _exit(text: str, prefix: Prefix, elapsed: float | None) -> Found | None:
    fact = parse_supervisor_line(text)
    if fact is None:
        return None
    own = fact.by in ("shell", "ollama") or (
        fact.by == "router" and prefix.port is None
    )  # no child speaks as its router
    trust = Trust.SERVER if own else Trust.CLIENT
    return Found(fact, OUTSIDE, _exit_text(fact, text), trust, prefix, elapsed, prefix.wall)


def _supervisor(body: str, prefix: Prefix, trust: Trust) -> Found | None:
    fact = parse_supervisor_line(body)
    if fact is None:
        return None
    return Found(fact, OUTSIDE, _exit_text(fact, body), trust, prefix, None, prefix.wall)


def _exit_text(fact: ExitFact, text: str) -> str:
    if fact.by == "shell":
        return text.partition("  ")[0]
    if fact.by == "ollama":
        return "ollama: its runner has terminated" + (f", signal {fact.signal}" if fact.signal else "")
    if fact.by == "router":
        return " ".join(text.split())  # its function's name is padded
    return text.partition("\n")[0]


def _kernel(body: str, prefix: Prefix, form: str | None) -> Found | None:
    fact = parse_kernel_body(body)
    if fact is None:
        return None
    trust = Trust.KERNEL if form == prefix.form else Trust.CLIENT
    return Found(fact, OUTSIDE, body, trust, prefix, None, prefix.wall)


def _kernel_text(text: str, prefix: Prefix) -> Found | None:
    fact = parse_kernel_body(text)
    return None if fact is None else Found(fact, OUTSIDE, text, Trust.CLIENT, prefix, None, prefix.wall)


def safe_text(found: Found) -> str:
    """The evidence text: only what our pattern matched, control characters spelled out, cut."""
    return visible(found.shown)


def stamp_of(raw: bytes) -> float | None:
    """Elapsed seconds of a raw line of any era; None when it has no stamp of that kind."""
    return body_stamp(strip(decode(raw))[1])


def body_stamp(body: str) -> float | None:
    """The same for a line whose wrappers are gone."""
    if body.startswith("{"):
        line = grammar.parse_line(body)
        return line.elapsed if line is not None else None
    return grammar.elapsed_of(body)
