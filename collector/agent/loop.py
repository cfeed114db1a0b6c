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
from analyzers.contracts.facts import ExitFact, fact_of
from analyzers.contracts.outbox import ServerRow
from collector.agent.about import dump_fact, facts_of, worth_keeping
from collector.agent.feeds import RECALL_SECONDS, Feeds
from collector.agent.health import health_of
from collector.agent.incidents import Incidents
from collector.agent.memory import held_memory
from collector.agent.outgoing import Outgoing, named
from collector.agent.probing_pool import Prober
from collector.agent.recent import Recent
from collector.agent.release_work import ReleaseWork
from collector.agent.roster import Roster
from collector.agent.service.journal_log import Log
from collector.agent.states.model import StateView, Transition
from collector.agent.states.watch import StateWatch
from collector.agent.wishes import Wishes, Wishlist, target_of
from collector.discovery.model import Ended, Found
from collector.discovery.watch import Discovery
from collector.outbox.delivery import Delivery
from collector.outbox.store import Store
from collector.outbox.write import Write, yielded
from collector.sources.stream import Batch, Stream

# Rounds lie at least this far apart: a busy journal wakes its readers for every line, and a line is told
# within 400 ms all the same.
LEAST_SECONDS = 0.1
HURRY_SECONDS = 0.25  # between rounds while a judgement or an end is awaited
BEAT_SECONDS = 10.0
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
    devices: bool = True


class Agent:
    """``round`` does one round; ``wait`` waits for something to do."""

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
        self._recent = Recent()
        self._notes: dict[int, tuple[str, ...]] = {}
        self._dumping: set[int] = set()
        self.out = Outgoing(parts.store, parts.log)
        self._settled = False
        self._beat = float("-inf")

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
        told = (self.parts.discovery.fileno(), *(stream.fileno() for stream in self.parts.feeds.all()))
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
        self._recent.born(found.pid)
        parts.feeds.born(found, fresh=fresh)
        self._recall(found)
        parts.release.seen(found)
        self.out.facts += facts_of(found)
        self.out.tell(parts.incidents.born(found))
        parts.log.info("server-found", "a server", **named(found))

    def _changed(self, found: Found) -> None:
        """It listens now, or runs another program in its place."""
        self.parts.roster.born(found)
        if self._wish(found).watch:
            self.parts.watch.born(found)
            self.parts.feeds.born(found, fresh=False)
            self.out.facts += facts_of(found)
            self.out.changed(found)

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
        self.out.facts += self._recent.take(found.pid)
        parts.roster.ended(ended)
        self.out.tell(parts.incidents.ended(ended))
        case = parts.incidents.deaths.case_of(found.incarnation)
        self._moved(found, parts.watch.ended(ended, case.fault if case is not None else None))
        parts.prober.gone(found.pid)
        parts.release.gone(found.pid)
        self._recent.gone(found.pid)
        parts.feeds.ended(found.pid)
        parts.feeds.dying()
        for known in (self._wishes, self._notes):
            known.pop(found.pid, None)
        self._dumping.discard(found.pid)
        self.out.gone(ended)

    def _brief(self, ended: Ended) -> None:
        """It came and went between two looks. A status alone is a matter of whoever typed the command, unless
        a unit or a container ran it."""
        found = ended.found
        self.parts.roster.ended(ended)
        managed = found.place.unit is not None or found.place.container is not None
        if ended.signal is not None or managed:
            self.out.tell(self.parts.incidents.ended(ended))
        self.out.brief(ended)

    def _dumps(self) -> None:
        for pid in self.parts.discovery.dumping - self._dumping:
            found = self.parts.roster.by_pid(pid)
            self._dumping.add(pid)
            if found is not None:
                self._dumps_core(found)

    def _dumps_core(self, found: Found) -> None:
        """The first sign of most deaths: the kernel has begun to write the core."""
        evidence = dump_fact(found, self._wall(), self._mono())
        self.out.facts.append(evidence)
        self._moved(found, self.parts.watch.note(evidence, found.incarnation))
        self.out.tell(self.parts.incidents.dumping(found, evidence))

    # What is told

    def _stream(self, stream: Stream) -> None:
        for _ in range(GRACE_BATCHES):
            batch = stream.poll()
            if batch.evidence or batch.gaps or batch.cursor is not None:
                self._batch(stream.name, batch)
            if not batch.more:
                return

    def _batch(self, name: str, batch: Batch) -> None:
        told = [self._fact(evidence) for evidence in batch.evidence]
        placed = tuple(item for item in told if not self._recent.keeps(item))
        same = Batch(placed, batch.cursor, batch.gaps, batch.more)
        self.parts.store.put(Write(yields=(yielded(name, same, self._wall()),)))

    def _fact(self, evidence: Evidence) -> Evidence:
        """Put one fact where it belongs; the same fact with the life it is about."""
        found = self.parts.roster.of(evidence)
        if found is None:
            self.out.tell(self.parts.incidents.evidence(evidence, None))
            return evidence
        own = evidence
        if evidence.incarnation != found.incarnation:
            own = evidence.model_copy(update={"incarnation": found.incarnation})
        self._asked_to_stop(found, own)
        self._moved(found, self.parts.watch.note(own, found.incarnation))
        self.out.tell(self.parts.incidents.evidence(own, found))
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
            self.out.tell(parts.incidents.troubles.settle(parts.roster.living))
        if parts.delivery is not None:
            parts.delivery.step()

    def _answers(self, who: Incarnation, evidence: Iterable[Evidence]) -> None:
        found = self.parts.roster.by_pid(who.pid or 0)
        if found is None or found.incarnation != who:
            return
        for item in evidence:
            self._moved(found, self.parts.watch.note(item, who))
            if worth_keeping(item):
                self.out.facts.append(item)

    def _moved(self, found: Found, transition: Transition | None) -> None:
        """A server's state changed."""
        if transition is None:
            return
        parts = self.parts
        self.out.moved(found, transition)
        if parts.devices:
            self.out.facts += held_memory(found, transition, self._view(found))
        troubled = transition.new in ("stranded", "hung", "dumping")
        if troubled:
            self.out.facts += self._recent.take(found.pid)
        facts = parts.watch.facts(found.incarnation) if troubled else ()
        self.out.facts += facts
        self.out.tell(parts.incidents.changed(found, transition, facts))
        if transition.new == "dumping" and found.pid not in self._dumping:
            self._dumping.add(found.pid)
            self._dumps_core(found)

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
            self.out.facts.append(evidence)
            self.out.tell(parts.incidents.troubles.noted(found, evidence))
            parts.log.warning("release", evidence.text, **named(found))

    # What becomes of it

    def _judgements(self) -> None:
        records, files = self.parts.incidents.tick()
        self.out.tell(records)
        self.out.files(files)

    def _commit(self, due: bool) -> None:
        rows: Iterable[ServerRow] = ()
        if due:
            self.out.flips(self._mono())
            parts = self.parts
            watched = [each for each in parts.roster.living if self._is_watched(each.pid)]
            rows = self.out.due_rows(watched, self._view, self._notes, self._mono(), self._wall())
        self.out.commit(rows, self._sign_of_life() if due else None)

    def _sign_of_life(self) -> str | None:
        now = self._mono()
        if now - self._beat < BEAT_SECONDS:
            return None
        self._beat = now
        return health_of(self.parts)

    def _view(self, found: Found) -> StateView | None:
        return self.parts.watch.view(found.incarnation)

    def _is_watched(self, pid: int) -> bool:
        wishes = self._wishes.get(pid)
        return wishes is not None and wishes.watch
