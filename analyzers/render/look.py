"""How the terminal rendering may look here: colour, characters, width. Only terminal code imports it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from analyzers.render.safe import clean, encodable
from analyzers.render.steps import COMMAND, LEADS, WORDS, kind_of

MAX_WIDTH = 100  # longer lines are hard to read, however wide the window
MAX_TABLE = 160  # of a row: an eye keeps to it by its columns
MIN_WIDTH = 20  # below this every word breaks and nothing is won by following the window
STYLES = {
    "fault": "bold red",
    "ok": "bold green",
    "open": "bold yellow",
    "heading": "bold underline",
    "strong": "bold",
    "quiet": "dim",
    "command": "bold cyan",
    "telling": "bold magenta",
    "asleep": "blue",
}
GLYPHS = {
    "fault": ("✗", "x"),
    "ok": ("✓", "+"),
    "open": ("?", "?"),
    "bullet": ("•", "-"),
    "telling": ("▶", ">"),
    "rail": ("│", "|"),
    "asleep": ("┊", "z"),
    "fold": ("⋯", ".."),
    "request": ("●", "o"),
    "probe": ("◇", "?"),
    "load": ("■", "#"),
    "sleep": ("┬", "v"),
    "wake": ("┴", "^"),
    "stop": ("□", "="),
    "other": ("·", "."),
}
PLAIN = str.maketrans(
    {
        "×": "x",
        "…": "...",
        "µ": "u",
        "·": "-",
        "–": "-",
        "—": "-",
        "→": "->",
        "“": '"',
        "”": '"',
        "‘": "'",
        "’": "'",
    }
)


@dataclass(frozen=True)
class Look:
    """What this console can show. ``width`` is for prose, ``columns`` for tables."""

    colour: bool
    unicode: bool
    encoding: str
    width: int
    columns: int

    @classmethod
    def of(cls, console: Console) -> Look:
        encoding = console.encoding or "ascii"
        return cls(
            colour=not console.no_color and not console.is_dumb_terminal,
            unicode=encoding.lower().replace("_", "-").startswith(("utf-", "utf8")),
            encoding=encoding,
            width=max(MIN_WIDTH, min(console.width, MAX_WIDTH)),
            columns=max(MIN_WIDTH, min(console.width, MAX_TABLE)),
        )

    def style(self, name: str) -> str:
        return STYLES.get(name, "") if self.colour else ""

    def glyph(self, name: str) -> str:
        fancy, plain = GLYPHS[name]
        return fancy if self.unicode else plain

    def words(self, text: object) -> str:
        """Clean text in characters this console has."""
        shown = clean(text)
        return shown if self.unicode else encodable(shown.translate(PLAIN), self.encoding)

    def text(self, text: object, style: str = "") -> Text:
        return Text(self.words(text), style=self.style(style))


class Page:
    """Prints wrapped paragraphs with hanging indents; the only place that talks to the console."""

    def __init__(self, console: Console, look: Look) -> None:
        self.console = console
        self.look = look

    def line(self, text: Text | None = None) -> None:
        """One line as it is, never wrapped or cut: a command must stay copyable."""
        self.console.print(text or Text(), soft_wrap=True, highlight=False, markup=False, emoji=False)

    def heading(self, title: str) -> None:
        self.line()
        self.hang("", self.look.text(title, "heading"), indent=0)

    def hang(self, mark: Text | str, *parts: Text, indent: int = 2) -> None:
        """A paragraph behind ``mark``; following lines stand under its first word."""
        mark = self.look.text(mark) if isinstance(mark, str) else mark
        gap = Text(" " if mark.plain else "")
        if mark.cell_len > self.look.width // 2:  # no room to hang from: the mark becomes the first words
            mark, gap, parts = Text(), Text(), (mark, gap, *parts)
        lead = Text(" " * indent) + mark + gap
        lines = Text().join(parts).wrap(self.console, self.look.width - lead.cell_len)
        for number, line in enumerate(lines or [Text()]):
            line.rstrip()
            self.line((lead if number == 0 else Text(" " * lead.cell_len)) + line)

    def say(self, text: object, style: str = "", indent: int = 2) -> None:
        self.hang("", self.look.text(text, style), indent=indent)

    def copyable(self, label: str, value: str) -> None:
        """A key or hash on one line, whatever the width: a folded one cannot be searched for."""
        self.line(Text("    ") + self.look.text(f"{label} ", "quiet") + self.look.text(value))

    def commands(self, command: str, indent: int = 5) -> None:
        """Each line of ``command`` as what it is: a command to copy behind a ``$``, never wrapped; a setting
        or an option with its name; words as words."""
        for row in command.split("\n"):
            kind = kind_of(row)
            if kind == WORDS:
                self.say(row, indent=indent)
                continue
            self._command(row, kind, indent)

    def _command(self, row: str, kind: str, indent: int) -> None:
        lead = Text(" " * indent) + self.look.text(LEADS[kind], "quiet")
        text = self.look.text(row, "command")
        if kind != COMMAND and lead.cell_len + text.cell_len > self.look.width:
            self.say(LEADS[kind].rstrip(), "quiet", indent)
            lead = Text(" " * (indent + 2))
        self.line(lead + text)
