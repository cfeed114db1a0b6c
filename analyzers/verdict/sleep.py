"""What the log says about sleep in this incarnation: the WHY question's first witness.

Log lines come BEFORE the act they name, none says that a wake has finished, and a crash can lose the
last ones (field experiments; docs/verdicts.md). So the log gives a phase, never a proof. The reading itself
is ``analyzers.logs.timeline``; here its ids become the facts that the rules name as witnesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzers.contracts.facts import LogFact
from analyzers.logs.reading import Life
from analyzers.logs.timeline import SleepTimeline, Stranded, timeline_of
from analyzers.verdict.case import Case, Seen

HTTP_ERROR = 400
UP = ("listening", "loaded")


@dataclass(frozen=True)
class SleepStory:
    """The sleep transitions of one incarnation as its log tells them."""

    timeline: SleepTimeline
    transitions: tuple[Seen[LogFact], ...] = ()
    stop: Seen[LogFact] | None = None
    started: bool = False
    stranded: tuple[Stranded, ...] = ()
    failed_asleep: tuple[Seen[LogFact], ...] = ()  # error answers while asleep: their handlers began before

    @property
    def phase(self) -> str:
        """Phase id at the end of the log."""
        return self.timeline.phase

    @property
    def slept(self) -> bool:
        """True when the log holds a sleep line of this incarnation that no client could have written."""
        return self.timeline.sleep_evidence

    @property
    def just_woken(self) -> bool:
        """The log ends in a wake, or in a finished one that no task has followed yet."""
        fresh = self.phase == "first-request-after-wake" and self.timeline.tasks_since_wake == 0
        return self.phase == "waking" or fresh

    @property
    def tasks_after_wake(self) -> int:
        """Tasks launched since the last wake, whatever came after them."""
        return self.timeline.tasks_since_wake

    @property
    def witnesses(self) -> tuple[str, ...]:
        """Ids of the transitions that matter: the last two."""
        return tuple(seen.id for seen in self.transitions[-2:])


def tell(case: Case) -> SleepStory:
    """Read the log's events as one life."""
    timeline = timeline_of(_life(case))
    names = set(timeline.sleep_ids)
    events = {seen.fact.event for seen in case.log}
    stops = case.events("stopping", "cleaning-up")
    return SleepStory(
        timeline=timeline,
        transitions=tuple(seen for seen in case.log if seen.id in names),
        stop=stops[-1] if stops and timeline.stop_requested else None,
        started=timeline.loaded or bool(names) or bool(events.intersection(UP)),
        stranded=tuple(_believable(case, timeline.stranded)),
        failed_asleep=tuple(_failed_asleep(case)),
    )


def _believable(case: Case, stranded: Sequence[Stranded]) -> list[Stranded]:
    """Without a client's own lines; without stamps the scrape's look-alike cannot be excluded."""
    forged = {seen.id for seen in case.log if seen.forgeable}
    kept = [item for item in stranded if item.evidence_id not in forged]
    return [item if item.early or item.delay is not None else replace(item, lookalike=True) for item in kept]


def _life(case: Case) -> Life:
    counts = Counter(seen.fact.event for seen in case.log)
    return Life(index=0, evidence=tuple(seen.evidence for seen in case.log), counts=counts)


def _failed_asleep(case: Case) -> list[Seen[LogFact]]:
    found, asleep = [], False
    for seen in case.log:
        event = seen.fact.event
        if event in ("enter-sleep", "exit-sleep") and not seen.forgeable:
            asleep = event == "enter-sleep"
        elif event == "request" and asleep and (seen.fact.status or 0) >= HTTP_ERROR:
            found.append(seen)
    return found
