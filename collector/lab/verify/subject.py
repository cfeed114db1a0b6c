"""Which server is put to the test, and what is known about it before the first trial."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analyzers.contracts.trials import Subject
from analyzers.core.files import opened_regular, pread
from analyzers.errors import UserError
from collector.lab.native.recipe import ASAN_OPTIONS
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.identity import identify_hosted, identify_native

Say = Callable[[str], None]
GGUF_MAGIC = b"GGUF"
# What a server that does not come up says, and what that means. Shapes: b11368's and b11549's own words.
NO_SLEEP_MODE = re.compile(
    r"invalid argument: --sleep-idle-seconds|does not know the parameter .*sleep_idle_seconds"
)
NO_MODEL = re.compile(
    r"gguf_init|failed to (load|open) (the )?(model|GGUF)|unable to load model|model loading error"
)
FAILED_STARTS = (
    (
        NO_SLEEP_MODE,
        "this server has no sleep mode (it refuses --sleep-idle-seconds)",
        "give a build that has one; upstream added it in December 2025",
    ),
    (
        NO_MODEL,
        "the server cannot load the model",
        "check that the model file is whole and of a kind this build knows; without --model one is made",
    ),
    (
        re.compile(r"died of SIG(KILL|TERM|INT|HUP|XCPU)\b"),
        "the server was ended from outside while it started (out of memory, or another process)",
        "free some memory (dmesg names what the kernel killed), then run it again",
    ),
    (
        re.compile(r"couldn't bind|[Aa]ddress already in use"),
        "the server's port was taken by another program at the last moment",
        "run it again",
    ),
)


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
    """The server to test, made ready. Raises UserError when none, or more than one, is named, and when
    the binary or the model cannot be one."""
    demand_one(wanted)
    model = cached_model() if wanted.model is None else demanded_model(wanted.model)
    if wanted.build is not None:
        return _reference(wanted, model, say)
    if wanted.server_bin is not None:
        # servers run in folders of their own, where a relative path leads nowhere
        binary = wanted.server_bin.absolute()
        say(f"asking {binary.name} for its version")
        known = identify_native(binary)
        environment = {"ASAN_OPTIONS": ASAN_OPTIONS} if known.asan else {}
        return Chosen(known, ServerSpec(model=model, binary=binary, environment=environment))
    version = wanted.version or UNLOAD_VERSION
    python = prepare(version, progress=say)
    return Chosen(identify_hosted(version, python), ServerSpec(model=model, python=python))


def demand_one(wanted: Wanted) -> None:
    """Raises UserError unless at most one server is named, with nothing that belongs to another kind."""
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


def demanded_model(path: Path) -> Path:
    """The absolute path of a GGUF. Raises UserError when the file cannot be read or is none."""
    with opened_regular(path) as descriptor:
        head = pread(descriptor, len(GGUF_MAGIC), 0)
    if head != GGUF_MAGIC:
        raise UserError("not a GGUF model", where=str(path), remedy="give a GGUF file, or leave --model out")
    return path.absolute()


def explained(error: UserError, model: Path | None = None) -> UserError:
    """``error``, or a plainer one where a server that did not come up said why.

    ``model``: the file it was given; what a server cannot load is the file's fault, not the program's.
    """
    for pattern, what, remedy in FAILED_STARTS:
        if pattern.search(error.what):
            where = str(model) if model is not None and pattern is NO_MODEL else error.where
            return UserError(f"{what}: {error.what}", where=where, remedy=remedy)
    return error


def named(error: UserError, chosen: Chosen) -> UserError:
    """``error``, said of a wheel's server by its own name, not by the interpreter that hosts it."""
    if chosen.spec.python is None or error.where != str(chosen.spec.python):
        return error
    return UserError(error.what, where=chosen.subject.name, remedy=error.remedy)


def no_sleep_mode(name: str) -> UserError:
    """What is said of the build called ``name``, of which nothing can be tried."""
    _, what, remedy = FAILED_STARTS[0]
    return UserError(what, where=name, remedy=remedy)


def _reference(wanted: Wanted, model: Path, say: Say) -> Chosen:
    from collector.lab.native.build import Recipe, prepare_build

    assert wanted.build is not None  # noqa: S101 - checked by the caller
    made = prepare_build(Recipe(wanted.build, wanted.fix, wanted.asan), progress=say)
    subject = identify_native(made.binary)
    stock = wanted.fix is None
    known = {"build": wanted.build, "fix": wanted.fix, "asan": wanted.asan, "name": made.name, "stock": stock}
    spec = ServerSpec(model=model, binary=made.binary, environment=made.environment)
    return Chosen(subject.model_copy(update=known), spec)
