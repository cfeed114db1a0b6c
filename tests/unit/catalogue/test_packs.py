"""Catalogue packs: they add, never replace, and a broken one is a note."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.catalogue import packs
from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects, load_defects, read_pack
from analyzers.catalogue.packs import with_packs
from analyzers.errors import UserError

DEFECT = """
[[defect]]
id = "{id}"
name = "{name}"
title = "A thing"
summary = "It happens."
detail = "Now and then."
cause = "gpu"
classes = ["ABRT-ASSERT"]
phases = ["awake"]
"""
MARK = """
[[defect.mark]]
id = "{id}"
symbol = "_ZN4fork6handleEv"
affected = true
builds = "the fork"
"""
WHEEL = """
[[wheel]]
build_id = "{build_id}"
distribution = "fork"
version = "1.0"
build = 9000
layout = "queue-504"
method = "reported"
date = "reported"
"""
SIGN = '[[sign]]\nid = "{id}"\nsymbol = "fork_version"\nafter = 9000\nhow = "the fork has it"\n'
B11063 = "093f29465c094a0b3e60216f55169f0dde60f676"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Defects]:
    """Declares packs as entry points would, and gives the catalogue with them."""

    def made(*bodies: str | Exception) -> Defects:
        declared = []
        for number, body in enumerate(bodies):
            path = tmp_path / f"pack{number}.toml"
            if isinstance(body, str):
                path.write_text(f'version = "1"\ndated = "2026-12-02"\n{body}')
            declared.append((f"pack{number}", _loader(path, body)))
        monkeypatch.setattr(packs, "_declared", lambda: declared)
        return with_packs(load_defects(), read_pack)

    return made


def _loader(path: Path, body: str | Exception) -> Callable[[], str]:
    def load() -> str:
        if isinstance(body, Exception):
            raise body
        return str(path)

    return load


def test_a_pack_adds_a_defect_its_marks_a_wheel_and_a_sign(install: Callable[..., Defects]) -> None:
    fork = "f0" * 20
    body = WHEEL.format(build_id=fork) + SIGN.format(id="fork-sign")
    known = install(body + DEFECT.format(id="FK-1", name="fork-thing") + MARK.format(id="fork-mark"))
    assert known.notes == ()
    assert known.packs == ("pack0 1",)
    assert known.version.endswith("+pack0.1")
    assert known.defect("fork-thing") is not None
    assert known.recognise(fork).build == 9000
    assert known.recognise(None, ("fork-sign",)).first == 9001
    marked = known.mark("fork-mark")
    assert marked is not None
    assert marked[0].id == "FK-1"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (DEFECT.format(id="D1", name="mine"), "defect D1 is refused"),
        (DEFECT.format(id="d1", name="mine"), "defect d1 is refused"),
        (DEFECT.format(id="FK-1", name="stale-capture"), "defect FK-1 is refused"),
        (WHEEL.format(build_id=B11063), f"build {B11063} is refused"),
        (SIGN.format(id="after-9538"), "sign after-9538 is refused"),
        (
            DEFECT.format(id="FK-1", name="f") + MARK.format(id="d1-takes-the-request-only"),
            "defect FK-1 is refused",
        ),
    ],
)
def test_what_ships_is_never_replaced(install: Callable[..., Defects], body: str, said: str) -> None:
    known, shipped = install(body), load_defects()
    assert [said in note for note in known.notes] == [True]
    assert "pack0" in known.notes[0]
    assert known.defects == shipped.defects
    assert known.wheels == shipped.wheels
    assert tuple(known.every_sign()) == tuple(shipped.every_sign())


def test_the_second_pack_does_not_replace_the_first(install: Callable[..., Defects]) -> None:
    body = DEFECT.format(id="FK-1", name="fork-thing")
    known = install(body, body.replace("A thing", "Another"))
    found = known.defect("FK-1")
    assert found is not None
    assert found.title == "A thing"
    assert "pack1" in known.notes[0]


@pytest.mark.parametrize(
    "broken",
    [
        RuntimeError("boom\x1b[31m"),
        ImportError("no such module"),
        SyntaxError("bad"),
        "nonsense = [",
        DEFECT.format(id="FK-1", name="f").replace('cause = "gpu"', 'cause = "gremlins"'),
        OSError("gone"),
        UserError("x", where="y", remedy="z"),
    ],
)
def test_a_broken_pack_is_a_note_and_the_next_one_loads(
    install: Callable[..., Defects], broken: str | Exception
) -> None:
    known = install(broken, DEFECT.format(id="FK-2", name="sound"))
    assert known.defect("FK-2") is not None
    assert known.defect("FK-1") is None
    assert len(known.notes) == 1
    assert known.notes[0].startswith("catalogue pack 'pack0' was left out")
    assert known.notes[0].isprintable()


def test_the_group_is_found_by_the_files_alone(tmp_path: Path) -> None:
    """A folder on the path whose lists name no pack costs no import of importlib.metadata."""
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[console_scripts]\nthing = thing:main\n")
    (tmp_path / "broken-1.0.dist-info").write_text("a file where a folder should be")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from analyzers.catalogue.loader import known_defects\n"
    code += "print(known_defects().packs, 'importlib.metadata' in sys.modules)"
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "() False"


def test_a_real_entry_point_of_a_broken_module_is_named(tmp_path: Path) -> None:
    info = tmp_path / "sick-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sick\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[llama_blackbox.catalogue]\nsick = sick_pack:catalogue\n")
    (tmp_path / "sick_pack.py").write_text("raise SystemError('no')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from analyzers.catalogue.loader import known_defects\nprint(known_defects().notes)"
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "(\"catalogue pack 'sick' was left out: SystemError\",)"


def test_what_is_known_here_is_read_once() -> None:
    assert known_defects() is known_defects()
