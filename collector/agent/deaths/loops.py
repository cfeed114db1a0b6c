"""Crash loops: a server that dies again and again, or is started no more, is one incident of its own."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from analyzers.contracts.incident import IncidentRecord, Restart, incident_id
from collector.agent.deaths.book import Clock

# systemd's own limit is 5 starts in 10 s; RestartSec of seconds and a model's load time stretch it.
LOOP_DEATHS = 3
LOOP_SECONDS = 600.0
MAX_LOOPS = 200
MAX_DEATHS = 50  # ids that stand in the record; more are counted


@dataclass
class _Deaths:
    """The latest deaths of one server, (CLOCK_MONOTONIC, record), and the loop they belong to."""

    times: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=LOOP_DEATHS))
    loop: IncidentRecord | None = None
    last: float = 0.0
    count: int = 0


class LoopBook:
    """Told of every death once, by the name that the server keeps over its restarts."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._servers: OrderedDict[str, _Deaths] = OrderedDict()

    def died(self, identity: str, death: IncidentRecord) -> list[IncidentRecord]:
        """A loop's record, opened or revised by this death; none when this is no loop."""
        now, deaths = self._clock.mono(), self._of(identity)
        if any(known == death.id for _, known in deaths.times):
            return []
        if now - deaths.last > LOOP_SECONDS:
            deaths.loop, deaths.count = None, 0
            deaths.times.clear()
        deaths.last, deaths.count = now, deaths.count + 1
        deaths.times.append((now, death.id))
        if deaths.loop is not None:
            return self._revised(deaths, [*deaths.loop.deaths, death.id])
        if len(deaths.times) < LOOP_DEATHS:
            return []
        return self._opened(deaths, death, [known for _, known in deaths.times])

    def gave_up(self, identity: str, death: IncidentRecord | None) -> list[IncidentRecord]:
        """The supervisor starts it no more (StartLimit)."""
        deaths = self._of(identity)
        if deaths.loop is None and death is not None:
            self._opened(deaths, death, [known for _, known in deaths.times] or [death.id])
        if deaths.loop is None or (deaths.loop.restart is not None and deaths.loop.restart.limit_hit):
            return []
        deaths.loop = deaths.loop.model_copy(update={"restart": Restart(reason="supervisor", limit_hit=True)})
        return self._revised(deaths, deaths.loop.deaths)

    def _of(self, identity: str) -> _Deaths:
        found = self._servers.setdefault(identity, _Deaths())
        self._servers.move_to_end(identity)
        while len(self._servers) > MAX_LOOPS:
            self._servers.popitem(last=False)
        return found

    def _opened(self, deaths: _Deaths, death: IncidentRecord, ids: list[str]) -> list[IncidentRecord]:
        wall = self._clock.wall()
        deaths.loop = IncidentRecord(
            # Named after its first death: a restarted agent that sees one death more opens no second loop.
            id=incident_id("crash-loop", death.server.incarnation, ids[0]),
            revision=0,
            kind="crash-loop",
            opened_wall=wall,
            opened_mono=self._clock.mono(),
            revised_wall=wall,
            boot_id=death.boot_id,
            server=death.server,
        )
        return self._revised(deaths, ids)

    def _revised(self, deaths: _Deaths, ids: list[str]) -> list[IncidentRecord]:
        assert deaths.loop is not None  # noqa: S101  opened by the caller
        limit = deaths.loop.restart is not None and deaths.loop.restart.limit_hit
        name = (
            deaths.loop.server.unit or deaths.loop.server.container or deaths.loop.server.model or "a server"
        )
        end = "; its supervisor starts it no more" if limit else ""
        deaths.loop = deaths.loop.model_copy(
            update={
                "revision": deaths.loop.revision + 1,
                "revised_wall": self._clock.wall(),
                "deaths": ids[-MAX_DEATHS:],
                "summary": f"{name} died {max(deaths.count, len(ids))} times in a row{end}",
            }
        )
        return [deaths.loop]
