"""Return addresses found by looking through the stack, where no unwind tables are at hand.

Every word of the stack that points into code is a candidate. Where the code is at hand, only those behind a
call instruction are kept. Both kinds include words left over from earlier calls, so such a stack says
which functions were active lately, never in which order they certainly called each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.calls import LONGEST_CALL, indirect_call, near_call_target
from analyzers.core.memory import WORD, Memory
from analyzers.core.model import Core, ThreadRegisters
from analyzers.core.text import Text
from analyzers.stacks.eustack import module_offset
from analyzers.stacks.trust import GUESSED, REGISTER, SCANNED

SCAN_BYTES = 256 << 10  # of one thread's stack: the deepest ordinary handler's stack seen here is 40 KB
MAX_FRAMES = 64  # as many as the unwinder gives
MAX_GUESSES = 16  # words into code that is not at hand: more of them add noise, not knowledge
REPEAT_LIMIT = 2  # an address found more often is counted on, not listed again


class Scan:
    """Scans the stacks of one core."""

    def __init__(self, core: Core, memory: Memory, text: Text) -> None:
        self._core, self._memory, self._text = core, memory, text
        self._code = sorted((s.address, s.address + s.size) for s in core.segments if s.executable)

    def stack(self, thread: ThreadRegisters, crashed: bool) -> StackFact | None:
        """The thread's instruction and the candidates above its stack pointer; None where none is found."""
        ip, sp = thread.registers.get("rip", 0), thread.registers.get("rsp", 0)
        words = self._memory.words(sp + -sp % WORD, SCAN_BYTES)
        frames = list(self._frames(words))
        if not frames:
            return None
        first = located(self._core, ip, REGISTER)
        return StackFact(tid=thread.tid, crashed=crashed, rung="scan", frames=(first, *frames))

    def _frames(self, words: tuple[int, ...]) -> Iterator[Frame]:
        seen, guesses, given = dict[int, int](), 0, 0
        for word in words:
            way = self._way(word)
            seen[word] = seen.get(word, 0) + (way is not None)
            if way is None or seen[word] > REPEAT_LIMIT or given >= MAX_FRAMES:
                continue
            guesses += way == GUESSED
            if way == GUESSED and guesses > MAX_GUESSES:
                continue
            given += 1
            yield located(self._core, word, way)

    def _way(self, word: int) -> str | None:
        """How far ``word`` is a return address: behind a call, unknown code, or not at all."""
        if not self._is_code(word):
            return None
        code = self._text.read(word - LONGEST_CALL, LONGEST_CALL)
        if len(code) < LONGEST_CALL:
            return GUESSED
        target = near_call_target(code, word)
        called = target is not None and self._is_code(target)
        return SCANNED if called or indirect_call(code) else None

    def _is_code(self, address: int) -> bool:
        return any(low < address < high for low, high in self._code)


def located(core: Core, address: int, trust: str | None = None) -> Frame:
    """A frame at ``address`` by module and offset, without a name."""
    offset, path = module_offset(core, address)
    build_id = core.build_ids.get(path) if path else None
    module = Path(path).name if path else None
    return Frame(ip=address, offset=offset, module=module, build_id=build_id, trust=trust)
