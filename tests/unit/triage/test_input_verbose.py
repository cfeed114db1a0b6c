"""journalctl -o verbose: the journal's own fields are trusted, and a client's lines cannot pass for them."""

from __future__ import annotations

from analyzers.triage.readers.looks import text_kind
from analyzers.triage.readers.verbose import verbose_entries

BOOT = "0123456789abcdef0123456789abcdef"
HEAD = f"Wed 2026-12-02 04:55:55.000000 UTC [s=aa;i=1;b={BOOT};m=5f5e100;t=6619c2b5d8ec0;x=1]\n"
TEXT = HEAD + "    _PID=42\n    _TRANSPORT=stdout\n    MESSAGE=first\n            second\n"


def entries(text: str):
    return list(verbose_entries(line + b"\n" for line in text.encode().splitlines()))


def test_fields_clocks_and_long_values() -> None:
    assert text_kind(TEXT.encode()) == "journal-verbose"
    first, second = entries("-- Boot x --\n" + TEXT + TEXT)
    assert (first.number, second.number) == (1, 2)
    assert first.text("_BOOT_ID") == BOOT
    assert first.number_of("__MONOTONIC_TIMESTAMP") == 100_000_000
    assert first.text("MESSAGE") == "first\nsecond"


def test_a_clients_field_cannot_set_the_journals_own() -> None:
    # GIVEN a client's field X whose second line looks like a trusted field, as far left as journalctl puts it
    (entry,) = entries(HEAD + "    X=1\n      _TRANSPORT=kernel\n    _TRANSPORT=journal\n    MESSAGE=m\n")
    assert entry.text("_TRANSPORT") == "journal"


def test_a_value_without_end_is_bounded() -> None:
    (entry,) = entries(HEAD + "    MESSAGE=x\n" + "            y\n" * 100_000)
    assert len(entry.fields["MESSAGE"]) < 70_000


def test_what_is_cut_or_strange_raises_nothing() -> None:
    assert entries("    MESSAGE=alone\n\x00\n") == []
    (entry,) = entries(HEAD + "    \n=\n    lower=1\n")
    assert "lower" not in entry.fields
