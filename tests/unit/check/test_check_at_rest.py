"""Preset files and binaries at rest: sections, builds, errors by line, and files that are none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from analyzers.cli.main import main
from analyzers.errors import UserError
from collector.check.rest import AtRest, Wanted, preset_at_rest, wanted_build
from collector.discovery.presets import MAX_BYTES

GOOD = """version = 1
[*]
sleep-idle-seconds = 60 ; shared
[big]
model = /m.gguf
metrics = true
[never]
LLAMA_ARG_MODEL = /n.gguf
sleep-idle-seconds = -1
"""


def at_rest(tmp_path: Path, text: str, build: str | None = None) -> tuple[dict[str, AtRest], list[str]]:
    path = tmp_path / "models.ini"
    path.write_bytes(text.encode())
    found, errors = preset_at_rest(path, wanted_build(build, None))
    return {one.name: one for one in found}, errors


def standing(one: AtRest, defect: str) -> tuple[str, str]:
    row = next(row for row in one.defects if row.defect == defect)
    return row.standing, row.known


def test_each_section_is_a_server_and_the_global_one_reaches_all(tmp_path: Path) -> None:
    found, errors = at_rest(tmp_path, GOOD, "b11138")
    assert errors == []
    assert (set(found), found["big"].metrics, found["never"].metrics) == ({"big", "never"}, True, False)
    assert found["big"].sleep_idle_seconds == 60
    assert "[*], line 3" in found["big"].sleep
    assert standing(found["big"], "D1") == ("exposed", "measured")
    assert (found["never"].verdict, standing(found["never"], "D1")[0]) == ("off", "off")


def test_the_build_decides(tmp_path: Path) -> None:
    assert standing(at_rest(tmp_path, GOOD, "11368")[0]["big"], "D1") == ("clear", "measured")
    assert standing(at_rest(tmp_path, GOOD, "11100")[0]["big"], "D1") == ("exposed", "presumed")
    known = at_rest(tmp_path, GOOD)[0]["big"]
    assert standing(known, "D1") == ("possible", "unknown")
    assert "b9713 to b11138" in next(row.because for row in known.defects if row.defect == "D1")


def test_routes_are_told_by_how_they_are_known(tmp_path: Path) -> None:
    big = at_rest(tmp_path, GOOD, "11368")[0]["big"]
    rows = {one.known: one.routes for row in big.defects if row.defect == "D2" for one in row.routes}
    assert "POST /completion" in rows["measured"]
    assert "POST /infill" in rows["source"]
    later = at_rest(tmp_path, GOOD, "11600")[0]["big"]
    rows = {one.known: one.routes for row in later.defects if row.defect == "D2" for one in row.routes}
    assert "POST /completion" in rows["presumed"]
    assert "POST /infill" in rows["unknown"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[a]\nmodel = x\nnonsense\n", "line 3", "no setting"),
        ("[a]\nmodel = x\n[b]\n[a]\n", "line 4", "line 1"),
        ("\r\n[a\r\n", "line 2", "no setting"),
    ],
)
def test_errors_are_named_by_line(tmp_path: Path, text: str, line: str, says: str) -> None:
    errors = at_rest(tmp_path, text)[1]
    assert len(errors) == 1
    assert line in errors[0]
    assert says in errors[0]


@pytest.mark.parametrize("value", ["0", "-5", "soon", "99999999999999"])
def test_a_limit_that_the_server_refuses(tmp_path: Path, value: str) -> None:
    one = at_rest(tmp_path, f"[a]\n\nsleep-idle-seconds = {value}\n")[0]["a"]
    assert len(one.errors) == 1
    assert "line 3" in one.errors[0]
    assert one.verdict != "clear"


def test_a_huge_file_is_read_in_part_and_says_so(tmp_path: Path) -> None:
    text = "[a]\nsleep-idle-seconds = 5\n" + "# x\n" * (MAX_BYTES // 4) + "[b]\n"
    found, errors = at_rest(tmp_path, text)
    assert set(found) == {"a"}
    assert "nothing from line" in errors[0]


def test_files_that_are_no_files(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(UserError):
            preset_at_rest(path, Wanted())
        with pytest.raises(UserError):
            wanted_build(None, path)


@pytest.mark.parametrize("build", ["", "b", "x", "7", "999999", "b\u0663\u0663\u0663\u0663", "1" * 5000])
def test_a_number_that_is_no_build(build: str) -> None:
    with pytest.raises(UserError):
        wanted_build(build, None)


def test_a_text_is_no_binary(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(UserError, match="ELF"):
        wanted_build(None, path)


def test_a_program_that_is_no_server_is_possibly_anything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--server-bin", "/bin/sh", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (one,) = document["servers"]
    assert (document["what"], one["kind"], one["verdict"]) == ("at-rest", "binary", "possible")
    assert one["build"] == "not known"


def test_the_whole_verb_on_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.ini"
    path.write_text("[awake]\nmodel = /m.gguf\n")
    assert main(["check", "--preset", str(path)]) == 0
    assert "[awake]: off" in capsys.readouterr().out
    path.write_text("[x\x1b[2Jy]\nmodel = /m.gguf\nsleep-idle-seconds = 3\nbad\n")
    assert main(["check", "--preset", str(path), "--build", "b11368"]) == 1
    out = capsys.readouterr().out
    assert "line 4" in out
    assert "\x1b" not in out
    assert main(["check", "--preset", str(path), "--build", "b11368", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["errors"]


@pytest.mark.parametrize(
    "words",
    [
        ["--preset", "x", "--cores"],
        ["--server-bin", "x", "--pid", "1"],
        ["--build", "b11368"],
        ["--cores", "--one-line"],
        ["--cores", "--textfile", "x"],
        ["--json", "--one-line"],
        ["--preset", "x", "--build", "b11368", "--server-bin", "y"],
        ["--preset", "x", "--textfile", "y"],
    ],
)
def test_options_that_do_not_go_together(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
