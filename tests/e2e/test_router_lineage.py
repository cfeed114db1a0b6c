"""A real router, a child that dies of D1, a sleeping sibling: one incident, its lineage and true cause."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e_ask import UNDETERMINED, VERDICT, ask, command
from e2e_stage import SAID

from analyzers.contracts.report import Report
from analyzers.errors import UserError
from collector.lab.faults import d1_router
from collector.lab.reference import cached_model
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.output import Line
from collector.lab.reference.ports import free_port
from collector.lab.reference.router import (
    KEY_FILE,
    SLEEPING,
    ChildProcess,
    RoutedModel,
    RouterSpec,
    RunningRouter,
    start_router,
)
from collector.sources.kernel import as_dmesg

pytestmark = pytest.mark.real

BUILD = 11138
BY_HAND = "LLAMA_BLACKBOX_SERVER_BIN"  # a llama-server of that build that was compiled elsewhere
DEAD, SIBLING = "tiny", "other model"  # a name may hold blanks
SLEEP_DEADLINE = 15.0
GONE_DEADLINE = 15.0
BOOT = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Family:
    """What a router and its two children left behind, and who they were."""

    folder: Path
    router: RunningRouter
    death: d1_router.RouterDeath
    sibling: ChildProcess
    lines: tuple[Line, ...]

    @property
    def dead(self) -> ChildProcess:
        return self.death.child

    @property
    def log(self) -> Path:
        return self.written("router.log", lambda _: True)

    @property
    def core(self) -> Path:
        path = self.death.core.path
        if path is None:
            pytest.skip(f"no core: {self.death.core.reason}")
        return path

    @property
    def kernel(self) -> Path:
        if not self.death.kernel.lines:
            pytest.skip(f"no kernel line: {self.death.kernel.note}")
        path = self.folder / "kernel.txt"
        path.write_text(as_dmesg(self.death.kernel.lines))
        return path

    def written(self, name: str, wanted: Callable[[str], bool]) -> Path:
        """The log as far as its lines are wanted."""
        path = self.folder / name
        path.write_text("".join(f"{line.text}\n" for line in self.lines if wanted(line.text)))
        return path

    def of_child(self, text: str, child: ChildProcess) -> bool:
        return re.match(rf"\[ *{child.port}\]", text) is not None


@pytest.fixture(scope="module")
def binary() -> Path:
    """The native server that has D1; skipped aloud where it was never built."""
    by_hand = os.environ.get(BY_HAND)
    if by_hand:
        return Path(by_hand)
    from collector.lab.native.build import Recipe, find_build

    found = find_build(Recipe(BUILD))
    if found is None:
        missing = f"no native b{BUILD}; run: llama-blackbox reference build --build {BUILD}"
        SAID.append(f"router: skipped, {missing}")
        pytest.skip(missing)
    return found.binary


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="llama-blackbox-router-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def family(binary: Path, folder: Path) -> Family:
    """Both children sleep; one dies of the first call through the router, then the other is unloaded."""
    spec = RouterSpec(binary, (model(DEAD), model(SIBLING)), models_max=2, poisoned=True)
    with start_router(spec, folder) as router:
        sibling = router.load(SIBLING)
        death = d1_router.provoke(router, DEAD)
        assert router.wait_until(lambda: router.statuses()[SIBLING] == SLEEPING, SLEEP_DEADLINE)
        assert router.unload(SIBLING)
    assert death.happened, death.notes
    SAID.append(
        f"router: child of b{BUILD} died of the first call, HTTP {death.answer.status} from the router"
    )
    return Family(folder, router, death, sibling, tuple(router.output.lines()))


def model(name: str, idle: int = d1_router.IDLE_SECONDS) -> RoutedModel:
    return RoutedModel(name, cached_model(), idle)


def assert_lineage(report: Report, family: Family) -> None:
    process = report.process
    assert (process.role, process.port, process.model.name) == ("child", family.dead.port, DEAD)
    assert process.parent is not None
    assert process.parent.port == family.router.port
    assert report.incidents == []  # one incident has no table


def test_the_router_hides_the_signal(family: Family) -> None:
    assert family.death.answer.status == 500
    assert family.router.output.count(f"instance name={DEAD} exited with status 1") == 1
    assert family.death.kernel.lines or family.death.kernel.note


def test_log_core_and_kernel_line_are_one_d1_of_the_child(family: Family) -> None:
    answer = ask(family.log, family.core, family.kernel)
    assert answer.status == VERDICT
    assert answer.said == (
        "SEGV-UAF-SLEEP",
        "D1",
        "wake",
        "first-request-after-wake",
        "strong",  # a plain log: only a wake line on the queue's clock would prove it
        "handle_count_tokens",
    )
    assert_lineage(answer.report, family)
    assert answer.report.process.pid == family.dead.pid
    assert answer.report.process.signal == "SIGSEGV"
    assert answer.report.process.code is None  # the router's 1 is no status of the child's
    assert "the router reports this very death as status 1" in answer.reasons
    assert "the log of this very process" in answer.gaps


def test_the_order_of_the_inputs_decides_nothing(family: Family) -> None:
    one = ask(family.kernel, family.core, family.log)
    other = ask(family.core, family.log, family.kernel)
    assert one.said == other.said
    assert_lineage(one.report, family)


def test_the_log_alone_decides_nothing_and_says_how_to_get_the_core(family: Family) -> None:
    answer = ask(family.log)
    assert answer.status == UNDETERMINED
    assert (answer.said.class_, answer.said.defect) == ("UNDETERMINED", None)
    assert "status 1, a crash included" in answer.reasons
    assert "A child of the router died" in answer.report.verdict.summary
    assert any("coredumpctl" in (gap.command or "") for gap in answer.report.gaps)
    assert_lineage(answer.report, family)
    # AND the suspicion that its own lines allow is named as one
    assert "suspect sleep" in answer.reasons


def test_the_log_and_the_kernel_line_make_a_weak_suspicion_of_the_child(family: Family) -> None:
    answer = ask(family.log, family.kernel)
    assert (answer.said.class_, answer.said.defect, answer.said.confidence) == (
        "SEGV-UAF-SLEEP",
        "D1",
        "weak",
    )
    assert answer.report.process.signal == "SIGSEGV"
    assert_lineage(answer.report, family)


def test_the_routers_own_lines_alone_still_name_the_child(family: Family) -> None:
    own = family.written("own.log", lambda text: not text.startswith("["))
    answer = ask(own)
    assert (answer.status, answer.said.class_) == (UNDETERMINED, "UNDETERMINED")
    assert not answer.blames_sleep
    assert "suspect sleep" not in answer.reasons  # none of the child's lines is there
    assert_lineage(answer.report, family)


def test_a_log_that_begins_late_ties_the_end_to_the_only_child_in_it(family: Family) -> None:
    # GIVEN only the dead child's lines and the line about its end: the line that spawned it was rotated away
    def kept(text: str) -> bool:
        return family.of_child(text, family.dead) or f"name={DEAD} exited" in text

    answer = ask(family.written("late.log", kept))
    assert answer.said.class_ == "UNDETERMINED"
    assert (answer.report.process.role, answer.report.process.port) == ("child", family.dead.port)
    assert answer.report.process.model.name == DEAD


def test_the_siblings_sleep_is_no_evidence_of_the_dead_childs(family: Family) -> None:
    # GIVEN a log that lost the sleep lines of the child that died, while its sibling's are whole
    def kept(text: str) -> bool:
        return not (family.of_child(text, family.dead) and "sleeping state" in text)

    answer = ask(family.written("lost.log", kept), family.core, family.kernel)
    # THEN nothing of the sibling is lent: no D1, no sleep
    assert (answer.said.class_, answer.said.defect) == ("SEGV", None)
    assert not answer.blames_sleep
    about = [item.text for item in answer.report.timeline]
    assert not any("sleeping state" in text for text in about)
    assert_lineage(answer.report, family)


def test_a_core_is_tied_by_its_port_where_the_routers_lines_are_lost(family: Family) -> None:
    # GIVEN the lines of both children and none of the router's
    answer = ask(
        family.written("children.log", lambda text: text.startswith("[")), family.core, family.kernel
    )
    assert (answer.said.defect, answer.said.confidence) == ("D1", "strong")
    assert answer.report.process.port == family.dead.port


def test_in_a_journal_the_childs_lines_carry_the_routers_pid(family: Family) -> None:
    export = family.folder / "router.export"
    export.write_text("".join(entry(line, family.router.pid) for line in family.lines))
    answer = ask(export, family.core, family.kernel)
    assert (answer.said.defect, answer.said.confidence) == ("D1", "proven")
    assert_lineage(answer.report, family)
    parent = answer.report.process.parent
    assert parent is not None
    assert parent.pid == family.router.pid
    assert answer.report.process.pid == family.dead.pid


def entry(line: Line, pid: int) -> str:
    fields = {
        "__REALTIME_TIMESTAMP": int(line.wall * 1e6),
        "__MONOTONIC_TIMESTAMP": int(line.mono * 1e6),
        "_BOOT_ID": BOOT,
        "_PID": pid,
        "_COMM": "llama-server",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "llama-router.service",
        "MESSAGE": line.text,
    }
    return "".join(f"{name}={value}\n" for name, value in fields.items()) + "\n"


@pytest.mark.parametrize("form", ["", "--markdown", "--json", "--html"])
def test_every_rendering_shows_the_lineage_in_one_line_and_no_key(family: Family, form: str) -> None:
    page = family.folder / "page.html"
    words = ["--html", page] if form == "--html" else [form] if form else []
    done = command("triage", family.log, family.core, family.kernel, "--fast", *words, COLUMNS="200")
    assert done.returncode == VERDICT, done.stderr
    text = page.read_text() if form == "--html" else done.stdout
    assert family.router.api_key not in text + done.stderr
    if form != "--json":
        told = [line for line in text.splitlines() if "Lineage" in line]
        assert len(told) == 1
        assert f"child {DEAD}" in told[0]
        for number in (family.dead.pid, family.dead.port, family.router.port):
            assert str(number) in told[0]


def test_the_key_stands_in_the_childs_core_and_must_not_get_out_of_it(family: Family) -> None:
    # the router hands the client's headers on, so the child that needs no key holds it in its memory
    key = family.router.api_key
    assert key.encode() in family.core.read_bytes()
    assert stat.S_IMODE((family.router.folder / KEY_FILE).stat().st_mode) == 0o600
    assert key not in family.log.read_text()
    # WHEN not even the redaction is on THEN it is in no report
    done = command("triage", family.log, family.core, family.kernel, "--json", "--include-private")
    assert done.returncode == VERDICT
    assert key not in done.stdout + done.stderr


def test_a_child_that_was_unloaded_or_made_room_is_no_incident(binary: Path, folder: Path) -> None:
    # GIVEN a router that may hold one model: loading the second takes the first down, then it is unloaded
    with start_router(RouterSpec(binary, (model(DEAD, -1), model(SIBLING, -1))), folder) as router:
        first = router.load(DEAD)
        second = router.load(SIBLING)
        assert router.wait_until(
            lambda: [each.pid for each in router.children()] == [second.pid], GONE_DEADLINE
        )
        assert router.unload(SIBLING)
    log = folder / "planned.log"
    shutil.copyfile(router.output.path, log)
    assert first.pid != second.pid
    # WHEN its log is asked THEN nothing is amiss
    answer = ask(log)
    assert (answer.status, answer.said.class_) == (VERDICT, "NO-FAULT")
    assert "exited with status 0" in log.read_text()


def test_a_router_that_is_killed_leaves_no_child(binary: Path, folder: Path) -> None:
    with start_router(RouterSpec(binary, (model(DEAD),)), folder) as router:
        child = router.load(DEAD)
        os.kill(router.pid, signal.SIGKILL)
        assert router.wait_until(lambda: router.ending is not None, GONE_DEADLINE)
        assert gone(router, child)
    assert router.ending is not None
    assert router.ending.signal == signal.SIGKILL


def test_taking_a_router_down_takes_its_children_along(binary: Path, folder: Path) -> None:
    router = start_router(RouterSpec(binary, (model(DEAD),)), folder)
    child = router.load(DEAD)
    router.take_down()
    assert gone(router, child)


def gone(router: RunningRouter, child: ChildProcess) -> bool:
    """No process, or another one, has the child's PID by the deadline. A zombie has no command line."""

    def looks() -> bool:
        try:
            return str(child.port).encode() not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
        except OSError:
            return True

    deadline = GONE_DEADLINE
    while deadline > 0 and not looks():
        with router._changed:
            router._changed.wait(0.05)
        deadline -= 0.05
    return looks()


