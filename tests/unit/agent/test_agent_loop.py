"""One round of the agent: who came and went, what was told, how they are, and all of it in the outbox."""

from __future__ import annotations

import io
import json
import os
import time as clocks
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agent_builder import Time, fact, server
from test_agent_incidents import Judging

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import ExitFact, KernelFact, LogFact
from analyzers.contracts.outbox_read import open_reading
from analyzers.contracts.report import Gap
from collector.agent.about import key_of
from collector.agent.config.load import parse_config
from collector.agent.feeds import Feeds
from collector.agent.incidents import Incidents
from collector.agent.loop import Agent, Parts
from collector.agent.probing_pool import Prober
from collector.agent.release_work import ReleaseWork
from collector.agent.roster import Roster
from collector.agent.service.journal_log import Log
from collector.agent.states.model import Pulse
from collector.agent.states.watch import Senses, StateWatch
from collector.agent.wishes import Wishlist
from collector.discovery.model import Changes, Ended, Found
from collector.outbox.store import open_store
from collector.sources.stream import Batch, StreamHealth

QUIET = b"[probes]\nenabled = false\n"


@dataclass
class Discovered:
    """Discovery that says what the test puts in."""

    said: deque[Changes] = field(default_factory=deque)
    dumping: frozenset[int] = frozenset()
    pending: bool = False

    def poll(self) -> Changes:
        return self.said.popleft() if self.said else Changes()

    def fileno(self) -> None:
        return None

    def health(self) -> StreamHealth:
        return StreamHealth()

    def close(self) -> None:
        return None


@dataclass
class Told:
    """A stream that yields what the test puts in."""

    name: str = "told"
    batches: deque[Batch] = field(default_factory=deque)

    def fileno(self) -> None:
        return None

    def poll(self, limit: int = 1000) -> Batch:
        return self.batches.popleft() if self.batches else Batch()

    def health(self) -> StreamHealth:
        return StreamHealth()

    def close(self) -> None:
        return None


@dataclass
class Scene:
    agent: Agent
    outbox: Path
    time: Time
    discovery: Discovered
    stream: Told
    log: io.StringIO

    def round(self, **changes: Any) -> None:
        self.time.now += 1.0
        if changes:
            self.discovery.said.append(Changes(**changes))
        self.agent.round()
        self.agent.parts.store.flush()

    def tell(self, *evidence: Any, cursor: str | None = None, gaps: tuple[Gap, ...] = ()) -> None:
        self.stream.batches.append(Batch(tuple(evidence), cursor, gaps))

    def stored(self, question: str) -> Any:
        with open_reading(self.outbox) as reader:
            return getattr(reader, question)()


@pytest.fixture
def scene(tmp_path: Path):
    time, text = Time(), io.StringIO()
    store = open_store(tmp_path / "outbox", mono=time.mono, wall=time.wall)
    roster = Roster(mono=time.mono, owner_of_thread={71: 7}.get)
    discovery, stream = Discovered(), Told()
    senses = Senses(
        dump=lambda netns, pid, ports: {},
        pulse=lambda found: lambda mono: Pulse(mono, "S", 0.0),
        main_wait=lambda pid: None,
        owned=lambda pid: None,
        being_read=lambda pid: None,
        mono=time.mono,
        wall=time.wall,
        boot=time.mono,
    )
    parts = Parts(
        discovery=discovery,  # type: ignore[arg-type]
        feeds=Feeds(common=[stream]),
        roster=roster,
        watch=StateWatch(senses=senses),
        prober=Prober(mono=time.mono),
        incidents=Incidents(tmp_path / "outbox", host="h", clock=time.clock(), judge=Judging()),
        store=store,
        wishlist=Wishlist(parse_config(QUIET, "t")),
        release=ReleaseWork(),
        log=Log("debug", stream=text, mono=time.mono),
    )
    agent = Agent(parts, wall=time.wall, mono=time.mono)
    yield Scene(agent, tmp_path / "outbox", time, discovery, stream, text)
    agent.close()


def crashed(scene: Scene, found: Found, sig: int | None = 11, code: int | None = None) -> Ended:
    return Ended(found, scene.time.wall(), scene.time.mono(), code, sig)


def test_a_server_that_comes_is_shown_with_its_settings_as_evidence(scene):
    scene.round(born=(server(sleep_idle_seconds=300, build="b11063"),))
    (row,) = scene.stored("servers")
    assert row.state == "awake"
    about = json.loads(row.about)
    assert (about["pid"], about["unit"], about["sleep_idle_seconds"]) == (7, "llama.service", 300)
    with open_reading(scene.outbox) as reader:
        assert {item.kind for item in reader.evidence_of(server().incarnation)} == {"settings", "mark"}


def test_a_line_changes_the_state_and_the_change_is_kept(scene):
    scene.round(born=(server(),))
    scene.tell(fact(LogFact(event="enter-sleep"), Trust.SERVER, mono=scene.time.now + 0.5))
    scene.round()
    moves = [(row.before, row.after) for row in scene.stored("transitions")]
    assert moves[:2] == [(None, "awake"), ("awake", "unloading")]


