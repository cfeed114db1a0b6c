"""Where the dynamic linker keeps its list of libraries (``struct r_debug``, ``struct link_map``, link.h).

gdb follows the list; the entries of libraries that were loaded later (a Python module) stand in the heap,
which a minimal core does not hold.
"""

from struct import Struct

from collector.capture.crash import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT_PHDR, _AT_PHNUM = 3, 5
_PT_DYNAMIC, _PT_PHDR, _DT_DEBUG = 2, 6, 21
_PHDR = Struct("<IIQQQQQQ")
_LINK_MAP = Struct("<QQQQQ")  # l_addr, l_name, l_ld, l_next, l_prev
_MOST_PHDRS = 64
_DYNAMIC_BYTES = 4096  # 256 entries; a program has about 40
_NAME_BYTES = 4096  # PATH_MAX
_STRUCT_BYTES = 2048  # the linker's own part of a link_map follows the public one; no reader needs all


def library_list(read: "Callable[[int, int], bytes]", auxv: dict[int, int]) -> "Iterator[tuple[int, int]]":
    """(address, size) of every part of the list; nothing for a static program, the beginning where the list
    is damaged."""
    debug = _debug_address(read, auxv)
    if not debug:
        return
    yield debug, 40
    row = int.from_bytes(read(debug + 8, 8), "little")
    seen: set[int] = set()
    while row and row not in seen and len(seen) < limits.LINK_MAPS:
        seen.add(row)
        data = read(row, _LINK_MAP.size)
        if len(data) < _LINK_MAP.size:
            return
        yield row, _STRUCT_BYTES
        _, name, _, row, _ = _LINK_MAP.unpack(data)
        length = read(name, _NAME_BYTES).find(b"\0") if name else -1
        if length > 0:
            yield name, length + 1


def _debug_address(read: "Callable[[int, int], bytes]", auxv: dict[int, int]) -> int:
    at, count = auxv.get(_AT_PHDR, 0), min(auxv.get(_AT_PHNUM, 0), _MOST_PHDRS)
    data = read(at, count * _PHDR.size) if at and count else b""
    rows = list(_PHDR.iter_unpack(data[: len(data) - len(data) % _PHDR.size]))
    base = next((at - row[3] for row in rows if row[0] == _PT_PHDR), 0)
    for row in rows:
        if row[0] == _PT_DYNAMIC and base + row[3] >= 0:
            table = read(base + row[3], min(row[6], _DYNAMIC_BYTES))
            for tag, value in Struct("<QQ").iter_unpack(table[: len(table) & -16]):
                if tag == _DT_DEBUG:
                    return int(value)
    return 0
