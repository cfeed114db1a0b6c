"""Redaction: secrets and clients' words out, evidence in. The last step before anything leaves the tool.

Taken out: keys, tokens and passwords (options, variables, headers, URLs, JSON, private key blocks, shapes of
tokens), prompts and generated text, e-mail and public IP addresses, account names in home paths
(``/home/NAME/`` becomes ``/home/~/``). Kept: everything a verdict rests on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from re import Pattern
from typing import TypeVar

from pydantic import BaseModel

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Report
from analyzers.privacy.arguments import (
    clean_args,
    clean_env,
    clean_env_text,
    secrets_in_args,
    secrets_in_env,
)
from analyzers.privacy.blocks import blocks
from analyzers.privacy.patterns import ASCII_MARKER, MARKER
from analyzers.privacy.secrets import pattern_of, usable
from analyzers.privacy.text import ascii_safe, clean_text
from analyzers.privacy.walk import FIXED, clean_model

__all__ = ["ASCII_MARKER", "MARKER", "Redactor", "ascii_safe", "redact_args", "redact_env", "redact_text"]

M = TypeVar("M", bound=BaseModel)
# Three of four strings of a report stand in it more than once (modules, frames, sources). Together these
# bound the memory: four million characters at most.
SHORT = 4096  # characters of a text that is remembered
REMEMBERED = 1024  # texts


@dataclass(frozen=True)
class Redactor:
    """The rules plus the secrets known from this input. Immutable: ``knowing`` gives a wiser one."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @cached_property
    def _pattern(self) -> Pattern[str] | None:
        return pattern_of(self.secrets)

    @cached_property
    def _short(self) -> Callable[[str], str]:
        pattern = self._pattern
        return lru_cache(maxsize=REMEMBERED)(lambda text: clean_text(text, pattern))

    def knowing(
        self,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        command: str | None = None,
        values: Iterable[str] = (),
    ) -> Redactor:
        """A redactor that also removes the keys given in an argument list, an environment (names that say
        key, token, secret or password), a command line in one string, or outright."""
        split = _split(command) if command else []
        found = [*secrets_in_args(args), *secrets_in_args(split), *secrets_in_env(env or {}), *values]
        return Redactor(self.secrets | usable(found))

    def text(self, text: str) -> str:
        """``text`` of any size redacted, in time proportional to its length; idempotent."""
        return self._short(text) if len(text) <= SHORT else clean_text(text, self._pattern)

    def pieces(self, pieces: Iterable[str]) -> Iterator[str]:
        """A long text in pieces (any cut), redacted in flat memory."""
        for block in blocks(pieces):
            yield self.text(block)

    def args(self, args: Sequence[str]) -> list[str]:
        """An argument list, of the same length."""
        return clean_args(args, self.text)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """An environment: all names, and the values of the variables that are evidence."""
        return clean_env(env, self.text)

    def env_text(self, text: str, separator: str = "\0") -> str:
        """``NAME=value`` entries joined by ``separator``."""
        return clean_env_text(text, separator, self.text)

    def report(self, report: Report) -> Report:
        """Every string of a report but its ids and closed vocabularies (``analyzers.privacy.walk.FIXED``)."""
        return clean_model(report, self.text)

    def evidence(self, evidence: Evidence) -> Evidence:
        """One fact, its payload included."""
        return clean_model(evidence, self.text)

    def part(self, model: M, keep: frozenset[str] = frozenset()) -> M:
        """Any other model; ``keep`` names those of its own fields that are ids."""
        return clean_model(
            model, self.text, {**FIXED, type(model): keep | FIXED.get(type(model), frozenset())}
        )


def _split(command: str) -> list[str]:
    """Words of a command line; a cut or oddly quoted one is split at blanks."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


_PLAIN = Redactor()


def redact_args(args: Sequence[str]) -> list[str]:
    """``Redactor.args`` without known secrets."""
    return _PLAIN.args(args)


def redact_env(env: Mapping[str, str]) -> dict[str, str]:
    """``Redactor.env`` without known secrets."""
    return _PLAIN.env(env)


def redact_text(text: str) -> str:
    """``Redactor.text`` without known secrets."""
    return _PLAIN.text(text)
