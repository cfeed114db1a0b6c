"""Several incidents as one table: their groups, their order and numbers, and one sentence over all.

The order never depends on the order in which the inputs were given: number 3 of a table stays number 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.report import FrameCount, Incident
from analyzers.signature.cluster import Cluster, Sample, cluster
from analyzers.triage.build import Judged, Table, process_of, standing
from analyzers.triage.witnesses import death_of, died_at, top_frame

UNDETERMINED = "UNDETERMINED"
NOT_GROUPED = "nothing says that these are one bug: each is an incident of its own"
TOP_FRAMES = 5  # of a group; what is rarer tells nothing about it
SAID_FRAMES = 3  # of the sentence over all incidents
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
LATE = float("inf")  # an incident without a time stands behind those with one


def table_of(judged: Sequence[Judged], names: Sequence[str]) -> Table:
    """The table of at least two incidents; ``names`` are those of the inputs."""
    ordered = sorted(judged, key=_order)
    groups = sorted(_groups(ordered), key=lambda group: (standing(group.best), -len(group.members), group.at))
    rows = [item for group in groups for item in group.members]
    numbers = {id(item): number for number, item in enumerate(rows, 1)}
    incidents = tuple(_incident(group, numbers, names) for group in groups)
    return Table(tuple(rows), incidents, _overview(rows, groups))


@dataclass(frozen=True)
class _Group:
    members: tuple[Judged, ...]
    at: int
    cluster: Cluster | None = None

    @property
    def best(self) -> Judged:
        return self.members[0]


def _order(item: Judged) -> tuple[object, ...]:
    """Best founded first, then by time, boot and PID, then by what was said of it."""
    process, at = process_of(item), died_at(item)
    return (
        *standing(item),
        at if at is not None else LATE,
        process.boot_id or "",
        process.pid or 0,
        item.signature.bug_key or "",
        tuple(sorted(evidence.source for evidence in item.group.evidence)),
    )


def _groups(ordered: Sequence[Judged]) -> list[_Group]:
    """Clusters of likely one bug; incidents that nothing was said of stand in one row and are no group."""
    open_ = [item for item in ordered if _unknown(item)]
    places = {f"{at:05}": item for at, item in enumerate(ordered) if not _unknown(item)}
    order = list(places)
    made = []
    for found in cluster(_sample(id_, item) for id_, item in places.items()):
        ids = sorted(found.members, key=order.index)
        made.append(_Group(tuple(places[id_] for id_ in ids), order.index(ids[0]), found))
    return [*made, _Group(tuple(open_), len(ordered))] if open_ else made


def _unknown(item: Judged) -> bool:
    return item.finding.class_ == UNDETERMINED and top_frame(item) is None


def _sample(id_: str, item: Judged) -> Sample:
    finding, crash = item.finding, item.case.crash
    return Sample(
        id_,
        finding.class_,
        item.signature.bug_key or finding.class_,
        item.signature.site_key,
        finding.defect,
        finding.handler,
        crash.stack if crash is not None else None,
    )


def _incident(group: _Group, numbers: dict[int, int], names: Sequence[str]) -> Incident:
    best, found = group.best, group.cluster
    deaths = [death_of(item, numbers[id(item)], names) for item in group.members]
    return Incident(
        key=found.key if found is not None else UNDETERMINED,
        title=best.finding.summary,
        class_=best.finding.class_,
        count=len(deaths),
        pids=[death.pid for death in deaths if death.pid is not None],
        defect=best.finding.defect,
        top_frames=[FrameCount(function=name, count=n) for name, n in _frames(group.members)[:TOP_FRAMES]],
        keys=list(found.keys) if found is not None else [],
        explain=list(found.explain) if found is not None else [NOT_GROUPED],
        deaths=deaths,
    )


def _frames(members: Sequence[Judged]) -> list[tuple[str, int]]:
    """Innermost telling frames, most frequent first, equals by name."""
    counted = Counter(name for item in members if (name := top_frame(item)) is not None)
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))


def _overview(rows: Sequence[Judged], groups: Sequence[_Group]) -> str:
    """``5 of 8 are D1, 2 D2, 1 undetermined; top frames tokenize 5; two groups, 1 in no group``."""
    counted = Counter(_label(item) for item in rows)
    ranked = sorted(counted, key=lambda label: (label == _label_open(), -counted[label], label))
    parts = [f"{counted[label]} {label}{_weak(rows, label)}" for label in ranked]
    first, total = counted[ranked[0]], len(rows)
    head = f"{first} of {total} {'is' if first == 1 else 'are'} {parts[0].partition(' ')[2]}"
    said = ["; ".join([", ".join([head, *parts[1:]])])]
    frames = [f"{_short(name)} {count}" for name, count in _frames(rows)[:SAID_FRAMES]]
    if frames:
        said.append(f"top frame{'s' if len(frames) > 1 else ''} {', '.join(frames)}")
    return "; ".join([*said, _counted(groups)])


def _label(item: Judged) -> str:
    finding = item.finding
    return _label_open() if finding.class_ == UNDETERMINED else finding.defect or finding.class_


def _label_open() -> str:
    return "undetermined"


def _weak(rows: Sequence[Judged], label: str) -> str:
    """How many of a label's verdicts are no more than the likeliest reading."""
    weak = sum(item.finding.confidence == "weak" for item in rows if _label(item) == label)
    return f" ({weak} of them weak)" if weak else ""


def _short(name: str) -> str:
    return name.rpartition("::")[2] or name


def _counted(groups: Sequence[_Group]) -> str:
    real = [group for group in groups if group.cluster is not None]
    single = sum(len(group.members) for group in groups if group.cluster is None)
    number = NUMBERS[len(real)] if len(real) < len(NUMBERS) else str(len(real))
    text = f"{number} group{'' if len(real) == 1 else 's'}"
    return f"{text}, {single} in no group" if single else text
