"""Recognises a subject by what its binary shows, before what it calls itself."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from analyzers.catalogue.builds import build_number_of
from analyzers.catalogue.loader import catalogue
from analyzers.catalogue.model import Sign
from analyzers.contracts.trials import Subject
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_names
from analyzers.errors import UserError
from collector.lab.reference.output import printable
from collector.lab.verify.program import Said, ask, demand_program

# --version loads no model; a program that is no llama-server must not hold us. A build with debug
# information and a dozen backends on a cold disk took 2 s.
VERSION_DEADLINE = 20.0
# It prints two lines; backends may say more before them.
VERSION_LIMIT = 64 << 10
# Since August 2026 with more words, see analyzers/catalogue/builds.py; a prefix of the log may stand before.
VERSION_LINE = re.compile(r"^version: .*$", re.MULTILINE)
TOLD_LENGTH = 60
# What the launcher ends with, after its one line, when the program cannot be started at all.
NOT_STARTED = 127
LIBRARY = "xllamacpp*.so"
SERVER_LIBRARY = "libllama-server-impl.so"
UNKNOWN_MARK = "unknown"
# The runtime's entry, defined in an instrumented program or asked of a library, gcc's or clang's.
SANITIZED = (
    Sign("init", "__asan_init"),
    Sign("gcc", "libasan.so", prefix=True),
    Sign("clang", "libclang_rt.asan", prefix=True),
)


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

    A build number is taken from a text that names one; "build 0" and a shallow clone's count are none.
    Raises UserError when it cannot be run, or its answer is not a llama-server's.
    """
    text = version_text(binary)
    code = code_of(binary)
    number = build_number_of(text)
    name = f"b{number} ({binary.name})" if number else binary.name
    return Subject(
        kind="native",
        name=name,
        version=text,
        build=number,
        build_id=build_id_of_file(code),
        asan=any(find_names(each, SANITIZED) for each in dict.fromkeys((binary, code))),
        marks=marks_of(code),
    )


def marks_of(binary: Path | None) -> dict[str, str]:
    """Defect id -> affected | fixed | unknown, by the marks of the catalogue in the symbol names.

    ``unknown`` is said, not left out: a missing or stripped file, a shape of the function that nobody has
    seen, or marks that contradict each other.
    """
    marked = [defect for defect in catalogue().defects if defect.marks]
    names = [mark for defect in marked for mark in defect.marks]
    found = frozenset(find_names(binary, names)) if binary is not None else frozenset()
    return {defect.id: _told({m.affected for m in defect.marks if m.id in found}) for defect in marked}


def _told(said: set[bool]) -> str:
    if len(said) != 1:
        return UNKNOWN_MARK
    return "affected" if said.pop() else "fixed"


def code_of(binary: Path) -> Path:
    """The file that holds the server's code: the program, or the library beside it that it is linked with.

    Upstream's shared build (BUILD_SHARED_LIBS) leaves nothing but main() in the program.
    """
    beside = binary.resolve().with_name(SERVER_LIBRARY)
    linked = beside.is_file() and find_names(binary, (Sign("linked", SERVER_LIBRARY),))
    return beside if linked else binary


def version_text(binary: Path) -> str:
    """The line a llama-server prints for --version. Raises UserError when it is none, or not for here."""
    demand_program(binary)
    try:
        said = ask(binary, ["--version"], VERSION_DEADLINE, VERSION_LIMIT)
    except OSError as error:
        raise _no_server(binary, error.strerror or "cannot be run") from None
    found = VERSION_LINE.search(said.text)
    if found is None:
        raise _no_server(binary, _instead(binary, said))
    return printable(found.group(0))


def _instead(binary: Path, said: Said) -> str:
    if said.code == NOT_STARTED and said.text.startswith(f"{binary}: "):
        return printable(said.text[len(f"{binary}: ") :].strip())
    if said.code is None and not said.text.strip():
        return f"--version printed nothing for {said.seconds:.0f} s"
    told = next((line.strip() for line in said.text.splitlines() if line.strip()), "")
    if said.code is not None and said.code < 0:
        return f"--version died of {signal_name(-said.code)}"
    return f"--version printed {printable(told[:TOLD_LENGTH])!r}" if told else "--version printed nothing"


def signal_name(number: int) -> str:
    """SIGSEGV for 11; "signal 99" for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _no_server(binary: Path, why: str) -> UserError:
    return UserError(
        f"not a llama-server that runs here ({why})",
        where=str(binary),
        remedy="give the path of a llama-server",
    )
