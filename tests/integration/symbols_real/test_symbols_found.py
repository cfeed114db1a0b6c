"""Real programs, real cores, real symbol files: found by build-id, through links and folders, never run."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from crashing import SCRIPT, SECONDS, Crash, build, crash, strip, tools

from analyzers.contracts.report import Report
from analyzers.core.buildid import build_id_of_file
from analyzers.core.notes import read_core
from analyzers.stacks import gdb
from analyzers.stacks.ladder import Unwound, unwind
from analyzers.symbols.cache import Cache
from analyzers.symbols.places import Places, find
from analyzers.symbols.strip import stripped_copy
from analyzers.triage.run import Options, triage
from poorcores import poor_core

pytestmark = pytest.mark.real
TOOLS = ("gcc", "eu-stack", "objcopy", "strip", "gdb")


@pytest.fixture(autouse=True)
def _tools() -> None:
    tools(*TOOLS)


def names(found: Unwound) -> list[str | None]:
    assert found.crashed is not None
    return [frame.function for frame in found.crashed.frames]


def gone(made: Crash) -> Crash:
    """The host where it crashed is another one: its files are not here."""
    made.program.unlink()
    made.library.unlink()
    return made


def report(core: Path, *symbols: Path) -> Report:
    with ExitStack() as stack:
        return triage([core], Options(fast=True, symbols=symbols), stack).report


def test_a_folder_of_files_brings_all_frames_back(tmp_path: Path) -> None:
    program, library = build(tmp_path / "build")
    made = gone(crash(program, library, tmp_path / "host"))
    core = read_core(made.core)
    assert names(unwind(core))[0] is None
    found = unwind(core, None, (tmp_path / "build",))
    assert names(found)[:4] == ["read_it", "wanted", "serve", "main"]
    assert found.rung == "eu-stack"


def test_files_of_a_later_build_bring_none(tmp_path: Path) -> None:
    # GIVEN the look-alike: the same names, built again from other source
    program, library = build(tmp_path / "build")
    made = gone(crash(program, library, tmp_path / "host"))
    build(tmp_path / "later", extra="int later(void) { return 5; }")
    (tmp_path / "later" / "libllama.so").unlink()
    found = unwind(read_core(made.core), None, (tmp_path / "later",))
    assert not {"read_it", "wanted", "serve"} & set(names(found))


def test_a_split_debug_file_is_found_through_its_link(tmp_path: Path) -> None:
    _, library = build(tmp_path / "build")
    debug = tmp_path / "build" / ".debug" / "libllama.dbg"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", str(library), str(debug)], check=True, timeout=SECONDS)
    strip(library)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(library)], check=True, timeout=SECONDS)
    build_id = build_id_of_file(library)
    assert build_id is not None
    assert find(build_id, str(library), Places(debug=None)).debug == debug
    with debug.open("ab") as file:
        file.write(b"x")  # the build-id stays, the CRC does not
    assert find(build_id, str(library), Places(debug=None)).debug is None


@pytest.mark.parametrize("pie", [True, False])
def test_a_stripped_build_has_the_same_keys_on_two_hosts(tmp_path: Path, pie: bool) -> None:
    program, library = build(tmp_path / "build", pie=pie)
    strip(program, library)
    made = [crash(program, library, tmp_path / name) for name in ("one", "two/deeper")]
    keys = [report(each.core).signature for each in made]
    # AND the first pages left out, so that no build-id is known
    poor = [report(poor_core(each.core, each.folder / "poor.core")).signature for each in made]
    bases = {read_core(each.core).load_address(str(each.library)) for each in made}
    assert len(bases) == 2
    assert keys[0].bug_key == keys[1].bug_key
    assert keys[0].site_key == keys[1].site_key
    assert (keys[0].bug_key or "").startswith("SEGV|-|-|libllama.so+0x")
    assert poor[0].bug_key == poor[1].bug_key
    assert (poor[0].site_key or "").startswith("libllama.so+0x")
    assert poor[0].site_key == poor[1].site_key


def test_registers_alone_and_words_on_the_stack_say_what_they_are(tmp_path: Path) -> None:
    program, library = build(tmp_path / "build")
    made = crash(program, library, tmp_path / "host")
    core = read_core(made.core)
    assert core.crashed is not None
    pages = [(row.start, row.start + 4096) for row in core.mapped if row.file_offset == 0]
    sp = core.crashed.registers["rsp"]
    notes = report(poor_core(made.core, tmp_path / "notes.core")).threads[0]
    ids = report(poor_core(made.core, tmp_path / "ids.core", pages)).threads[0]
    assert [frame.trust for frame in notes.frames] == ["register"]
    assert notes.frames[0].function is None  # a file at the same path may be another build
    assert [(frame.function, frame.trust) for frame in ids.frames] == [("read_it", "register")]
    assert "its callers are not known" in (ids.trust or "")
    stack = poor_core(made.core, tmp_path / "stack.core", [*pages, (sp, sp + 8192)])
    made.library.rename(tmp_path / "libllama.so")  # no unwind tables at hand
    scanned = report(stack)
    assert scanned.threads[0].rung == "scan"
    assert {frame.trust for frame in scanned.threads[0].frames} <= {"register", "scanned", "guessed"}
    assert "serve" in [frame.function for frame in scanned.threads[0].frames]


def test_the_copy_without_debug_information_unwinds_as_the_original(tmp_path: Path) -> None:
    program, library = build(tmp_path / "build")
    made = gone(crash(program, library, tmp_path / "host"))
    cache = Cache(tmp_path / "cache")
    copies = tmp_path / "copies"
    copies.mkdir()
    for path in (program, library):
        copy = stripped_copy(path, cache)
        assert copy is not None
        (copies / path.name).symlink_to(copy)
    found = unwind(read_core(made.core), None, (copies,))
    assert names(found)[:4] == ["read_it", "wanted", "serve", "main"]
    assert found.crashed is not None
    assert found.crashed.complete


@pytest.mark.parametrize("safe", [True, False])
def test_no_script_of_a_symbol_file_is_run(tmp_path: Path, safe: bool) -> None:
    # GIVEN a program whose own sections, and a script beside it, ask gdb to run code
    inline, beside = tmp_path / "inline.ran", tmp_path / "beside.ran"
    program, library = build(tmp_path / "build", extra=SCRIPT.format(marker=inline))
    made = crash(program, library, tmp_path / "host")
    (made.folder / "llama-server-gdb.py").write_text(f"open({str(beside)!r}, 'w').write('ran')\n")
    argv = gdb._argv("gdb", str(made.core), str(made.program))
    if not safe:  # the trap is real: a gdb that is allowed to springs it
        argv = ["gdb", "-nx", "-q", "--interpreter=mi2", "-iex", "set auto-load safe-path /", *argv[-2:]]
    # WHEN gdb is run as the product does, but without the jail that would keep it from writing
    subprocess.run(argv, input=b"-gdb-exit\n", timeout=SECONDS, check=False, capture_output=True, cwd="/")
    assert (inline.exists(), beside.exists()) == ((False, False) if safe else (True, True))
