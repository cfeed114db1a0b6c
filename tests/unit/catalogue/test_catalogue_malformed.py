"""A catalogue somebody edited by hand: every mistake is one clear line, never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.catalogue import tables
from analyzers.catalogue.loader import HERE, load_catalogue
from analyzers.catalogue.tables import printable, read_toml
from analyzers.errors import UserError

D1_SUMMARY = 'summary = "One token-counting request to a sleeping server is enough to crash it."'


def _copy(folder: Path) -> Path:
    for name in ("defects.toml", "classes.toml"):
        shutil.copy(HERE / name, folder / name)
    return folder


def _edit(folder: Path, name: str, old: str, new: str) -> Path:
    path = _copy(folder) / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


def _complaint(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_catalogue(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert line.isprintable()
    assert caught.value.remedy
    return line


def test_an_untouched_copy_loads(tmp_path: Path) -> None:
    assert load_catalogue(_copy(tmp_path)).version == load_catalogue().version


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("defects.toml", 'id = "D1"', 'id = "D1', "not valid TOML"),
        ("defects.toml", "[proofs]", "[prooves]", "[proofs]"),
        ("defects.toml", 'version = "2026-12-02.2"', "version = 3", "'version'"),
        ("defects.toml", D1_SUMMARY, "", "'summary' must be given"),
        ("defects.toml", D1_SUMMARY, 'summary = "  "', "'summary' is empty"),
        ("defects.toml", D1_SUMMARY, 'summary = "\\u001b[31m"', "control characters"),
        ("defects.toml", D1_SUMMARY, D1_SUMMARY + '\nsumary = "x"', "unknown key 'sumary'"),
        ("defects.toml", 'cause = "wake"', 'cause = "gremlins"', "'gremlins'"),
        ("defects.toml", 'classes = ["SEGV-UAF-SLEEP", "ERROR', 'classes = ["SEGV-UAF", "ERROR', "SEGV-UAF"),
        ("defects.toml", 'phases = ["first-request-after-wake"]', 'phases = ["napping"]', "napping"),
        ("defects.toml", "fixed_in = 11149", 'fixed_in = "11149"', "'fixed_in'"),
        ("defects.toml", "fixed_in = 11149", "fixed_in = true", "'fixed_in'"),
        ("defects.toml", "last = 11138", "last = 9000", "ends (b9000) before it begins"),
        ("defects.toml", "last = 11138", "last = 11149", "overlap"),
        ("defects.toml", "last = 11138", "last = 11100", "must lie inside it"),
        ("defects.toml", 'method = "measured"', 'method = "guessed"', "'guessed'"),
        ("defects.toml", 'date = "reported", how', 'date = "last week", how', "'date'"),
        ("defects.toml", 'any_of = ["crash-under-count-tokens"]', 'any_of = ["a hunch"]', "a hunch"),
        ("defects.toml", 'any_of = ["crash-under-count-tokens"]', "any_of = []", "empty proof group"),
        ("defects.toml", 'symbol = "_ZN13server_routes', 'symbol = "rm -rf _ZN13', "mangled"),
        ("defects.toml", 'build_id = "73d15c96', 'build_id = "73D15C96', "40 lower-case hex"),
        ("defects.toml", 'layout = "queue-360"', 'layout = "queue-9"', "queue-9"),
        ("defects.toml", "sleeping = 5", "sleeping = 500", "outside the object"),
        ("defects.toml", 'id = "D2"', 'id = "D1"', "'D1' stands in it twice"),
        (
            "defects.toml",
            "acc90eeae1d8628d90cb26aeee9bf01036e0c0f9",
            "73d15c96b2c7bc0a9ddcac88a191996a7163df70",
            "twice",
        ),
        ("defects.toml", 'where = "systemd"', 'where = "cron"', "'cron'"),
        ("defects.toml", "exposure = false", 'exposure = "no"', "'exposure'"),
        ("classes.toml", "[class.FPE]", "[class.FPX]", "'FPE' has no page"),
        (
            "classes.toml",
            "[phase.loading]",
            "[phase.napping]\nmeaning = 'x'\n\n[phase.loading]",
            "no phase 'napping'",
        ),
        ("classes.toml", "[state.down]", "[mood.down]", "'down' has no page"),
        ("classes.toml", "[class.FPE]\nmeaning", "[class.FPE]\nmeening", "FPE: 'meaning' must be given"),
        ("classes.toml", 'told = ["SIGFPE', 'told = [3, "SIGFPE', "'told'"),
    ],
)
def test_each_mistake_names_file_and_entry(tmp_path: Path, name: str, old: str, new: str, said: str) -> None:
    # GIVEN one edit WHEN loaded THEN the line names the file and what is wrong
    line = _complaint(_edit(tmp_path, name, old, new))
    assert line.startswith(name)
    assert said in line


def test_a_missing_file(tmp_path: Path) -> None:
    (_copy(tmp_path) / "classes.toml").unlink()
    assert _complaint(tmp_path).startswith("classes.toml: cannot be read")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\x00" * 64, b"a = " + b"[" * 50_000])
def test_bytes_that_are_no_toml(tmp_path: Path, data: bytes) -> None:
    (_copy(tmp_path) / "defects.toml").write_bytes(data)
    assert _complaint(tmp_path).startswith("defects.toml: is not valid TOML")


def test_a_file_over_the_limit_is_refused_unparsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SIZE_LIMIT", 100)
    assert "larger than 100 bytes" in _complaint(_copy(tmp_path))


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_bytes_parse_or_complain(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    said = ""
    try:
        read_toml(path)
    except UserError as error:
        said = str(error)
    assert said.isprintable()


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_printable_is(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) <= 60
