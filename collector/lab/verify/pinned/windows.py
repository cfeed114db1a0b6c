"""Where in a request the sleep has to come, planned from how long the awake server takes for it here."""

from __future__ import annotations

from dataclasses import dataclass

# Reading begins once the body has been sent and parsed and ends with the answer or the post: both ends of
# a long request are left out, and the sleep is wanted well before its end, as an unload takes its time too.
READER_BEGIN, READER_AIM, READER_END = 0.1, 0.4, 0.85
# Between the last read and the post: a margin of the window's width on both sides, the sleep in the middle.
POST_MARGIN = 0.1
# A window must hold a sleep that misses its moment by a few milliseconds; the median goal is 3.
NARROWEST = 0.012
# From the poke's shadow: a request sent after the limit is met by the loop's own wait 0.5 s later.
ROOM = 0.45


@dataclass(frozen=True)
class Window:
    """Seconds from sending. A sleep counts from ``begin`` to ``end`` and is wanted at ``aim``."""

    begin: float
    aim: float
    end: float

    @property
    def width(self) -> float:
        return self.end - self.begin

    def holds(self, offset: float) -> bool:
        return self.begin <= offset <= self.end


def reader_window(awake: float, room: float = ROOM) -> Window | None:
    """D2: while the request reads the model. ``awake``: seconds the shortest awake answer took.

    None when the window is narrower than a pinned sleep can be placed.
    """
    window = Window(awake * READER_BEGIN, min(awake * READER_AIM, room), awake * READER_END)
    return window if wide_enough(window) else None


def post_window(last_read: float, posted: float, room: float = ROOM) -> Window | None:
    """D3: after the request's last read and before its tasks are queued.

    ``last_read`` is when the same request without its slow part was taken up, ``posted`` the earliest moment
    at which the whole one's first task was. None when too little lies between.
    """
    margin = max(0.0, posted - last_read) * POST_MARGIN
    begin, end = last_read + margin, posted - margin
    window = Window(begin, min((begin + end) / 2, max(begin, room)), end)
    return window if wide_enough(window) else None


def wide_enough(window: Window) -> bool:
    """Wide enough for a few milliseconds of error, and its aim within reach of a pin."""
    return window.width >= NARROWEST and window.aim - window.begin >= NARROWEST / 2
