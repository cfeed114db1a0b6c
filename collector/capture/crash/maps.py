"""/proc/PID/maps as rows, and the question which mapping an address lies in."""

from bisect import bisect_right

from collector.capture.crash.decide import DELETED

MAX_ROWS = 1 << 17  # twice the kernel's default vm.max_map_count


class Mapping:
    """One row. ``path``: bytes, without " (deleted)"; empty for anonymous memory, or such as ``[stack]``."""

    __slots__ = ("deleted", "device", "end", "inode", "offset", "path", "permissions", "start")

    def __init__(self, line: bytes) -> None:
        fields = line.split(None, 5)
        start, _, end = fields[0].partition(b"-")
        self.start, self.end = int(start, 16), int(end, 16)
        self.permissions = fields[1]
        self.offset = int(fields[2], 16)
        self.device = fields[3]
        self.inode = int(fields[4])
        path = fields[5] if len(fields) > 5 else b""
        self.deleted = path.startswith(b"/") and path.endswith(DELETED.encode())
        self.path = path.removesuffix(DELETED.encode()) if self.deleted else path

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def is_file(self) -> bool:
        return self.path.startswith(b"/")

    @property
    def readable(self) -> bool:
        return self.permissions[:1] == b"r"

    @property
    def writable(self) -> bool:
        return self.permissions[1:2] == b"w"

    @property
    def flags(self) -> int:
        """As PF_ bits of a program header."""
        bits = zip(self.permissions[:3], (4, 2, 1), strict=True)
        return sum(bit for letter, bit in bits if letter != ord("-"))


class Maps:
    """Rows in the order of their addresses. Lines that are none are left out."""

    def __init__(self, text: bytes) -> None:
        self.rows: list[Mapping] = []
        for line in text.split(b"\n")[:MAX_ROWS]:
            try:
                self.rows.append(Mapping(line))
            except (ValueError, IndexError):
                continue
        self._starts = [row.start for row in self.rows]

    def at(self, address: int) -> Mapping | None:
        """The mapping that holds ``address``."""
        number = bisect_right(self._starts, address) - 1
        row = self.rows[number] if number >= 0 else None
        return row if row is not None and address < row.end else None

    def above(self, address: int, reach: int) -> Mapping | None:
        """The lowest writable mapping that starts at most ``reach`` bytes above ``address``."""
        for row in self.rows[bisect_right(self._starts, address) :]:
            if row.start - address > reach:
                return None
            if row.writable:
                return row
        return None
