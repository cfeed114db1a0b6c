"""Memory that registers point to: the object a thread works on, and the queue that a waiting one waits in.

The server's queue stands in a heap too large for a minimal core. A thread that waits in it holds the
address of its futex in rdi; whether it is the queue is told by the deques it holds, so their places are kept
as well (analyzers.core.queue).
"""

from struct import Struct

from collector.capture.crash import limits
from collector.capture.crash.maps import Maps
from collector.capture.crash.notes import ORIG_RAX, Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from collector.capture.crash.memory import Kept

_GENERAL = 15  # the first 15 of user_regs_struct: r15 … rdi
_RDI = 14
_FS_BASE = 21  # glibc's struct pthread, by which gdb's thread library finds the thread
_FUTEX = 202  # x86-64
_WORD = Struct("<Q")


def keep_pointed(
    kept: "Kept", maps: Maps, threads: "Sequence[Thread]", read: "Callable[[int, int], bytes]"
) -> None:
    """Keep what the registers of ``threads`` point to in writable memory, the first threads first."""
    before = kept.bytes
    for thread in threads[: limits.POINTED_THREADS]:
        if kept.bytes - before >= limits.POINTED_BYTES:
            return
        for value in dict.fromkeys(thread.registers[:_GENERAL]):
            _near(kept, maps, value, limits.POINTED_NEAR)
        _near(kept, maps, thread.registers[_FS_BASE], limits.THREAD_BLOCK)
        if thread.registers[ORIG_RAX] == _FUTEX:
            word = thread.registers[_RDI]
            block = read(max(0, word - limits.QUEUE_BEFORE), limits.QUEUE_BEFORE + limits.QUEUE_AFTER)
            for (value,) in _WORD.iter_unpack(block[: len(block) & -8]):
                _near(kept, maps, value, _WORD.size)


def _near(kept: "Kept", maps: Maps, value: int, reach: int) -> None:
    mapping = maps.at(value)
    if (
        mapping is not None
        and mapping.writable
        and mapping.readable
        and not mapping.path.startswith(b"/dev/")
    ):
        low, high = max(mapping.start, value - reach), min(mapping.end, value + reach)
        kept.take(low, high, mapping.flags)
