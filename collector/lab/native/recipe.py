"""What is built: a build number or one's own tree, with or without a fix, plain or with AddressSanitizer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError

# Build numbers of llama.cpp have five digits in 2026; the bound keeps a typing error out of pip.
LARGEST_BUILD = 999_999
SERVER_TARGET = "llama-server"
# Static, so that one file can be handed on; optimised with debug info, so that stacks have lines. Neither the
# web page, nor TLS, nor OpenMP is needed; GGML_NATIVE off, so that the binary runs on another machine.
FLAGS = (
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_WEBUI=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
)
# Of the two switches only llama.cpp's own: it covers server, common and llama; the tensor library stays as it
# is, as none of the defects frees its memory and instrumenting it doubles the time of every trial.
ASAN_FLAGS = ("-DLLAMA_SANITIZE_ADDRESS=ON",)
# A report ends the process by SIGABRT, with a core, and goes to standard error, where the server's log is.
# A leak check at exit is not what is asked and needs ptrace; a null for a huge size is the server's affair.
ASAN_OPTIONS = (
    "abort_on_error=1:disable_coredump=0:detect_leaks=0:handle_segv=1:handle_sigbus=1:handle_abort=0:"
    "allocator_may_return_null=1:symbolize=1:color=never"
)

COMPILERS = {"CC": "C", "CXX": "CXX"}  # the variable that names one, and cmake's word for its language


@dataclass(frozen=True)
class Recipe:
    """One reference build. ``source`` is a llama.cpp tree of the user's own; ``build`` is then only its name
    (0 when not known). ``fix`` names a patch of ours."""

    build: int
    fix: str | None = None
    asan: bool = False
    source: Path | None = None

    @property
    def name(self) -> str:
        """As a person names it: ``b11138+read-after-barrier``, ``b11368 (ASan)``."""
        return described(f"b{self.build}", self.fix, self.asan)

    def check(self) -> None:
        """Raises UserError for a build number that cannot be one."""
        lowest = 0 if self.source is not None else 1
        if not lowest <= self.build <= LARGEST_BUILD:
            raise UserError(
                "not a llama.cpp build number", where=f"--build {self.build}", remedy="give one like 11368"
            )


def described(base: str, fix: str | None, asan: bool) -> str:
    return base + (f"+{fix}" if fix else "") + (" (ASan)" if asan else "")


def flavour(recipe: Recipe) -> str:
    return "asan" if recipe.asan else "plain"


def cmake_flags(recipe: Recipe, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The -D options, the compilers a user names by CC and CXX included: they decide what comes out."""
    named = [
        f"-DCMAKE_{language}_COMPILER={environment[variable]}"
        for variable, language in COMPILERS.items()
        if environment.get(variable)
    ]
    return (*FLAGS, *(ASAN_FLAGS if recipe.asan else ()), *named)


def run_environment(recipe: Recipe) -> dict[str, str]:
    """What a server of this build needs in its environment."""
    return {"ASAN_OPTIONS": ASAN_OPTIONS} if recipe.asan else {}


def digest(*parts: object) -> str:
    """Twelve hexadecimal digits of the SHA-256 over ``parts``, for names of folders."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
