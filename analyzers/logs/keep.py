"""Bounded memory for events: the first and the last of each group are kept, the rest is counted."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

FIRST_KEPT = 16  # how it began: start, load, first sleeps
LAST_KEPT = 48  # how it ended: the last handful of sleep cycles and every slot's last task
FALL_BACK = 1.0  # seconds an elapsed stamp may fall between neighbours without a new process
RECENT = 8  # stamps remembered: so few forged lines in a row are seen through
RAW_KEPT = 2048  # bytes of a kept line; every telling pattern ends long before

SLEEP_STEPS = frozenset({"enter-sleep", "exit-sleep", "task-cancelled"})

T = TypeVar("T")


@dataclass
class Keeper(Generic[T]):
    """The first FIRST_KEPT and last LAST_KEPT items given to ``add``; ``count`` of all."""

    count: int = 0
    first: list[T] = field(default_factory=list)
    last: deque[T] = field(default_factory=lambda: deque(maxlen=LAST_KEPT))

    def add(self, item: T) -> None:
        self.count += 1
        (self.first if self.count <= FIRST_KEPT else self.last).append(item)

    @property
    def items(self) -> list[T]:
        return [*self.first, *self.last]

    @property
    def skipped(self) -> int:
        return self.count - len(self.first) - len(self.last)


@dataclass(frozen=True)
class Kept:
    """One kept line: its number, its bytes (cut), and its place among the lines of its group."""

    line: int
    raw: bytes
    group: str
    event: str
    place: int
    wall: float | None = None
    mono: float | None = None


@dataclass
class LifeState:
    """A life while its lines are still coming in."""

    stream: str
    key: str = ""
    port: str | None = None
    pid: int | None = None
    boot_id: str | None = None
    restarted_in_place: bool = False
    turned: bool = False
    groups: dict[str, Keeper[Kept]] = field(default_factory=dict)
    stranded: Keeper[Kept] = field(default_factory=Keeper)
    counts: Counter[str] = field(default_factory=Counter)
    marks: set[str] = field(default_factory=set)
    progressed: bool = False
    asleep_since: Kept | None = None
    cancelled_asleep: int = 0
    blamed: Kept | None = None  # the entering line of the last such cancel
    first_line: int = 0
    last_line: int = 0
    last_elapsed: float | None = None
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(
        self,
        line: int,
        raw: bytes,
        group: str,
        event: str,
        wall: float | None = None,
        mono: float | None = None,
    ) -> None:
        """Count the line and keep it if it is among the first or last of its group."""
        self.counts[event] += 1
        keeper = self.groups.get(group)
        if keeper is None:
            keeper = self.groups[group] = Keeper()
        item = Kept(line, raw[:RAW_KEPT], group, event, keeper.count, wall, mono)
        keeper.add(item)
        if not self.first_line:
            self.first_line = line
        self.last_line = line
        if event in SLEEP_STEPS:
            self.follow_sleep(item)

    def add_many(self, group: str, items: list[Kept], count: int) -> None:
        """The last ``items`` of ``count`` lines of one group; whose first ones are kept already."""
        keeper = self.groups[group]
        keeper.count += count
        keeper.last.extend(items)
        for item in items:
            if item.event in SLEEP_STEPS:
                self.follow_sleep(item)
        self.last_line = max(self.last_line, *(item.line for item in items))

    def follow_sleep(self, item: Kept) -> None:
        """Track whether the log says the server sleeps, and keep what is cancelled meanwhile."""
        if item.event == "task-cancelled":
            self._cancelled(item)
        elif item.event == "exit-sleep":
            self.asleep_since = None
        elif self.asleep_since is None:
            self.asleep_since = item

    def _cancelled(self, item: Kept) -> None:
        if self.asleep_since is None:
            return
        if self.blamed is not self.asleep_since:
            self.blamed = self.asleep_since
            self.stranded.add(self.asleep_since)
        self.cancelled_asleep += 1
        self.stranded.add(item)

    def settled(self, groups: set[str]) -> bool:
        """True when each of ``groups`` has its first lines and a full tail: only its last ones matter."""
        return all(
            group in self.groups and self.groups[group].count >= FIRST_KEPT + LAST_KEPT for group in groups
        )

    def kept(self) -> list[Kept]:
        """All kept lines of the life, each once, in the order of the lines."""
        everything = [*(i for keeper in self.groups.values() for i in keeper.items), *self.stranded.items]
        distinct = {(item.line, item.group, item.place): item for item in everything}
        sign = -1 if self.turned else 1
        return sorted(distinct.values(), key=lambda item: (sign * item.line, item.place))

    def successor(self) -> LifeState:
        """An empty life of the same stream: the process started again (in place, when it has a PID)."""
        again = self.pid is not None
        return LifeState(self.stream, self.key, self.port, self.pid, self.boot_id, again, self.turned)

    @property
    def skipped(self) -> int:
        return sum(keeper.skipped for keeper in self.groups.values())
