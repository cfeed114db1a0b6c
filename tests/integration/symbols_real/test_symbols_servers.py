"""Real servers that died: what their notes and one page prove, and the awake twin that must not be proven."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from crashing import tools

from analyzers.contracts.report import Report
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.core.queuepages import queue_pages
from analyzers.triage.run import Options, triage
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults.prompts import long_tokenize
from collector.lab.faults.provoked import Stage
from collector.lab.reference.conditions import exited
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from poorcores import poor_core

pytestmark = pytest.mark.real
READER = "llama_vocab::impl::tokenize"
# The hidden this of a method and its first pointer: both lead nowhere, so the reader faults at once.
SPOILED = ("set $rdi=0x10", "set $rsi=0x10")
DEATH = 60.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    tools("eu-stack", "gdb")
    with ReferenceServer(tmp_path / "lab") as lab:
        yield Stage(lab, ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION)))


def first_pages(core: Core) -> list[tuple[int, int]]:
    return [(row.start, row.start + 4096) for row in core.mapped if row.file_offset == 0]


def the_queues(core: Core) -> list[tuple[int, int]]:
    waiting = ((thread.registers["orig_rax"], thread.registers["rdi"]) for thread in core.threads)
    return [(page, page + 4096) for page in queue_pages(waiting)]


def judged(core: Path) -> Report:
    with ExitStack() as stack:
        return triage([core], Options(fast=True), stack).report


def test_d2_is_proven_from_notes_and_a_page(stage: Stage, tmp_path: Path) -> None:
    made = d2.provoke(stage, d2.TOKENIZE)
    if not made.happened or made.core.path is None:
        pytest.skip(f"no crash with a core: {made.outcome}, {made.core.reason}")
    core = read_core(made.core.path)
    whole = judged(made.core.path)
    pages = first_pages(core)
    without = judged(poor_core(made.core.path, tmp_path / "ids.core", pages))
    small = poor_core(made.core.path, tmp_path / "page.core", [*pages, *the_queues(core)])
    told = judged(small)
    # THEN the whole core proves it, and what is left without the queue's page does not
    assert (whole.verdict.defect, whole.verdict.confidence) == ("D2", "proven")
    assert without.verdict.confidence != "proven"
    assert small.stat().st_size < 1 << 20
    # AND with the page the flags are those of the whole core
    assert flags(told) == flags(whole) or told.verdict.defect is None
    reader = told.threads[0].frames[0].function or ""
    if reader.startswith(("llama_vocab", "llm_tokenizer")):  # else it died in library code below the reader
        assert (told.verdict.defect, told.verdict.confidence) == ("D2", "proven")
        assert told.verdict.handler is None
        assert told.threads[0].frames[0].trust == "register"


def flags(report: Report) -> list[object]:
    return [e.data.get("sleeping") for e in report.verdict.evidence if e.kind == "loop"]


def test_a_reader_that_faults_on_an_awake_server_is_not_proven(stage: Stage, tmp_path: Path) -> None:
    # GIVEN the look-alike: the very same function, a wild pointer, the model loaded
    server = stage.start(poisoned=True)
    commands = [f"break {READER}", "echo READY\\n", "continue", *SPOILED, "delete", "detach"]
    argv = ["gdb", "-nx", "-q", "-batch", "-p", str(server.pid), "-iex", "set debuginfod enabled off"]
    for command in commands:
        argv += ["-ex", command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as debugger:
        assert debugger.stdout is not None
        assert any("READY" in line for line in debugger.stdout)
        server.begin(long_tokenize())
        assert server.wait_until(exited, DEATH)
    found = server.core()
    if found.path is None:
        pytest.skip(found.reason)
    core = read_core(found.path)
    keep = [*first_pages(core), *the_queues(core)]
    for path in (found.path, poor_core(found.path, tmp_path / "page.core", keep)):
        verdict = judged(path).verdict
        assert (verdict.class_, verdict.defect) == ("SEGV", None)
        assert verdict.confidence != "proven"