def test_what_cannot_come_up_is_named(binary: Path, folder: Path) -> None:
    models = (model(DEAD),)
    with pytest.raises(UserError, match="not a program"):
        start_router(RouterSpec(folder / "none", models), folder)
    with pytest.raises(UserError, match=r"did not come up"):
        start_router(RouterSpec(binary, models, arguments=("--no-such-option",)), folder)
    with start_router(RouterSpec(binary, models), folder) as router:
        with pytest.raises(UserError, match=r"the port cannot be used"):
            start_router(RouterSpec(binary, models, port=router.port), folder)
        with pytest.raises(UserError, match=r"did not load 'nobody' \(HTTP 4\d\d\)"):
            router.load("nobody")
    assert isinstance(router.core_of(router.pid), CoreSearch)
    assert start_again(binary, models, router.port, folder)


def start_again(binary: Path, models: tuple[RoutedModel, ...], port: int, folder: Path) -> bool:
    """The port is free again at once."""
    with start_router(RouterSpec(binary, models, port=port), folder) as router:
        return router.port == port != free_port()


def test_without_the_key_the_router_answers_nobody(binary: Path, folder: Path) -> None:
    with start_router(RouterSpec(binary, (model(DEAD),)), folder) as router:
        router.api_key, kept = "wrong", router.api_key
        assert router.post("/models/load", {"model": DEAD}).status == 401
        router.api_key = kept
        assert isinstance(ask_status(router), dict)


def ask_status(router: RunningRouter) -> dict[str, str]:
    return router.statuses()
