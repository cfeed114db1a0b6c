"""Whose life a log tells of, where several incidents could own it: one alone, or nobody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analyzers.triage.lives import CLOCKS, CONTAINERS, Life, follows
from analyzers.triage.relations import NEAR_S, Same, ports_of, same_life
from analyzers.triage.subjects import Open
from analyzers.triage.ties import by_word, folder_of, nameless


def homes_of_lives(lives: Sequence[Life], found: Sequence[Open]) -> Iterator[tuple[Life, Open]]:
    """Lives that one incident alone can have, by name, by their lines, by port, or by the clock."""
    rules = (_by_name, _by_lines, _by_port, _by_folder, _by_clock)
    left = list(lives)
    for rule in rules:
        pairs = [
            (life, one)
            for life in left
            for one in found
            if not _has_other(one, life) and rule(life, one, lives)
        ]
        for life, one in pairs:
            alone = sum(other is life for other, _ in pairs) == 1
            lone = rule is _by_lines or sum(home is one for _, home in pairs) == 1
            if alone and lone:
                left = [each for each in left if each is not life]
                if rule in (_by_port, _by_folder) and one.core is not None and nameless(life):
                    one.gaps.append(by_word(life.name, one.process, [life]))
                yield life, one


def _has_other(incident: Open, life: Life) -> bool:
    """A process has one life, though more than one text may hold it."""
    return any(same_life(own, life) is Same.NO for own in incident.lives)


def _by_name(life: Life, incident: Open, _: Sequence[Life]) -> bool:
    named = life.pid is not None and life.pid == incident.who.pid and incident.who.same_as(life.who)
    return named and _ran(life, incident) is not False


def _by_lines(life: Life, incident: Open, _: Sequence[Life]) -> bool:
    return any(same_life(own, life) is Same.YES for own in incident.lives)


def _by_port(life: Life, incident: Open, _: Sequence[Life]) -> bool:
    if life.form in CONTAINERS or incident.counts_apart:
        return False  # every container has a port 8080 of its own
    tied = life.listens is not None and life.listens in ports_of(incident)
    return tied and _may_be(life, incident) and _ran(life, incident) is not False


def _by_folder(life: Life, incident: Open, lives: Sequence[Life]) -> bool:
    """A core and the only log of its folder: whoever gave the folder put them together."""
    if incident.core is None or not incident.evidence:
        return False
    folder = folder_of(life.name)
    there = [one for one in lives if folder_of(one.name) == folder]
    paired = bool(folder) and len(there) == 1 and folder_of(incident.evidence[0].source) == folder
    return paired and _may_be(life, incident) and _ran(life, incident) is not False


def _by_clock(life: Life, incident: Open, lives: Sequence[Life]) -> bool:
    if not _may_be(life, incident) or _ran(life, incident) is not True:
        return False
    later = [other for other in lives if any(follows(other, life, clock) for clock in CLOCKS)]
    return all(_ran(other, incident) is False for other in later)


def _may_be(life: Life, incident: Open) -> bool:
    ports = ports_of(incident)
    apart = life.listens is not None and bool(ports) and life.listens not in ports
    return incident.who.same_as(life.who) and not apart


def _ran(life: Life, incident: Open) -> bool | None:
    """Whether the life had begun when the incident's process died; None when no clock dates both."""
    for clock in CLOCKS:
        stamps = [at for item in life.items if (at := incident.at(item, clock)) is not None]
        died = incident.died(clock)
        if stamps and died is not None:
            return stamps[0] <= died + NEAR_S
    return None
