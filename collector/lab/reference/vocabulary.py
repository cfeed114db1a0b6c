"""Vocabularies of the generated model: SentencePiece with byte tokens, or byte-level pairs.

Which one a model has decides which of the server's splitters a prompt runs through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from string import ascii_lowercase

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # gguf.TokenType
SPACE_MARK = "\u2581"
WORDS = ("hello", "world", "the", "a", "of", "and", "to", "in", "say", "ok", "crash", "sleep")
CHARACTERS = SPACE_MARK + ascii_lowercase + ascii_lowercase.upper() + "0123456789.,!?-:;'\"()\n"
SPECIAL = (b"<unk>", b"<s>", b"</s>")
# Longest made-up piece; 26**5 pieces are more than any real vocabulary has.
LONGEST_FILLER = 5


@dataclass
class Vocabulary:
    """Pieces in id order with their scores and types, and the merges of a byte-pair vocabulary."""

    pieces: list[bytes] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)

    def add(self, piece: bytes, score: float, kind: int) -> None:
        self.pieces.append(piece)
        self.scores.append(score)
        self.types.append(kind)


def sentencepiece(size: int | None) -> Vocabulary:
    """256 byte tokens, words, letter pairs and characters; made-up pieces fill up to ``size``.

    Raises ValueError when ``size`` is below the smallest working vocabulary.
    """
    vocabulary = _with_special()
    for byte in range(256):
        vocabulary.add(f"<0x{byte:02X}>".encode(), 0.0, BYTE)
    _add_ranked(vocabulary, _core_pieces())
    _fill(vocabulary, size)
    return vocabulary


def byte_pairs(size: int | None) -> Vocabulary:
    """One piece per byte and no merges: every prompt goes through the regular-expression splitter."""
    vocabulary = _with_special()
    for letter in _byte_alphabet():
        vocabulary.add(letter.encode(), 0.0, NORMAL)
    vocabulary.add(b"he", 0.0, NORMAL)
    vocabulary.merges.append("h e")  # the loader refuses an empty list of merges
    _fill(vocabulary, size)
    return vocabulary


def _with_special() -> Vocabulary:
    vocabulary = Vocabulary()
    for piece, kind in zip(SPECIAL, (UNKNOWN, CONTROL, CONTROL), strict=True):
        vocabulary.add(piece, 0.0, kind)
    return vocabulary


def _core_pieces() -> Iterator[str]:
    for word in (SPACE_MARK + word for word in WORDS):
        yield from (word[:length] for length in range(2, len(word) + 1))
    yield from (first + second for first in SPACE_MARK + ascii_lowercase for second in ascii_lowercase)
    yield from CHARACTERS


def _add_ranked(vocabulary: Vocabulary, texts: Iterator[str]) -> None:
    known = set(vocabulary.pieces)
    rank = min(vocabulary.scores, default=0.0)
    for piece in (text.encode() for text in texts):
        if piece not in known:
            known.add(piece)
            rank -= 1
            vocabulary.add(piece, rank, NORMAL)


def _fill(vocabulary: Vocabulary, size: int | None) -> None:
    if size is None:
        return
    missing = size - len(vocabulary.pieces)
    if missing < 0:
        raise ValueError(f"a vocabulary needs at least {len(vocabulary.pieces)} pieces, not {size}")
    known = set(vocabulary.pieces)
    fresh = (text for text in _fillers() if text.encode() not in known)
    _add_ranked(vocabulary, islice(fresh, missing))
    if len(vocabulary.pieces) < size:
        raise ValueError(f"a vocabulary has at most {len(vocabulary.pieces)} pieces, not {size}")


def _fillers() -> Iterator[str]:
    for length in range(3, LONGEST_FILLER + 1):
        yield from ("".join(letters) for letters in product(ascii_lowercase, repeat=length))


def _byte_alphabet() -> Iterator[str]:
    """The printable stand-in of each byte, as byte-level vocabularies spell them: bytes that are
    printable in Latin-1 stand for themselves, the others are moved up behind U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = 0
    for byte in range(256):
        if byte in printable:
            yield chr(byte)
        else:
            yield chr(0x100 + moved)
            moved += 1
