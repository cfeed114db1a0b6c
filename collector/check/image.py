"""How large a core of a living process would be: its maps against coredump_filter, as the kernel decides.

The rules are fs/coredump.c's vma_dump_size(): see core(5). A page that was never touched is a hole in a
file and zeros in a pipe, so that ``size`` and ``written`` differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ANON_PRIVATE, ANON_SHARED, FILE_PRIVATE, FILE_SHARED, ELF_HEADERS, HUGE_PRIVATE, HUGE_SHARED = range(7)
PAGE = 4096
NOTES = (
    64 << 10
)  # bytes of notes and program headers; 17 KB of registers a thread come on top in wide machines
_ROW = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+)\s*(.*)$")
_DEVICES = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "anon_inode:dma", "/dmabuf")
_KERNEL_MADE = ("[vdso]", "[vsyscall]", "[vvar]", "[vvar_vclock]")


@dataclass
class Mapping:
    """One map of /proc/PID/smaps, sizes in bytes."""

    size: int
    access: str
    offset: int
    inode: int
    path: str
    fields: dict[str, int] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    @property
    def touched(self) -> int:
        return self.fields.get("Rss", 0) + self.fields.get("Swap", 0)

    @property
    def anonymous(self) -> int:
        """Pages of its own: never from a file, or written since."""
        return self.fields.get("Anonymous", 0) + self.fields.get("Swap", 0)

    @property
    def file(self) -> bool:
        return self.inode != 0

    @property
    def device(self) -> bool:
        return self.path.startswith(_DEVICES)


@dataclass(frozen=True)
class Image:
    """Sums in bytes. ``anonymous``: private memory of its own that is dumped; ``largest`` the largest map;
    ``withheld``: private memory of its own that MADV_DONTDUMP keeps out; ``device``: maps of a GPU's driver;
    ``left_out``: what the filter leaves out that is not read from a file."""

    size: int = 0
    written: int = 0
    anonymous: int = 0
    largest: int = 0
    withheld: int = 0
    device: int = 0
    left_out: int = 0
    files: frozenset[str] = frozenset()


def read_image(smaps: str, filter_bits: int) -> Image:
    """The core's size of the process with these ``/proc/PID/smaps`` and ``coredump_filter``."""
    size = written = NOTES
    anonymous = largest = withheld = device = left_out = 0
    files = set()
    for one in mappings(smaps):
        whole, present = dumped(one, filter_bits)
        size, written = size + whole, written + present
        if one.file:
            files.add(one.path.removesuffix(" (deleted)"))
        if one.device:
            device += one.size
        elif not one.file and whole:
            anonymous, largest = anonymous + one.touched, max(largest, one.touched)
        elif "dd" in one.flags and not one.path.startswith("["):
            withheld += one.anonymous
        elif not one.file and one.touched and one.path not in _KERNEL_MADE:
            left_out += one.touched
    return Image(size, written, anonymous, largest, withheld, device, left_out, frozenset(files))


def mappings(smaps: str) -> Iterator[Mapping]:
    """Every map, in order; a text cut anywhere loses only its last one's figures."""
    now = None
    for line in smaps.splitlines():
        found = _ROW.match(line)
        if found:
            if now is not None:
                yield now
            low, high = int(found[1], 16), int(found[2], 16)
            now = Mapping(high - low, found[3], int(found[4], 16), int(found[5]), found[6])
        elif now is not None:
            _add(now, line)
    if now is not None:
        yield now


def _add(one: Mapping, line: str) -> None:
    name, _, rest = line.partition(":")
    words = rest.split()
    if name == "VmFlags":
        one.flags = frozenset(words)
    elif words and words[0].isdigit() and len(words[0]) < 16 and words[-1] == "kB":
        one.fields[name] = int(words[0]) << 10


def dumped(one: Mapping, bits: int) -> tuple[int, int]:
    """(bytes of the map in the core, of these not holes)."""

    def has(bit: int) -> bool:
        return bool(bits >> bit & 1)

    shared = one.access.endswith("s") or "sh" in one.flags
    if one.path in ("[vdso]", "[vsyscall]"):
        return one.size, one.size
    if one.flags & {"dd", "io"} or one.path in _KERNEL_MADE:
        return 0, 0
    if "ht" in one.flags:
        return (one.size, one.size) if has(HUGE_SHARED if shared else HUGE_PRIVATE) else (0, 0)
    if shared:
        unlinked = not one.file or one.path.endswith(" (deleted)")
        return (one.size, one.touched) if has(ANON_SHARED if unlinked else FILE_SHARED) else (0, 0)
    if one.anonymous and has(ANON_PRIVATE):
        # One written page pulls the whole map in, and the file's other pages are read for it.
        return one.size, one.size if one.file else one.touched
    if not one.file:
        return 0, 0
    if has(FILE_PRIVATE):
        return one.size, one.size
    return (PAGE, PAGE) if has(ELF_HEADERS) and one.offset == 0 and one.access[0] == "r" else (0, 0)
