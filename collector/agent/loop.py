"""The agent: polls what there is, tells every server's state, opens incidents, commits; one thread, one way.

Each round goes the same way: who came and went, what the streams yielded, how the servers are, what follows
from that, and all of it into the outbox in one transaction a second (incidents at once).
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, ProbeFact, fact_of, to_evidence
from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import ServerRow, TransitionRow
from analyzers.contracts.watched import LookFact
from collector.agent.about import STREAM, facts_of, key_of, row_of
from collector.agent.feeds import RECALL_SECONDS, Feeds
from collector.agent.incidents import Incidents
from collector.agent.probing_pool import Prober
from collector.agent.release_work import ReleaseWork
from collector.agent.roster import Roster
from collector.agent.service.journal_log import Log
from collector.agent.states.model import Transition
from collector.agent.states.watch import StateWatch
from collector.agent.wishes import Wishes, Wishlist, target_of
from collector.discovery.model import Ended, Found
from collector.discovery.watch import Discovery
from collector.outbox.delivery import Delivery
from collector.outbox.store import Store
from collector.outbox.write import Write, Yielded, yielded
from collector.sources.stream import Batch, Stream

# Rounds lie at least this far apart: a busy journal wakes its readers for every line, and a line is told
# within 400 ms all the same.
LEAST_SECONDS = 0.1
HURRY_SECONDS = 0.25  # between rounds while a judgement or an end is awaited
ROWS_EVERY = 5.0  # seconds between two rows of a server whose state did not change
GRACE_BATCHES = 20  # portions of one stream in one round: a burst must not hold up the others for ever


@dataclass
class Parts:
    """What the agent is made of; the command line puts it together, tests put in what they like."""

    discovery: Discovery
    feeds: Feeds
    roster: Roster
    watch: StateWatch
    prober: Prober
    incidents: Incidents
    store: Store
    wishlist: Wishlist
    release: ReleaseWork
    delivery: Delivery | None = None
    log: Log = field(default_factory=Log)


class Agent:
    """``round`` does one round; ``wait`` waits for something to do. Clocks: Unix seconds, CLOCK_MONOTONIC."""

    def __init__(
        self,
        parts: Parts,
        *,
        tick_seconds: float = 1.0,
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self._every = tick_seconds
        self._wall, self._mono = wall, mono
        self._next_tick = 0.0
        self._last_round = 0.0
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._wishes: dict[int, Wishes] = {}
        self._notes: dict[int, tuple[str, ...]] = {}
        self._rows: dict[int, tuple[str, float]] = {}
        self._dumping: set[int] = set()
        self._gone: list[str] = []
        self._transitions: list[TransitionRow] = []
        self._facts: list[Evidence] = []
        self._records: list[IncidentRecord] = []
        self._settled = False

    # One round

    def round(self) -> None:
        """Everything once. Raises nothing for what a server, a journal or a disk does."""
        self._last_round = self._mono()
        self._processes()
        due = self._last_round >= self._next_tick
        for stream in self.parts.feeds.all():
            if due or stream.fileno() is not None:
                self._stream(stream)
        if due:
            self._next_tick = self._mono() + self._every
            self._tick()
        self._judgements()
        self._commit(due)

    def wait(self, stop: int | None = None) -> None:
        """Until something can be read, the tick is due, or ``stop`` (a descriptor) is readable."""
        self._pause(stop)
        poller = select.poll()
        if stop is not None:
            poller.register(stop, select.POLLIN)
        for number in self._descriptors():
            with suppress(OSError, ValueError):
                poller.register(number, select.POLLIN)
        left = self._next_tick - self._mono()
        if self.parts.incidents.busy:
            left = min(left, HURRY_SECONDS)
        if self.parts.discovery.pending:
            left = 0
        if left > 0:
            poller.poll(left * 1000)

    def _pause(self, stop: int | None) -> None:
        """Until the next round may begin; processes that come and go are looked at meanwhile, because one
        that lives for 20 ms can only be looked at while it does."""
        events = self.parts.discovery.fileno()
        poller = select.poll()
        for number in (stop, events):
            if number is not None:
                poller.register(number, select.POLLIN)
        while (left := self._last_round + LEAST_SECONDS - self._mono()) > 0:
            ready = [number for number, _ in poller.poll(left * 1000)]
            if not ready or ready != [events]:
                return
            self._processes()

    def reload(self, wishlist: Wishlist) -> None:
        """The operator's words are others now: every server is looked up again."""
        self.parts.wishlist = wishlist
        for found in self.parts.roster.living:
            self._wish(found)

    def close(self) -> None:
        """Commit what is known and give everything back."""
        parts = self.parts
        self._commit(True)
        for end in (parts.prober.close, parts.release.close, parts.incidents.close, parts.watch.close):
            end()
        if parts.delivery is not None:
            parts.delivery.close()
        parts.feeds.close()
        parts.discovery.close()
        if not parts.store.close():
            parts.log.error("outbox", "not everything could be written", problem=parts.store.health().problem)

    def _descriptors(self) -> list[int]:
        told = [self.parts.discovery.fileno(), *(stream.fileno() for stream in self.parts.feeds.all())]
        return [number for number in told if number is not None]

    # Who is there

    def _processes(self) -> None:
        changes = self.parts.discovery.poll()
        for ended in changes.ended:
            self._ended(ended)
        for found in changes.born:
            self._born(found)
        for found in changes.changed:
            self._changed(found)
        for brief in changes.brief:
            self._brief(brief)
        self._dumps()
        if changes.born or changes.ended:
            self.parts.feeds.watch(self.parts.roster.living)

    def _born(self, found: Found) -> None:
        parts = self.parts
        fresh = (found.incarnation.start_time or 0.0) >= self._began
        parts.roster.born(found)
        if not self._wish(found).watch:
            return
        parts.watch.born(found)
        parts.feeds.born(found, fresh=fresh)
        self._recall(found)
        parts.release.seen(found)
        self._facts += facts_of(found)
        self._tell(parts.incidents.born(found))
        parts.log.info("server-found", "a server", **_named(found))

    def _changed(self, found: Found) -> None:
        """It listens now, or runs another program in its place."""
        self.parts.roster.born(found)
        if self._wish(found).watch:
            self.parts.watch.born(found)
            self.parts.feeds.born(found, fresh=False)
            self._facts += facts_of(found)
            self._rows.pop(found.pid, None)

    def _wish(self, found: Found) -> Wishes:
        """What the operator wants of it, and the probes that follow from that."""
        wishes = self._wishes[found.pid] = self.parts.wishlist.of(found)
        target = target_of(found, wishes)
        if wishes.watch and wishes.probe and target is not None:
            may = self.parts.prober.want(found, target, metrics=wishes.metrics)
            self._notes[found.pid] = (*may.notes, *([may.cost] if may.cost else []))
        else:
            self.parts.prober.gone(found.pid)
            self._notes.pop(found.pid, None)
        return wishes

    def _recall(self, found: Found) -> None:
        """Its lines from before it was found: the journal has them."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - (found.incarnation.start_time or 0.0)
        since = self._wall() - min(max(age, 0.0) + 1.0, RECALL_SECONDS)
        for journal in self.parts.feeds.journals:
            journal.recall(found.pid, since)

    def _ended(self, ended: Ended) -> None:
        parts, found = self.parts, ended.found
        for stream in parts.feeds.own.get(found.pid, []):
            self._stream(stream)  # its last lines
        parts.roster.ended(ended)
        self._tell(parts.incidents.ended(ended))
        case = parts.incidents.deaths.case_of(found.incarnation)
        self._moved(found, parts.watch.ended(ended, case.fault if case is not None else None))
        parts.prober.gone(found.pid)
        parts.release.gone(found.pid)
        parts.feeds.ended(found.pid)
        parts.feeds.dying()
        for known in (self._wishes, self._notes, self._rows):
            known.pop(found.pid, None)
        self._dumping.discard(found.pid)
        self._gone.append(key_of(found.incarnation))
        parts.log.info(
            "server-ended", "a server is gone", signal=ended.signal, code=ended.code, **_named(found)
        )

    def _brief(self, ended: Ended) -> None:
        """It came and went between two looks. A status alone is a matter of whoever typed the command, unless
        a unit or a container ran it."""
        found = ended.found
        self.parts.roster.ended(ended)
        managed = found.place.unit is not None or found.place.container is not None
        if ended.signal is not None or managed:
            self._tell(self.parts.incidents.ended(ended))
        state = "crashed" if ended.signal is not None or ended.code else "down"
        self._transitions.append(
            TransitionRow(key_of(found.incarnation), state, ended.wall, None, ended.mono)
        )
        self.parts.log.info(
            "server-brief", "a server came and went", code=ended.code, signal=ended.signal, **_named(found)
        )

    def _dumps(self) -> None:
        for pid in self.parts.discovery.dumping - self._dumping:
            found = self.parts.roster.by_pid(pid)
            self._dumping.add(pid)
            if found is not None:
                self._dumps_core(found)

    def _dumps_core(self, found: Found) -> None:
        """The first sign of most deaths: the kernel has begun to write the core."""
        mono = self._mono()
        evidence = to_evidence(
            LookFact(dumping=True),
            id=f"dumping-{key_of(found.incarnation)}",
            source=f"process {found.pid}",
            text=f"the kernel writes the core of process {found.pid}",
            trust=Trust.KERNEL,
            wall=self._wall(),
            mono=mono,
            incarnation=found.incarnation,
        )
        self._facts.append(evidence)
        self._moved(found, self.parts.watch.note(evidence, found.incarnation))
        self._tell(self.parts.incidents.dumping(found, evidence))

    # What is told

    def _stream(self, stream: Stream) -> None:
        for _ in range(GRACE_BATCHES):
            batch = stream.poll()
            if batch.evidence or batch.gaps or batch.cursor is not None:
                self._batch(stream.name, batch)
            if not batch.more:
                return

    def _batch(self, name: str, batch: Batch) -> None:
        placed = tuple(self._fact(evidence) for evidence in batch.evidence)
        same = Batch(placed, batch.cursor, batch.gaps, batch.more)
        self.parts.store.put(Write(yields=(yielded(name, same, self._wall()),)))

    def _fact(self, evidence: Evidence) -> Evidence:
        """Put one fact where it belongs; the same fact with the life it is about."""
        found = self.parts.roster.of(evidence)
        if found is None:
            self._tell(self.parts.incidents.evidence(evidence, None))
            return evidence
        own = evidence
        if evidence.incarnation != found.incarnation:
            own = evidence.model_copy(update={"incarnation": found.incarnation})
        self._asked_to_stop(found, own)
        self._moved(found, self.parts.watch.note(own, found.incarnation))
        self._tell(self.parts.incidents.evidence(own, found))
        return own

    def _asked_to_stop(self, found: Found, evidence: Evidence) -> None:
        """A supervisor stops the server on purpose, and a router's children with it."""
        fact = fact_of(evidence, ExitFact)
        if fact is None or not fact.requested or evidence.trust.rank > Trust.SUPERVISOR.rank:
            return
        for each in (found, *self.parts.roster.children_of(found)):
            self._moved(each, self.parts.watch.planned(each.incarnation, evidence))

    # How they are

    def _tick(self) -> None:
        parts = self.parts
        for round_ in parts.prober.answers():
            self._answers(round_.incarnation, round_.evidence)
        for found, transition in parts.watch.tick():
            self._moved(found, transition)
        for found in parts.watch.wanted():
            parts.prober.hurry(found.pid)
        parts.prober.tick()
        self._releases()
        if not self._settled and self._mono() - self._last_round < self._every:
            self._settled = True
            self._tell(parts.incidents.troubles.settle(parts.roster.living))
        if parts.delivery is not None:
            parts.delivery.step()

    def _answers(self, who: Incarnation, evidence: Iterable[Evidence]) -> None:
        found = self.parts.roster.by_pid(who.pid or 0)
        if found is None or found.incarnation != who:
            return
        for item in evidence:
            self._moved(found, self.parts.watch.note(item, who))
            if _worth_keeping(item):
                self._facts.append(item)

    def _moved(self, found: Found, transition: Transition | None) -> None:
        """A server's state changed."""
        if transition is None:
            return
        parts, key = self.parts, key_of(found.incarnation)
        self._transitions.append(
            TransitionRow(key, transition.new, transition.wall, transition.old, transition.mono)
        )
        self._rows.pop(found.pid, None)
        facts = parts.watch.facts(found.incarnation) if transition.new in ("stranded", "hung") else ()
        self._facts += facts
        self._tell(parts.incidents.changed(found, transition, facts))
        if transition.new == "dumping" and found.pid not in self._dumping:
            self._dumping.add(found.pid)
            self._dumps_core(found)
        parts.log.info(
            "state", transition.reason, before=transition.old, after=transition.new, **_named(found)
        )

    def _releases(self) -> None:
        parts = self.parts
        for found in parts.roster.living:
            wishes = self._wishes.get(found.pid)
            if wishes is None or not wishes.release:
                continue
            connections, target = parts.watch.stranded(found.incarnation), target_of(found, wishes)
            if connections and target is not None:
                parts.release.begin(found, target, connections)
        for found, evidence in parts.release.done():
            self._facts.append(evidence)
            self._tell(parts.incidents.troubles.noted(found, evidence))
            parts.log.warning("release", evidence.text, **_named(found))

    # What becomes of it

    def _judgements(self) -> None:
        records, files = self.parts.incidents.tick()
        self._tell(records)
        if files:
            self.parts.store.put(Write(attachments=tuple(files)))

    def _tell(self, records: Iterable[IncidentRecord]) -> None:
        for record in records:
            stored = self.parts.store.revised(record)
            self._records.append(stored)
            say = self.parts.log.warning if record.revision == 1 else self.parts.log.info
            say("incident", record.summary, id=record.id, kind=record.kind, revision=stored.revision)

    def _commit(self, due: bool) -> None:
        rows = tuple(self._due_rows()) if due else ()
        told = Yielded(STREAM, None, tuple(self._facts))
        write = Write(
            yields=(told,) if self._facts else (),
            incidents=tuple(self._records),
            servers=rows,
            transitions=tuple(self._transitions),
            gone=tuple(self._gone),
        )
        for known in (self._facts, self._records, self._transitions, self._gone):
            known.clear()
        self.parts.store.put(write)
        self.parts.store.tick()

    def _due_rows(self) -> Iterable[ServerRow]:
        now, wall = self._mono(), self._wall()
        for found in self.parts.roster.living:
            wishes = self._wishes.get(found.pid)
            if wishes is None or not wishes.watch:
                continue
            view = self.parts.watch.view(found.incarnation)
            state = view.state if view is not None else ""
            known = self._rows.get(found.pid)
            if known is None or known[0] != state or now - known[1] >= ROWS_EVERY:
                self._rows[found.pid] = (state, now)
                yield row_of(found, view, wall, self._notes.get(found.pid, ()))


def _worth_keeping(evidence: Evidence) -> bool:
    """Answers that say something: what a healthy server says every ten seconds would fill the ring."""
    probe = fact_of(evidence, ProbeFact)
    return probe is not None and (probe.outcome != "answered" or probe.is_sleeping is True)


def _ended(ended: Ended) -> dict[str, object]:
    return {"signal": ended.signal, "code": ended.code, **_named(ended.found)}


def _named(found: Found) -> dict[str, object]:
    return {"pid": found.pid, "port": found.port, "unit": found.place.unit, "model": found.model}
