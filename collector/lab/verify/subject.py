"""Which server is put to the test, and what is known about it before the first trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.trials import Subject
from analyzers.errors import UserError
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.identity import identify_hosted, identify_native

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What the user named: one of a wheel's version, a binary, or a reference build (with fix, ASan)."""

    version: str | None = None
    server_bin: Path | None = None
    build: int | None = None
    fix: str | None = None
    asan: bool = False
    model: Path | None = None


@dataclass(frozen=True)
class Chosen:
    """``subject`` goes into the record; ``spec`` starts it, methods change what they need by ``replace``."""

    subject: Subject
    spec: ServerSpec


def choose(wanted: Wanted, say: Say) -> Chosen:
    """The server to test, made ready. Raises UserError when none, or more than one, is named."""
    named = [wanted.version, wanted.server_bin, wanted.build]
    if sum(each is not None for each in named) > 1:
        raise UserError(
            "more than one server is named",
            where="verify",
            remedy="give one of --version, --server-bin, --build",
        )
    if wanted.build is None and (wanted.fix is not None or wanted.asan):
        raise UserError(
            "--fix and --asan need a reference build",
            where="verify",
            remedy="add --build N, for example 11368",
        )
    model = wanted.model or cached_model()
    if wanted.build is not None:
        return _reference(wanted, model, say)
    if wanted.server_bin is not None:
        spec = ServerSpec(model=model, binary=wanted.server_bin)
        return Chosen(identify_native(wanted.server_bin), spec)
    version = wanted.version or UNLOAD_VERSION
    python = prepare(version, progress=say)
    return Chosen(identify_hosted(version, python), ServerSpec(model=model, python=python))


def _reference(wanted: Wanted, model: Path, say: Say) -> Chosen:
    from collector.lab.native.build import Recipe, prepare_build

    assert wanted.build is not None  # noqa: S101 - checked by the caller
    made = prepare_build(Recipe(wanted.build, wanted.fix, wanted.asan), progress=say)
    subject = identify_native(made.binary)
    known = {"build": wanted.build, "fix": wanted.fix, "asan": wanted.asan, "name": made.name}
    spec = ServerSpec(model=model, binary=made.binary, environment=made.environment)
    return Chosen(subject.model_copy(update=known), spec)
