"""Which pages of a dying process prove its queue's state, from its threads' registers alone.

For whoever writes a small core: a ``server_queue`` of the known builds lies around the futex words that its
threads are blocked on, so a page or two for each such word are all that ``loop_state`` needs. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterable

PAGE = 4096
SYS_FUTEX = 202
# From the queue's start to the last futex word a thread may wait on: worker condition (352) + 44.
BEFORE = 352 + 44
# From the first such word, the mutex (176), to the queue's end (504).
AFTER = 504 - 176
MAX_PAGES = 128  # 64 threads, two pages each


def queue_pages(waiting: Iterable[tuple[int, int]]) -> list[int]:
    """Page addresses to dump for (syscall number, first argument) of each thread, as NT_PRSTATUS (orig_rax,
    rdi) or /proc/PID/task/TID/syscall give them. Ascending, each once, at most MAX_PAGES."""
    pages: set[int] = set()
    for number, word in waiting:
        if number == SYS_FUTEX and word >= BEFORE:
            pages.update(range((word - BEFORE) & -PAGE, word + AFTER, PAGE))
    return sorted(pages)[:MAX_PAGES]
