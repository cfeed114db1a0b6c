"""The agent's own log: one JSON object a line, with the priority that journald reads before it."""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TextIO

from analyzers.privacy.visible import visible

LEVELS = {"error": 3, "warning": 4, "info": 6, "debug": 7}  # syslog(3)
# The same complaint every second would drown the journal that others are read from.
REPEAT_SECONDS = 60.0
MAX_REMEMBERED = 500
MAX_VALUE = 1000  # characters of one value


class Log:
    """``log.info("event-id", "words", name=value)``. Values come from a hostile host: they are bounded, and
    escaped by JSON. An equal event of one process (``pid``) with equal words is said once in a minute, with a
    count."""

    def __init__(
        self,
        level: str = "info",
        *,
        stream: TextIO | None = None,
        mono: Callable[[], float] = time.monotonic,
        prefixed: bool = True,
    ) -> None:
        self.level = LEVELS[level]
        self._stream = stream or sys.stderr
        self._mono = mono
        self._prefixed = prefixed
        self._said: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def error(self, event: str, words: str, **values: object) -> None:
        self._say("error", event, words, values)

    def warning(self, event: str, words: str, **values: object) -> None:
        self._say("warning", event, words, values)

    def info(self, event: str, words: str, **values: object) -> None:
        self._say("info", event, words, values)

    def debug(self, event: str, words: str, **values: object) -> None:
        self._say("debug", event, words, values)

    def _say(self, level: str, event: str, words: str, values: dict[str, object]) -> None:
        if LEVELS[level] > self.level:
            return
        suppressed = self._suppressed(event, f"{words} {values.get('pid', '')}")
        if suppressed is None:
            return
        record: dict[str, object] = {"level": level, "event": event, "message": _bounded(words)}
        record.update({name: _bounded(value) for name, value in values.items() if value is not None})
        if suppressed:
            record["suppressed"] = suppressed
        start = f"<{LEVELS[level]}>" if self._prefixed else ""
        try:
            print(f"{start}{json.dumps(record, ensure_ascii=True)}", file=self._stream, flush=True)
        except OSError:
            return  # a full disk, a reader that left: the agent's work goes on without its log

    def _suppressed(self, event: str, words: str) -> int | None:
        """How often this was held back since it was last said; None when it is to be held back now."""
        now, key = self._mono(), (event, words)
        at, count = self._said.get(key, (None, 0))
        if at is not None and now - at < REPEAT_SECONDS:
            self._said[key] = (at, count + 1)
            return None
        self._said[key] = (now, 0)
        self._said.move_to_end(key)
        while len(self._said) > MAX_REMEMBERED:
            self._said.popitem(last=False)
        return count


def _bounded(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    return visible(str(value))[:MAX_VALUE]