def test_the_cursor_and_what_it_yielded_are_stored_together_and_a_gap_with_them(scene):
    scene.round(born=(server(),))
    line = fact(LogFact(event="loaded"), Trust.SERVER)
    scene.tell(line, cursor="c1", gaps=(Gap(what="lines", why="suppressed"),))
    scene.round()
    assert scene.stored("cursors")["told"] == "c1"
    with open_reading(scene.outbox) as reader:
        kinds = [item.kind for item in reader.evidence_of(server().incarnation)]
    assert "log" in kinds


def test_a_fact_is_stored_under_the_life_it_is_about(scene):
    scene.round(born=(server(),))
    scene.tell(fact(KernelFact(shape="segfault", tid=71, name="llama-server"), pid=None))
    scene.round()
    with open_reading(scene.outbox) as reader:
        kept = reader.evidence_of(server().incarnation)
    assert [item.incarnation.pid for item in kept if item.kind == "kernel"] == [7]
    assert [row.kind for row in scene.stored("incidents")] == ["death"]


def test_a_death_is_an_incident_and_the_server_is_no_longer_shown(scene):
    scene.round(born=(server(),))
    scene.round(ended=(crashed(scene, server()),))
    assert scene.stored("servers") == []
    (row,) = scene.stored("incidents")
    assert row.record.summary == "llama.service (process 7) was ended by SIGSEGV"
    assert scene.stored("transitions")[-1].after == "crashed"


def test_the_beginning_of_a_dump_opens_the_incident_that_the_end_revises(scene):
    scene.round(born=(server(),))
    scene.discovery.dumping = frozenset({7})
    scene.round()
    (begun,) = scene.stored("incidents")
    assert "is dying" in begun.record.summary
    scene.discovery.dumping = frozenset()
    scene.round(ended=(crashed(scene, server()),))
    (row,) = scene.stored("incidents")
    assert row.id == begun.id
    assert row.revision > begun.revision


def test_a_planned_restart_is_no_incident(scene):
    scene.round(born=(server(),))
    stopping = ExitFact(by="systemd", result="stopping", requested=True, unit="llama.service")
    scene.tell(fact(stopping, Trust.SUPERVISOR, pid=None, mono=scene.time.now))
    scene.round()
    assert scene.stored("transitions")[-1].after == "stopping"
    scene.round(ended=(crashed(scene, server(), 15),), born=(server(8, 900.0),))
    for _ in range(10):
        scene.round()
    assert scene.stored("incidents") == []
    assert [json.loads(row.about)["pid"] for row in scene.stored("servers")] == [8]


@pytest.mark.parametrize(("unit", "number"), [("llama.service", 1), (None, 0)])
def test_a_server_that_lived_for_a_moment_counts_where_somebody_runs_it(scene, unit, number):
    found = server(place=type(server().place)(unit=unit))
    scene.round(brief=(crashed(scene, found, None, 1),))
    scene.round()
    assert len(scene.stored("incidents")) == number
    assert [(row.key, row.after) for row in scene.stored("transitions")] == [
        (key_of(found.incarnation), "crashed")
    ]


def test_a_server_that_is_to_be_left_alone_is_left_alone(scene):
    scene.agent.parts.wishlist = Wishlist(parse_config(b"[[target]]\nport = 8080\nwatch = false", "t"))
    scene.round(born=(server(),))
    assert scene.stored("servers") == []
    assert scene.stored("transitions") == []


def test_a_disk_that_takes_nothing_does_not_end_the_round(scene, monkeypatch):
    scene.round(born=(server(),))
    with monkeypatch.context() as broken:
        broken.setattr(type(scene.agent.parts.store), "_write_out", _full)
        scene.round(ended=(crashed(scene, server()),))
        assert scene.agent.parts.store.health().state == "memory"
    scene.time.now += 10
    scene.round()
    assert [row.kind for row in scene.stored("incidents")] == ["death"]


def _full(self: Any) -> None:
    raise OSError(28, "No space left on device")


def test_waiting_ends_at_once_when_a_stop_is_asked_for(scene):
    scene.round()
    read, write = os.pipe()
    os.write(write, b"x")
    began = clocks.monotonic()
    scene.agent.wait(read)
    assert clocks.monotonic() - began < 5
    os.close(read)
    os.close(write)


def test_a_busy_server_s_work_is_told_every_few_seconds_and_not_each_time(scene):
    scene.round(born=(server(),))
    for number in range(40):
        event = "task-done" if number % 2 else "task-launched"
        scene.tell(fact(LogFact(event=event, task_id=number // 2), Trust.SERVER, mono=scene.time.now))
        scene.round()
    told = [row.after for row in scene.stored("transitions")]
    assert 3 <= told.count("busy") + told.count("awake") <= 12
    for _ in range(8):
        scene.round()
    assert scene.stored("transitions")[-1].after == "awake"
