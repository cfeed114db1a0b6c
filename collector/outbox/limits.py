"""The outbox's numbers, each with its reason."""

from __future__ import annotations

DEFAULT_BYTES = 1 << 30  # as the agent's settings: weeks of incidents, and a day of a busy host's attachments
# Of the whole: a steady stream of log lines must not push out the attachments of real incidents.
EVIDENCE_SHARE = 0.25
SLACK = 1 / 16  # room made beyond what is needed, so that not every commit has to make some
FLUSH_SECONDS = 1.0  # one sync a second is nothing to any disk, and a line is at most a second from safe
PAGE = 4096  # bytes, SQLite's own default
WAL_BYTES = 8 << 20  # of the log, at most: some twenty seconds of a busy host's lines
RETRY_SECONDS = (
    2.0  # between tries while the disk is full: soon enough for a person who just freed some space
)
# 100 servers at 10 lines a second fill this in half a minute of a full disk; the agent stays below 80 MB.
MEMORY_BYTES = 12 << 20
MEMORY_TRANSITIONS = 10_000
MEMORY_INCIDENTS = 1000  # 20 KB each at the very most
MAX_EVIDENCE = 64 << 10  # bytes of one fact's JSON; a log line has 200
MAX_TEXT = 4096  # characters of the text of a fact that is over it
MAX_RECORD = 256 << 10  # a good record has 2 to 20 KB
MAX_SIGNS = 16
MAX_ATTACHMENT = 256 << 20  # bytes; a bundle has some 100 KB, a minimal core under 1 MB
MAX_TRANSITIONS = 50_000  # rows: 100 servers that sleep and wake every quarter of an hour, for five days
CHUNK = 1 << 16
CHECKED_BYTES = 64 << 20  # a database up to this is checked whole on opening: a fifth of a second at most
BUSY_SECONDS = 5.0  # a reader recovering a log after a crash, the only thing that can hold the writer up
EVICT_ROWS = 5000  # of one look for old evidence
