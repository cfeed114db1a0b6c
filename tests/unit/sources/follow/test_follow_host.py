"""Kernel lines, units, cores, samples, devices and plug-ins: each behind the same contract."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.contracts.evidence import Trust
from collector.capture.crash.store import MANIFEST
from collector.gather.tools import Ran
from collector.sources.follow.cores import CoreStream
from collector.sources.follow.devices import device_memory
from collector.sources.follow.journal import JournalStream
from collector.sources.follow.journal_open import Journal
from collector.sources.follow.kmsg import KmsgStream, kernel_source
from collector.sources.follow.plugins import TRIES, plugin_streams
from collector.sources.follow.samples import SampleStream
from collector.sources.follow.units import UnitStream, states
from collector.sources.procfs import boot_id
from collector.sources.stream import Batch, StreamHealth

FAULT = b"llama-server[42]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14\n"


class Kmsg(KmsgStream):
    """The device with records of ours; None stands for an overrun."""

    def __init__(self, tmp_path: Path, *records: bytes | None, cursor: str | None = None) -> None:
        (tmp_path / "kmsg").touch()
        super().__init__(device=tmp_path / "kmsg", cursor=cursor)
        self.records = list(records)

    def _next(self) -> bytes | None:
        if not self.records:
            return None
        return self.records.pop(0) or b""


def record(sequence: int, text: bytes = FAULT, priority: int = 6) -> bytes:
    return b"%d,%d,%d,-;%s" % (priority, sequence, sequence * 1_000_000, text)


def test_kernel_lines_are_evidence_and_an_overrun_a_gap_with_its_count(tmp_path: Path) -> None:
    stream = Kmsg(
        tmp_path,
        record(5),
        record(6, b"usb 1-1: new device\n"),
        record(7, priority=14),
        None,
        record(20),
        b"garbage",
    )
    batch = stream.poll()
    assert [(one.kind, one.mono, one.trust) for one in batch.evidence] == [
        ("kernel", 5.0, Trust.KERNEL),
        ("kernel", 20.0, Trust.KERNEL),
    ]
    assert ["12 lines were overwritten" in gap.why for gap in batch.gaps] == [True]
    assert stream.health().lost == 12
    stream.close()


def test_kernel_lines_go_on_after_a_restart_and_begin_anew_after_a_boot(tmp_path: Path) -> None:
    first = Kmsg(tmp_path, record(5), record(6))
    cursor = first.poll().cursor
    again = Kmsg(tmp_path, record(5), record(6), record(7), cursor=cursor).poll()
    assert ([one.mono for one in again.evidence], again.gaps) == ([7.0], ())
    lost = Kmsg(tmp_path, record(10), cursor=cursor).poll()
    assert "3 lines" in lost.gaps[0].why
    booted = Kmsg(tmp_path, record(1), cursor=json.dumps({"boot": "another", "sequence": 900})).poll()
    assert ([one.mono for one in booted.evidence], booted.gaps) == ([1.0], ())


def test_one_of_device_and_journal_gives_the_kernels_lines(tmp_path: Path) -> None:
    journal = JournalStream(Journal(tmp_path), lambda pid, unit: None)
    assert kernel_source(journal, device=tmp_path / "none") is None
    assert journal._entries.kernel
    (tmp_path / "kmsg").touch()
    stream = kernel_source(journal, device=tmp_path / "kmsg")
    assert stream is not None
    assert not journal._entries.kernel
    stream.close()


SHOW = (
    "Id=llama.service\nLoadState=loaded\nActiveState=active\nResult=success\nNRestarts={restarts}\n"
    "StatusText={text}\nExecMainPID=4711\nExecMainCode={code}\nExecMainStatus={status}\n"
    "ExecMainExitTimestampMonotonic={end}\nUNKNOWN=x\n\nId=gone.service\nLoadState=not-found\n"
)


def unit_stream(answers: list[str], cursor: str | None = None) -> UnitStream:
    def ask(argv: list[str]) -> Ran:
        assert argv[-1] == "llama.service"
        return Ran(out=answers.pop(0).encode(), status=0)

    return UnitStream(["llama.service"], every=0.0, ask=ask, cursor=cursor)


def answered(stream: UnitStream) -> Batch:
    stream.poll()
    assert stream._running is not None
    stream._running.result(10)
    return stream.poll()


def test_what_changes_about_a_unit_is_evidence_once() -> None:
    calm = SHOW.format(restarts=0, text="ready", code=0, status=0, end=0)
    died = SHOW.format(restarts=1, text="ready\x1b[2J", code=3, status=11, end=5_000_000)
    stream = unit_stream([calm, died, died])
    assert answered(stream).evidence == ()
    batch = answered(stream)
    end, restart, status = batch.evidence
    assert (end.kind, end.data["signal"], end.incarnation.pid, end.mono) == ("exit", 11, 4711, 5.0)
    assert "result" not in end.data
    assert (restart.data["event"], restart.data["restarts"]) == ("restarted", 1)
    assert status.text.isprintable()
    assert answered(stream).evidence == ()
    stream.close()


def test_what_changed_while_nobody_asked_is_seen_after_a_restart() -> None:
    calm = SHOW.format(restarts=0, text="", code=0, status=0, end=0)
    died = SHOW.format(restarts=1, text="", code=1, status=3, end=5_000_000)
    cursor = answered(unit_stream([calm])).cursor
    kinds = [one.kind for one in answered(unit_stream([died], cursor)).evidence]
    assert kinds == ["exit", "unit"]
    other = json.dumps({**json.loads(cursor or ""), "boot": "another"})
    assert answered(unit_stream([died], other)).evidence == ()


def test_a_manager_that_does_not_answer_shows_in_the_health() -> None:
    stream = UnitStream(["llama.service"], every=0.0, ask=lambda argv: Ran(outcome="missing"))
    assert answered(stream).evidence == ()
    assert stream.health().problem == "systemctl: the tool is not installed"
    assert states("\n\ngarbage\n=\nId=a\n") == [{"Id": "a"}]


def capture(store: Path, name: str, pid: int) -> None:
    (store / name).mkdir(parents=True)
    told = {
        "process": {
            "pid": pid,
            "start_ticks": 100,
            "boot_id": boot_id(),
            "exe": {"path": "/opt/llama-server"},
        },
        "crash": {"signal": 11, "time": 1796187355},
    }
    (store / name / MANIFEST).write_text(json.dumps(told))


def test_a_new_capture_is_evidence_and_an_old_one_is_not(tmp_path: Path) -> None:
    clock = [0.0]
    store = tmp_path / "store"
    capture(store, "20261202T100000Z-1-old", 1)
    stream = CoreStream(store, now=lambda: clock[0])
    first = stream.poll()
    assert first.evidence == ()
    capture(store, "20261202T100001Z-4711-new", 4711)
    clock[0] += 2
    found = stream.poll().evidence
    assert [(one.kind, one.incarnation.pid, one.data["signal"]) for one in found] == [("core", 4711, 11)]
    assert found[0].data["capture"] == "20261202T100001Z-4711-new"
    clock[0] += 100
    assert stream.poll().evidence == ()
    again = CoreStream(store, cursor=first.cursor).poll()
    assert [one.id for one in again.evidence] == [found[0].id]


def test_a_store_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    stream = CoreStream(tmp_path / "none", [tmp_path / "nowhere"])
    assert stream.poll().empty
    assert stream.health().state == "degraded"


def test_samples_count_and_a_stopped_process_is_told(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    clock = [0.0]
    stream = SampleStream(now=lambda: clock[0])
    try:
        stream.watch([child.pid, 2**22 - 1])
        assert [one.kind for one in stream.poll().evidence] == ["look"]
        assert stream.poll().evidence == ()
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        clock[0] += 2
        told = stream.poll().evidence
        assert [one.data["state"] for one in told] == ["T"]
        assert stream.latest[child.pid].io_bytes is not None
        share = stream.cpu_share(child.pid)
        assert share is not None
        assert 0 <= share < 1
        stream.ask(child.pid)
        assert len(stream.poll().evidence) == 1
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.communicate(b"")
    clock[0] += 2
    assert stream.poll().evidence == ()
    assert child.pid not in stream.latest
    stream.close()


FDINFO = (
    "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t{client}\n"
    "drm-memory-vram:\t{kib} KiB\ndrm-memory-gtt:\t999 KiB\ndrm-total-vram:\t99999 KiB\n"
)


def test_device_memory_counts_each_client_once(tmp_path: Path) -> None:
    folder = tmp_path / "42" / "fdinfo"
    folder.mkdir(parents=True)
    for name, client, kib in (("5", 7, 1024), ("6", 7, 1024), ("7", 8, 2048)):
        (folder / name).write_text(FDINFO.format(client=client, kib=kib))
    (folder / "8").write_bytes(b"pos: 0\n")
    (folder / "9").write_bytes(b"drm-driver: \x1b[2J\ndrm-memory-vram: \xff KiB\n")
    found = device_memory(42, proc=tmp_path)
    assert (found[-1].device, found[-1].bytes) == ("0000:03:00.0", 3 << 20) or found[0].bytes == 3 << 20
    assert all(one.device.isprintable() for one in found)
    assert device_memory(43, proc=tmp_path) == []


def test_nvml_is_used_where_it_is(tmp_path: Path) -> None:
    rows = [SimpleNamespace(pid=42, usedGpuMemory=5), SimpleNamespace(pid=1, usedGpuMemory=9)]
    nvml = SimpleNamespace(
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetComputeRunningProcesses=lambda card: rows,
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(free=77),
    )
    found = device_memory(42, proc=tmp_path, nvml=nvml)
    assert [(one.device, one.bytes, one.free) for one in found] == [("nvidia0", 5, 77)]
    broken = SimpleNamespace(nvmlDeviceGetCount=lambda: 1 / 0)
    assert device_memory(42, proc=tmp_path, nvml=broken) == []


def point(name: str, load: object) -> SimpleNamespace:
    return SimpleNamespace(name=name, value=name, load=lambda: load)


class Broken:
    name = "broken"

    def fileno(self) -> int | None:
        raise RuntimeError

    def poll(self, limit: int = 1) -> Batch:
        raise RuntimeError("x" * 10_000)

    def health(self) -> StreamHealth:
        return StreamHealth()

    def close(self) -> None:
        raise RuntimeError


def test_a_broken_plug_in_sinks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "examples" / "source-plugin"))
    from llama_blackbox_example_source import source

    wrong = Broken()
    wrong.poll = lambda limit=1: "no batch"  # type: ignore[method-assign, assignment, return-value]
    points = [
        point("example", source),
        point("broken", Broken),
        point("raises", lambda: 1 / 0),
        point("lacks", lambda: object()),
        point("wrong", lambda: [wrong]),
    ]
    streams, notes = plugin_streams(points)
    assert [one.name for one in streams] == [
        "plugin:example:maintenance",
        "plugin:broken:broken",
        "plugin:wrong:broken",
    ]
    assert len(notes) == 2
    for _ in range(TRIES):
        assert all(one.poll().empty for one in streams)
        assert all(one.fileno() is None for one in streams)
    assert [one.health().state for one in streams] == ["ok", "failed", "failed"]
    for one in streams:
        one.close()


def test_the_example_source_tells_of_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "examples" / "source-plugin"))
    from llama_blackbox_example_source import Maintenance

    stream = Maintenance(tmp_path / "mark")
    assert stream.poll().empty
    (tmp_path / "mark").touch()
    assert [one.kind for one in stream.poll().evidence] == ["maintenance"]
    assert stream.poll().evidence == ()
