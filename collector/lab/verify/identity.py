"""Recognises a subject by what its binary shows, before what it calls itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from analyzers.catalogue.builds import build_number_of
from analyzers.catalogue.loader import catalogue
from analyzers.contracts.trials import Subject
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_marks
from analyzers.errors import UserError
from collector.lab.reference.output import printable

# --version loads no model; a program that is no llama-server must not hold us.
VERSION_DEADLINE = 20.0
LIBRARY = "xllamacpp*.so"


def identify_hosted(version: str, python: Path) -> Subject:
    """The wheel in ``python``'s environment. The build is the catalogue's, or the version's last part."""
    library = wheel_library(python)
    build_id = build_id_of_file(library) if library else None
    known = catalogue().known_build(build_id)
    build = known.build if known else build_number_of(version)
    name = f"b{build} (xllamacpp {version})" if build else f"xllamacpp {version}"
    return Subject(
        kind="hosted", name=name, version=version, build=build, build_id=build_id, marks=marks_of(library)
    )


def wheel_library(python: Path) -> Path | None:
    """The wheel's server library: one ``.abi3.so`` under the environment's site-packages."""
    found = sorted(python.parent.parent.glob(f"lib/python*/site-packages/**/{LIBRARY}"))
    return found[0] if found else None


def identify_native(binary: Path) -> Subject:
    """A llama-server binary by its build-id, its names and what it prints for --version.

    Raises UserError when it cannot be run, or its answer is not a llama-server's.
    """
    text = _version_text(binary)
    number = build_number_of(text)
    name = f"b{number} ({binary.name})" if number else binary.name
    return Subject(
        kind="native",
        name=name,
        version=text,
        build=number,
        build_id=build_id_of_file(binary),
        marks=marks_of(binary),
    )


def marks_of(binary: Path | None) -> dict[str, str]:
    """Defect id -> affected | fixed, from the symbol names; empty for a stripped or missing file."""
    found = find_marks(binary) if binary is not None else ()
    return {mark.defect: "affected" if mark.affected else "fixed" for mark in found}


def _version_text(binary: Path) -> str:
    if not binary.is_file():
        raise UserError("no such file", where=str(binary), remedy="give the path of a llama-server binary")
    try:
        done = subprocess.run(
            [str(binary), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_server(binary, type(error).__name__) from None
    text = done.stdout.decode(errors="replace")
    found = re.search(r"^version: .*$", text, re.MULTILINE)
    if found is None:
        raise _no_server(binary, f"--version printed {printable(text.strip()[:60])!r}")
    return printable(found.group(0))


def _no_server(binary: Path, why: str) -> UserError:
    return UserError(
        f"not a llama-server that runs here ({why})",
        where=str(binary),
        remedy="give the path of a llama-server",
    )
