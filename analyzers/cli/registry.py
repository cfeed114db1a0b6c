"""Verbs by name, loaded when used, so that no verb pays for another one's imports."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analyzers.errors import EXIT_FAILED, EXIT_UNUSABLE, UserError


@dataclass(frozen=True)
class Verb:
    """One verb: where its typer application stands and which optional packages it needs."""

    name: str
    target: str  # "module:attribute" of a typer.Typer
    help: str
    extra: str | None = None
    needs: tuple[str, ...] = ()
    plain: str | None = None  # "module:function" that may carry out simple arguments without typer
    failure_status: int = EXIT_FAILED  # of everything that goes wrong, where 1 already is an answer

    @property
    def missing(self) -> tuple[str, ...]:
        """Top-level packages of the extra that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)

    @property
    def install_line(self) -> str:
        from analyzers.cli.extras import install_line  # metadata is read only when something is missing

        return install_line(self.extra or "")

    def load(self) -> Any:
        """The verb's typer application. Raises UserError when its extra is missing."""
        if self.missing:
            raise UserError(
                f"the verb needs {', '.join(self.missing)} (llama-blackbox[{self.extra}])",
                where=f"llama-blackbox {self.name}",
                remedy=f"run: {self.install_line}",
            )
        return _attribute(self.target)

    def load_plain(self) -> Callable[[list[str]], int | None]:
        """Takes the arguments; gives the exit status, or None when they need the application."""
        plain: Callable[[list[str]], int | None] = _attribute(self.plain) if self.plain else _never
        return plain


def _never(args: list[str]) -> None:
    return None


def _attribute(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


LAB_PACKAGES = ("gguf", "httpx", "numpy")
VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "triage",
            "analyzers.cli.verbs.triage:app",
            "say what happened, from cores, logs, journals, traces",
            plain="analyzers.cli.triaging:plainly",
        ),
        Verb(
            "collect",
            "collector.gather.cli:app",
            "gather what this host knows of a death or a hang into one file",
        ),
        Verb(
            "symbols",
            "collector.symbols.cli:app",
            "fetch symbol files by build-id, when told to, into this user's cache",
        ),
        Verb(
            "check",
            "collector.check.cli:app",
            "is this host exposed, and would a crash leave evidence (--cores)",
            failure_status=EXIT_UNUSABLE,
        ),
        Verb(
            "capture",
            "collector.capture.cli:app",
            "keep what a dying server leaves: install, list, bundle, import …",
        ),
        Verb(
            "incidents",
            "collector.incidents.cli:app",
            "what the agent has seen on this host: list, show, open, export",
            failure_status=EXIT_UNUSABLE,
        ),
        Verb(
            "status",
            "collector.status.cli:app",
            "what every server of this host is doing, as the agent sees it",
        ),
        Verb(
            "watch",
            "collector.agent.cli:app",
            "watch every llama-server of this host and disturb none: the agent",
            "agent",
            ("httpx",),
            plain="collector.agent.command:plainly",
        ),
        Verb(
            "watch-helper",
            "collector.agent.helper.cli:app",
            "do for an unprivileged agent what only root may",
        ),
        Verb("explain", "analyzers.cli.verbs.explain:app", "what a class, defect, cause or phase means"),
        Verb(
            "demo",
            "collector.lab.demo.cli:app",
            "crash and strand real servers, then diagnose them",
            "lab",
            LAB_PACKAGES,
        ),
        Verb(
            "reference",
            "collector.lab.reference.cli:app",
            "run a real llama-server on a tiny model, to try things on",
            "lab",
            LAB_PACKAGES,
        ),
        Verb(
            "verify",
            "collector.lab.verify.cli:app",
            "show a defect on a real server, or bound how often it can be there",
            "lab",
            LAB_PACKAGES,
            failure_status=EXIT_UNUSABLE,
        ),
    )
}


def find(name: str) -> Verb:
    """The verb called ``name``. Raises UserError with the nearest names."""
    if name in VERBS:
        return VERBS[name]
    from difflib import get_close_matches

    near = get_close_matches(name, VERBS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "see llama-blackbox --help"
    raise UserError("there is no such verb", where=f"llama-blackbox {name[:40]!r}", remedy=hint)


def failure_status(args: list[str]) -> int:
    """Status of a failure of the verb that ``args`` name; 1 unless that verb says otherwise."""
    verb = VERBS.get(args[0]) if args else None
    return verb.failure_status if verb else EXIT_FAILED
