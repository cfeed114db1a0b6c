"""Logs of routers, line by line: whose end it is, whether it was planned, and what status 1 can mean."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analyzers.contracts.report import Process, Report
from analyzers.triage.build import Group
from analyzers.triage.from_text import text_material
from analyzers.triage.group import group
from analyzers.triage.material import Material, numbering
from analyzers.triage.run import Options, judge_all, triage

A, B = 50001, 50002
FAULT = "[13039.602552] traps: llama-server[1199] general protection fault ip:1 sp:2 error:0\n"
ASSERTION = "/src/ggml.c:1: GGML_ASSERT(x) failed"


@dataclass
class Lines:
    """A router's log as it grows. Children's clocks start when they are spawned."""

    now: float = 0.0
    texts: list[str] = field(default_factory=list)
    born: dict[int, float] = field(default_factory=dict)

    def own(self, text: str, function: str = "load") -> Lines:
        self.now += 0.01
        self.texts.append(f"{stamp(self.now)} I srv {function:>12}: {text}")
        return self

    def child(self, port: int, text: str) -> Lines:
        self.now += 0.01
        self.texts.append(f"[{port}] {stamp(self.now - self.born.get(port, 0.0))} I {text}")
        return self

    def raw(self, port: int, text: str) -> Lines:
        self.texts.append(f"[{port}] {text}")
        return self

    def started(self) -> Lines:
        self.own("initializing ...", "llama_server")
        return self.own("listening on http://127.0.0.1:8080", "llama_server")

    def spawn(self, name: str, port: int) -> Lines:
        self.own(f"spawning server instance with name={name} on port {port}")
        self.born[port] = self.now
        return self

    def up(self, name: str, port: int) -> Lines:
        self.spawn(name, port).child(port, "srv  llama_server: initializing ...")
        self.child(port, "srv    load_model: loading model '/m/a.gguf'")
        self.child(port, "srv  llama_server: model loaded")
        return self.child(port, f"srv  llama_server: listening on http://127.0.0.1:{port}")

    def sleep(self, port: int) -> Lines:
        self.now += 2.0
        self.child(port, "que    start_loop: entering sleeping state")
        return self.child(port, "srv  handle_sleep: server is entering sleeping state")

    def wake(self, port: int) -> Lines:
        self.child(port, "que    start_loop: exiting sleeping state")
        return self.child(port, "srv  handle_sleep: server is exiting sleeping state")

    def stopping(self, name: str) -> Lines:
        return self.own(f"stopping model instance name={name}", "unload")

    def obeyed(self, port: int) -> Lines:
        return self.child(port, "srv    operator(): exit command received, exiting...")

    def ended(self, name: str, status: int = 1) -> Lines:
        return self.own(f"instance name={name} exited with status {status}", "run")

    @property
    def text(self) -> str:
        return "\n".join(self.texts) + "\n"


def stamp(seconds: float) -> str:
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    return f"{whole // 60}.{whole % 60:02d}.{micros // 1000:03d}.{micros % 1000:03d}"


def told(folder: Path, lines: Lines | str, *more: str, incident: int | None = None) -> Report:
    texts = [lines if isinstance(lines, str) else lines.text, *more]
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.log"
        path.write_text(text)
        paths.append(path)
    with ExitStack() as stack:
        return triage(paths, Options(fast=True, incident=incident), stack).report


def whys(report: Report) -> str:
    return "\n".join(f"{gap.what}: {gap.why}" for gap in report.gaps)


def test_status_one_alone_decides_nothing(tmp_path: Path) -> None:
    report = told(tmp_path, Lines().started().up("a", A).ended("a"))
    verdict = report.verdict
    assert (verdict.class_, verdict.confidence, verdict.cause) == ("UNDETERMINED", "undetermined", "unknown")
    assert report.process.role == "child"
    assert (report.process.model.name, report.process.port) == ("a", A)
    assert report.process.parent is not None
    assert report.process.parent.port == 8080
    assert any("coredumpctl" in (gap.command or "") for gap in report.gaps)


@pytest.mark.parametrize(
    ("status", "class_", "confidence"),
    [(0, "NO-FAULT", "strong"), (1, "UNDETERMINED", "undetermined"), (7, "EXIT-ERROR", "weak")],
)
def test_only_status_one_hides_a_signal(tmp_path: Path, status: int, class_: str, confidence: str) -> None:
    # GIVEN an end that nobody asked for; other statuses than 1 are the child's own
    report = told(tmp_path, Lines().started().up("a", A).ended("a", status))
    assert (report.verdict.class_, report.verdict.confidence) == (class_, confidence)


def test_a_child_whose_model_cannot_be_loaded_never_started(tmp_path: Path) -> None:
    lines = Lines().started().spawn("a", A).child(A, "srv  llama_server: initializing ...")
    lines.raw(A, f"{stamp(0.5)} E srv  llama_server: exiting due to model loading error")
    report = told(tmp_path, lines.ended("a"))
    assert (report.verdict.class_, report.verdict.cause) == ("START-FAIL", "model-file")


def test_a_childs_abort_text_says_more_than_its_router(tmp_path: Path) -> None:
    lines = Lines().started().up("a", A).up("b", B).raw(A, ASSERTION).ended("a")
    report = told(tmp_path, lines)
    assert report.verdict.class_ == "ABRT-ASSERT"
    assert report.process.port == A


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("obeyed", [True, False])
def test_a_planned_end_is_no_incident_whatever_its_status(tmp_path: Path, status: int, obeyed: bool) -> None:
    # GIVEN an unload (or an eviction: both print the same line) of a child that slept
    lines = Lines().started().up("a", A).sleep(A).stopping("a")
    if obeyed:
        lines.obeyed(A)
    report = told(tmp_path, lines.ended("a", status))
    assert (report.verdict.class_, report.verdict.phase) == ("NO-FAULT", "stopping")


def test_a_child_that_was_killed_after_its_time_out_was_told_to_stop(tmp_path: Path) -> None:
    lines = Lines().started().up("a", A).stopping("a")
    lines.own("force-killing model instance name=a after timeout", "run").ended("a")
    report = told(tmp_path, lines)
    assert report.verdict.class_ == "NO-FAULT"
    assert any("had to kill" in reason for reason in report.verdict.reasons)


def test_a_planned_end_beside_a_death_hides_neither(tmp_path: Path) -> None:
    # GIVEN the death of one model, and the planned ends of another before and after it
    lines = Lines().started().up("b", B).stopping("b").obeyed(B).ended("b", 0)
    lines.up("a", A).sleep(A).wake(A).ended("a").up("b", B).stopping("b").obeyed(B).ended("b", 0)
    report = told(tmp_path, lines)
    assert report.verdict.class_ == "UNDETERMINED"
    assert report.process.model.name == "a"
    assert report.process.port == A


def test_the_same_model_may_run_again_before_its_old_end_is_told(tmp_path: Path) -> None:
    # GIVEN the order that the router's two threads can print: spawned again, then the old one's end
    lines = Lines().started().up("a", A).sleep(A).wake(A).up("a", B).ended("a")
    report = told(tmp_path, lines)
    assert report.process.port == A
    assert any("suspect sleep" in reason for reason in report.verdict.reasons)


@pytest.mark.parametrize("first", ["a", "b"])
def test_each_child_that_died_is_an_incident_whoever_was_spawned_last(tmp_path: Path, first: str) -> None:
    second = "b" if first == "a" else "a"
    lines = Lines().started().up("a", A).up("b", B).sleep(B).wake(B).ended(first).ended(second)
    both = [told(tmp_path, lines, incident=number) for number in (1, 2)]
    assert {report.process.port: report.process.model.name for report in both} == {A: "a", B: "b"}
    # THEN neither one's sleep is lent to the other
    for report in both:
        sleeps = any("sleeping" in item.text for item in report.timeline)
        assert sleeps is (report.process.port == B)
        assert report.verdict.class_ == "UNDETERMINED"


def test_a_record_of_one_of_two_children_that_died_is_lent_to_neither_ones_sleep(tmp_path: Path) -> None:
    # GIVEN two children that ended within a moment, one of which slept, and the core record of one of them
    lines = Lines().started().up("a", A).up("b", B).sleep(B).wake(B).ended("a").ended("b")
    rows = (
        "           PID: 4711 (llama-server)",
        "        Signal: 11 (SEGV)",
        "    Executable: llama-server",
    )
    record = "\n".join((*rows, ""))
    report = told(tmp_path, lines, record)
    assert (report.verdict.class_, report.verdict.cause) == ("SEGV", "unknown")
    assert any(gap.what == "the sleep of the server that died" for gap in report.gaps)
    # THEN with one child alone, it is that child's
    alone = Lines().started().up("b", B).sleep(B).wake(B).ended("b")
    assert told(tmp_path, alone, record).verdict.class_ == "SEGV-UAF-SLEEP"


def test_the_sleep_of_a_sibling_raises_no_suspicion(tmp_path: Path) -> None:
    lines = Lines().started().up("a", A).up("b", B).sleep(B).wake(B).ended("a")
    report = told(tmp_path, lines, FAULT)
    assert (report.verdict.class_, report.verdict.defect) == ("SEGV", None)
    assert report.process.port == A
    assert not any("sleeping" in item.text for item in report.timeline)


def test_a_kernel_line_without_a_told_end_may_be_the_routers_own(tmp_path: Path) -> None:
    # GIVEN a router that died: it prints no more, so no end is told, and its sleeping child is innocent
    report = told(tmp_path, Lines().started().up("a", A).sleep(A).wake(A), FAULT)
    assert report.verdict.defect is None
    assert "neither a PID, a unit nor a clock tells which one died" in whys(report)


def test_a_child_cannot_speak_as_its_router(tmp_path: Path) -> None:
    # GIVEN a prompt that a child prints at high verbosity: it stands behind the child's port
    lines = Lines().started().up("a", A).raw(A, "srv           run: instance name=a exited with status 1")
    report = told(tmp_path, lines)
    assert "child of the router died" not in report.verdict.summary
    assert any("not believed" in gap.why for gap in report.gaps)


def test_the_routers_words_in_a_lone_servers_log_make_no_child(tmp_path: Path) -> None:
    lone = "\n".join(
        (
            "0.00.000.100 I srv  llama_server: initializing ...",
            "0.00.040.000 I srv  llama_server: model loaded",
            "0.01.000.000 I srv           run: instance name=x exited with status 1",
        )
    )
    report = told(tmp_path, lone + "\n")
    assert report.process.role is None
    assert report.process.parent is None
    assert report.verdict.class_ == "UNDETERMINED"


def test_its_lines_stand_on_the_childs_clock(tmp_path: Path) -> None:
    # GIVEN a child that was spawned a minute after its router, and dies two seconds later
    lines = Lines(now=60.0).started().up("a", A).sleep(A)
    lines.own(f"proxying request to model a on port {A}", "proxy_reques").wake(A).ended("a")
    report = told(tmp_path, lines)
    texts = [item.text for item in report.timeline]
    called = next(n for n, text in enumerate(texts) if "proxying request" in text)
    assert "entering" in texts[called - 1]
    assert "exiting" in texts[called + 1]
    assert "exited with status 1" in texts[-1]
    assert report.timeline[-1].at < 4.0


def journal(lines: Lines, *more: str, pid: int = 700) -> str:
    texts = [*lines.texts, *more]
    rows = []
    for number, text in enumerate(texts):
        systemd = text.startswith("Stopping ") or "process exited" in text
        fields = {
            "__REALTIME_TIMESTAMP": 1_780_000_000_000_000 + number * 1000,
            "__MONOTONIC_TIMESTAMP": 1_000_000 + number * 1000,
            "_BOOT_ID": "ab" * 16,
            "_PID": 1 if systemd else pid,
            "_UID": 0,
            "_COMM": "systemd" if systemd else "llama-server",
            "_TRANSPORT": "journal" if systemd else "stdout",
            "_SYSTEMD_UNIT": "init.scope" if systemd else "router.service",
            "MESSAGE": text,
        }
        rows.append("".join(f"{name}={value}\n" for name, value in fields.items()))
    return "\n".join(rows) + "\n"


def test_what_systemd_does_to_the_router_is_not_done_to_the_child(tmp_path: Path) -> None:
    # GIVEN a child's death, and the unit of its router stopped some time later
    lines = Lines().started().up("a", A).sleep(A).wake(A).ended("a")
    report = told(tmp_path, journal(lines, "Stopping router.service - Router..."))
    assert report.verdict.class_ == "UNDETERMINED"
    assert report.process.parent is not None
    assert report.process.parent.pid == 700
    assert report.process.pid is None
    assert "the router itself" in whys(report)


def material(folder: Path, lines: Lines) -> Material:
    path = folder / "router.log"
    path.write_text(lines.text)
    return text_material(path, "router.log", "server-log", numbering())


def core(pid: int, port: int | None) -> Material:
    return Material(process=Process(pid=pid, port=port), anchor=True, tids=frozenset({pid}))


def sleeps(item: Group) -> int:
    return sum("sleeping state" in fact.text for fact in item.evidence)


def test_two_cores_share_one_routers_log_by_their_ports(tmp_path: Path) -> None:
    lines = Lines().started().up("a", A).up("b", B).sleep(A).wake(A).ended("a").ended("b")
    groups, _ = group([core(1, A), core(2, B), material(tmp_path, lines)])
    assert [each.process.model.name for each in groups] == ["a", "b"]
    assert [sleeps(each) for each in groups] == [4, 0]
    ends = [[fact.text for fact in each.evidence if fact.kind == "exit"] for each in groups]
    assert [len(each) for each in ends] == [1, 1]
    assert "name=a" in ends[0][0]
    assert "name=b" in ends[1][0]


def test_a_core_of_the_router_itself_is_given_no_childs_lines(tmp_path: Path) -> None:
    lines = Lines().started().up("a", A).sleep(A).wake(A).ended("a")
    groups, _ = group([core(1, 8080), material(tmp_path, lines)])
    assert (groups[0].process.role, groups[0].process.port) == ("router", 8080)
    assert sleeps(groups[0]) == 0
    judged, _ = judge_all([core(1, 8080), material(tmp_path, lines)])
    (own,) = (each for each in judged if each.group.process.pid == 1)
    assert "child of the router" not in own.finding.summary
    # AND the child's death is an incident of its own
    assert len(judged) == 2


def test_a_router_whose_children_all_live_has_no_incident(tmp_path: Path) -> None:
    report = told(tmp_path, Lines().started().up("a", A).up("b", B).sleep(A))
    assert report.verdict.class_ in ("UNDETERMINED", "NO-FAULT")
    assert report.verdict.defect is None
    assert "died" not in report.verdict.summary
