"""Every class of the registry: a rule that gives it, a twin that must come out different, a page that helps.

The cases are short on purpose; what each rule does with richer evidence stands in the other tables. Classes
that a real process can be made to show are also provoked, in tests/e2e.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.catalogue.loader import load_catalogue
from analyzers.catalogue.model import Page
from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AnswerFact, LogFact, ModelFileFact, ProbeFact, SettingsFact, SocketFact
from analyzers.contracts.registry import CLASSES, NOT_YET_DIAGNOSED
from analyzers.contracts.watched import HostFact, MemoryFact
from evidence_builder import (
    AWAKE_AGAIN,
    COMPLETIONS,
    HTTP,
    JSON_RECURSION,
    NEVER_SLEPT,
    SLEPT,
    TOKENIZE,
    WOKEN,
    Maker,
)
from watch_builder import CUDA_WAIT, DECODE, FREE, IDLE, LISTENING, SAVING, UPLOADING, Watched, found, stuck

DOCUMENT = Path(__file__).parents[3] / "docs" / "verdicts.md"
E2E = Path(__file__).parents[2] / "e2e"
READER = (*TOKENIZE, COMPLETIONS, *HTTP)
Case = Callable[[], Maker]


def asleep_with(*, unanswered: bool) -> Maker:
    maker = Maker().log(*SLEPT)
    maker.add(ProbeFact(route="/props", status=200, is_sleeping=True), Trust.SERVER)
    return maker.add(SocketFact(bytes_received=9_000, unanswered=unanswered), Trust.KERNEL)


def lookup_error(log: tuple[str, ...]) -> Maker:
    maker = Maker().log(*log)
    return maker.add(AnswerFact(route="/tokenize", status=500, error="_Map_base::at"), Trust.SERVER)


def scraped(period: float) -> Maker:
    maker = Maker().add(SettingsFact(sleep_idle_seconds=60), Trust.SUPERVISOR).log("loaded")
    for number in range(5):
        maker.add(LogFact(event="request", route="/metrics"), Trust.SERVER, elapsed=100.0 + number * period)
    return maker


def first_load(grown: int) -> Maker:
    made = Watched()
    made.log("init", "loading")
    made.look(100.0, resident_bytes=30 << 20).look(101.0, resident_bytes=(30 + grown) << 20)
    return made.probe("/health", 503)


def counted(later: int) -> Maker:
    made = Watched()
    made.look(100.0).look(105.0).client(unanswered=True)
    made.probe("/metrics", 200, decodes=10, requests_processing=1)
    return made.probe("/metrics", 200, decodes=later, requests_processing=1)


def silent(*threads: tuple[str, ...]) -> Maker:
    made = Watched().look(100.0).at(100.0, IDLE)
    for number, frames in enumerate(threads):
        made.at(100.0, frames, tid=300 + number)
    return made.probe("/health", None)


def mapped(*cycles: tuple[str, ...]) -> Maker:
    maker = Maker().add(SettingsFact(model="main.gguf"), Trust.SUPERVISOR)
    for number, files in enumerate(cycles, 1):
        maker.add(MemoryFact(phase="asleep", cycle=number, held_model_files=files), Trust.KERNEL)
    return maker


def offloaded(later: float) -> Maker:
    maker = Maker().log("listening").add(LogFact(event="offloaded", value=33.0, total=33.0), Trust.SERVER)
    maker.log("enter-sleep", "exit-sleep")
    return maker.add(LogFact(event="offloaded", value=later, total=33.0), Trust.SERVER)


def reboot(*log: str) -> Maker:
    return Maker().log(*log).add(HostFact(event="rebooted", boot_id="1"), Trust.SUPERVISOR)


def aborting(*, own: bool) -> Maker:
    made = Watched()
    made.log("listening").abort("ggml-assert")
    return made.look(100.0, state="t", tracer="gdb", tracer_is_child=own)


def crash(phase: str, log: tuple[str, ...] = SLEPT, stack: tuple[object, ...] = READER) -> Maker:
    return Maker().log(*log).kernel().core().stack(stack).loop(phase)  # type: ignore[arg-type]


def bus() -> Maker:
    return Maker().log("listening").exit(7).add(ModelFileFact(state="cut"), Trust.KERNEL)


OVERFLOW = ((JSON_RECURSION, 40_000), COMPLETIONS, *HTTP)
# class: (what gives it, its twin, the twin's class, why the twin is another)
TABLE: dict[str, tuple[Case, Case, str, str]] = {
    "SEGV-UAF-SLEEP": (
        lambda: crash("asleep"),
        lambda: crash("awake", NEVER_SLEPT),
        "SEGV",
        "it never slept",
    ),
    "ERROR-UAF-SLEEP": (
        lambda: lookup_error(SLEPT),
        lambda: lookup_error(NEVER_SLEPT),
        "UNDETERMINED",
        "no sleep freed anything",
    ),
    "SEGV-STACK": (
        lambda: crash("awake", NEVER_SLEPT, OVERFLOW),
        lambda: crash("awake", NEVER_SLEPT),
        "SEGV",
        "nothing repeats on the stack",
    ),
    "SEGV": (
        lambda: crash("awake", NEVER_SLEPT),
        lambda: crash("unloading"),
        "SEGV-UAF-SLEEP",
        "the loop was freeing the model that the thread read",
    ),
    "BUS": (
        bus,
        lambda: Maker().log(*WOKEN).abort("wake-reload").exit(6),
        "ABRT-WAKE-RELOAD",
        "cut while asleep: the reload fails instead",
    ),
    "FPE": (
        lambda: Maker().kernel("divide-error").core(8),
        lambda: Maker().kernel("invalid-opcode").core(4),
        "ILL",
        "another trap",
    ),
    "ABRT-ASSERT": (
        lambda: Maker().log("listening").abort("ggml-assert").exit(6),
        lambda: aborting(own=True),
        "HANG-ABORTING",
        "it still prints its trace",
    ),
    "ABRT-ABORT": (
        lambda: Maker().log("listening").abort("ggml-abort").exit(6),
        lambda: Maker().log(*WOKEN).abort("wake-reload").exit(6),
        "ABRT-WAKE-RELOAD",
        "that one text has its own class",
    ),
    "ABRT-EXCEPTION": (
        lambda: Maker().log("listening").abort("terminate").exit(6),
        lambda: Maker().log("listening", "stopping").abort("terminate").exit(6),
        "SHUTDOWN-ABORT",
        "a stop had been asked for",
    ),
    "ABRT-WAKE-RELOAD": (
        lambda: Maker().log(*WOKEN).abort("wake-reload").exit(6),
        lambda: Maker().log("init", "loading", "load-failed").exit(code=1),
        "START-FAIL",
        "it had never been ready",
    ),
    "ABRT-PID1": (
        lambda: Maker().kernel("gpf", tid=1, object="libc.so.6").exit(code=139, by="docker"),
        lambda: Maker().kernel("gpf", tid=77, object="libc.so.6").exit(code=139, by="docker"),
        "SEGV",
        "not the container's first process",
    ),
    "SHUTDOWN-ABORT": (
        lambda: Maker().log("listening", "stopping").abort("terminate").exit(6),
        lambda: Maker().log("listening").abort("terminate").exit(6),
        "ABRT-EXCEPTION",
        "nobody had asked",
    ),
    "ILL": (
        lambda: Maker().kernel("invalid-opcode").core(4),
        lambda: Maker().kernel("segfault").core(11),
        "SEGV",
        "a read of memory, not an instruction",
    ),
    "GPU-RUNTIME": (
        lambda: Maker().log("listening").abort("cuda").exit(6),
        lambda: Maker().log("listening").abort("gpu-oom").exit(6),
        "GPU-OOM",
        "the error is about memory",
    ),
    "GPU-FAULT": (
        lambda: Maker().log("listening").kernel("gpu-fault", mono=99.0).kernel(mono=100.0),
        lambda: Maker().log("listening").kernel("gpu-fault", mono=9.0).kernel(mono=1000.0),
        "SEGV",
        "the report is of another hour",
    ),
    "GPU-OOM": (
        lambda: Maker().log("listening").abort("gpu-oom").exit(6),
        lambda: Maker().log(*WOKEN).abort("gpu-oom").abort("wake-reload").exit(6),
        "ABRT-WAKE-RELOAD",
        "it failed in a wake: memory is that one's cause",
    ),
    "HOST-OOM": (
        lambda: Maker().log("listening").kernel("oom-kill").exit(9),
        lambda: Maker().log("listening").exit(9),
        "KILLED",
        "no word of the kernel about memory",
    ),
    "KILLED": (
        lambda: Maker().log("listening").exit(9),
        lambda: Maker().log("listening").exit(9, result="timeout"),
        "KILLED-BY-SUPERVISOR",
        "the supervisor says so",
    ),
    "KILLED-BY-SUPERVISOR": (
        lambda: Maker().log("listening").exit(6, result="watchdog"),
        lambda: Maker().log("listening").exit(6),
        "ABRT-ABORT",
        "no supervisor's decision",
    ),
    "EXIT-ERROR": (
        lambda: Maker().log("loaded", "listening").exit(code=1),
        lambda: Maker().log("loaded", "listening").exit(code=1, by="router"),
        "UNDETERMINED",
        "a router says 1 of every death",
    ),
    "START-FAIL": (
        lambda: Maker().log("init", "loading", "load-failed").exit(code=1),
        lambda: first_load(900),
        "LOAD-SLOW",
        "it lives and moves",
    ),
    "HANG-STRANDED": (
        lambda: asleep_with(unanswered=True),
        lambda: asleep_with(unanswered=False),
        "NO-FAULT",
        "an idle client wants nothing, and the server answers",
    ),
    "HANG-LOOP": (stuck, lambda: stuck(seconds=1.0), "UNDETERMINED", "a second is not long"),
    "HANG-GPU": (
        lambda: stuck(CUDA_WAIT, 20.0),
        lambda: stuck(DECODE, 40.0, cpu=39.0),
        "NOT-A-HANG",
        "the processor computes",
    ),
    "HANG-HTTP": (
        lambda: silent(UPLOADING, UPLOADING, LISTENING),
        lambda: silent(UPLOADING, FREE, LISTENING),
        "UNDETERMINED",
        "a thread is free: the machine is slow",
    ),
    "HANG-ABORTING": (
        lambda: aborting(own=True),
        lambda: Watched().look(100.0, state="t", tracer="gdb", tracer_is_child=False),
        "UNDETERMINED",
        "somebody else's debugger",
    ),
    "LOAD-SLOW": (lambda: first_load(900), lambda: first_load(0), "UNDETERMINED", "nothing moves"),
    "NOT-A-HANG": (lambda: counted(42), lambda: counted(10), "UNDETERMINED", "the counters stand still"),
    "NO-FAULT": (
        lambda: Maker().log(*NEVER_SLEPT).exit(15),
        lambda: Maker().log(*NEVER_SLEPT),
        "UNDETERMINED",
        "a log alone clears nobody",
    ),
    "NEVER-SLEEPS": (lambda: scraped(15.0), lambda: scraped(90.0), "UNDETERMINED", "rarer than the limit"),
    "SLEEP-LEAK": (
        lambda: mapped(("draft.gguf",), ("draft.gguf",)),
        lambda: mapped((), ()),
        "UNDETERMINED",
        "everything was freed",
    ),
    "SLEEP-DEGRADED": (lambda: offloaded(20.0), lambda: offloaded(33.0), "UNDETERMINED", "as many as before"),
    "HOST-FAILURE": (
        lambda: reboot(*NEVER_SLEPT),
        lambda: reboot("loaded", "listening", "cleaning-up"),
        "NO-FAULT",
        "the server was stopped first",
    ),
    "UNDETERMINED": (
        lambda: Maker().log(*AWAKE_AGAIN),
        lambda: Maker().log(*AWAKE_AGAIN).exit(code=0),
        "NO-FAULT",
        "the end is known",
    ),
}


def test_the_table_has_every_class_and_none_is_without_a_rule() -> None:
    assert set(TABLE) == set(CLASSES)
    assert not NOT_YET_DIAGNOSED


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_is_given_and_its_twin_is_another(name: str) -> None:
    positive, twin, other, why = TABLE[name]
    assert found(positive()).class_ == name
    assert found(twin()).class_ == other, why
    assert other != name


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_its_page_says_what_to_do_how_it_is_told_what_looks_like_it_and_what_to_collect(name: str) -> None:
    headings = {section.heading: section for section in page(name).sections}
    for heading in ("What to do now", "How it is told", "What looks like it", "What to collect next time"):
        section = headings[heading]
        assert section.lines or section.steps
    steps = headings["What to do now"].steps
    assert any(step.command for step in steps) or name in ("SEGV",)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_document_names_it(name: str) -> None:
    assert f"| `{name}` |" in DOCUMENT.read_text(encoding="utf-8")


def page(name: str) -> Page:
    return next(page for page in load_catalogue().pages if page.id == name and page.kind == "class")


def test_a_stuck_loop_is_told_even_when_its_frames_are_the_only_name() -> None:
    assert "llama_file" in found(stuck(SAVING)).reasons[0]


PROVOKED = (
    "SEGV-UAF-SLEEP",
    "ERROR-UAF-SLEEP",
    "SEGV-STACK",
    "SEGV",
    "BUS",
    "ABRT-ASSERT",
    "ABRT-EXCEPTION",
    "ABRT-WAKE-RELOAD",
    "SHUTDOWN-ABORT",
    "KILLED",
    "HANG-STRANDED",
    "HANG-LOOP",
    "HANG-HTTP",
    "HANG-ABORTING",
    "LOAD-SLOW",
    "NOT-A-HANG",
    "NO-FAULT",
    "SLEEP-LEAK",
    "UNDETERMINED",
)


@pytest.mark.parametrize("name", PROVOKED)
def test_what_can_be_provoked_is_asserted_of_a_real_process(name: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in E2E.glob("test_*.py")]
    assert any(f'"{name}"' in text for text in texts)
