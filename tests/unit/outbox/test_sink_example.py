"""The example sink is found by its entry point, takes incidents once, and a broken one is only named."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from outbox_parts import incident, store

from collector.outbox.delivery import Delivery
from collector.outbox.lane import FIRST_DELAY, MOST_DELAY, delay
from collector.outbox.sinks import plugin_sinks
from collector.outbox.write import NewAttachment, Write

EXAMPLE = Path(__file__).parents[3] / "examples" / "jsonl-sink"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example as an installer leaves it: its entry points in a dist-info folder on the path."""
    info = tmp_path / "site" / "llama_blackbox_example_sink-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-blackbox-example-sink\nVersion: 1.0\n")
    points = (
        "[llama_blackbox.sinks]\njsonl = llama_blackbox_example_sink:make\nbroken = no_such_module:make\n"
    )
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    target = tmp_path / "incidents.jsonl"
    monkeypatch.setenv("LLAMA_BLACKBOX_EXAMPLE_SINK", str(target))
    return target


def settle(delivery: Delivery) -> None:
    end = time.monotonic() + 20
    while delivery.step() and time.monotonic() < end:
        time.sleep(0.002)


def test_the_example_takes_every_revision_once(tmp_path: Path, installed: Path) -> None:
    sinks, problems = plugin_sinks()
    assert [sink.name for sink in sinks] == ["jsonl"]
    assert problems == ["sink 'broken' was left out: ModuleNotFoundError: No module named 'no_such_module'"]
    writer = store(tmp_path)
    report = NewAttachment(incident().id, "report.json", "report", b"{}")
    writer.commit(Write(incidents=(incident(),), attachments=(report,)))
    delivery = Delivery(writer, sinks)
    settle(delivery)
    writer.commit(Write(incidents=(incident(revision=2), incident(43))))
    settle(delivery)
    delivery.close()
    # WHEN the outbox is lost and its agent sends everything again THEN no line doubles
    writer.close()
    for path in (tmp_path / "outbox").glob("outbox.sqlite3*"):
        path.unlink()
    again = store(tmp_path)
    again.commit(Write(incidents=(incident(revision=2),)))
    second = Delivery(again, plugin_sinks()[0])
    settle(second)
    second.close()
    again.close()
    lines = [json.loads(line) for line in installed.read_text().splitlines()]
    assert [(one["id"], one["revision"]) for one in lines] == [
        (incident().id, 1),
        (incident().id, 2),
        (incident(43).id, 1),
    ]
    assert (tmp_path / f"{incident().id}-report.json").read_bytes() == b"{}"


def test_full_jitter_grows_to_its_bound() -> None:
    assert delay(0, 1.0) == FIRST_DELAY
    assert delay(3, 0.5) == FIRST_DELAY * 4
    assert delay(10_000, 1.0) == MOST_DELAY
    assert delay(5, 0.0) == 0.0
