"""One line a server, and the textfile: words first, bounded labels, nothing private, replaced at once."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from check_scenes import host, readiness, scene, subject, unit
from rich.console import Console

from analyzers.contracts.facts import ModelFileFact
from analyzers.errors import UserError
from collector.check.doors import Doors
from collector.check.exposure import Exposure, Standing
from collector.check.lines import all_fine, one_line, skipped_line, textfile, write_textfile
from collector.check.model import Finding, Level
from collector.check.overview import View
from collector.check.render import show_at_rest, show_views
from collector.check.rest import AtRest
from collector.check.restart import restart_of
from collector.check.told import Told
from collector.check.waketime import WakeTime
from collector.check.weights import ModelLook


def view(tmp_path: Path, pid: int = 7, standing: str = "exposed", **changes: object) -> View:
    one = Standing("D2", "t", standing, "affected", "b", None, None)
    made = View(
        exposure=Exposure(pid, "llama-server", "b11368", "sleeps", 60, (one,)),
        readiness=readiness(scene(host(tmp_path), subject(), unit=unit())),
        role="standalone",
        model="/home/alice/secret.gguf",
        restart=restart_of("standalone", None, None, pid, parent=1),
        weights=ModelLook(),
        wake=WakeTime(2.5, "log", "w"),
        doors=Doors("all", (("0.0.0.0", 8080),), False),  # noqa: S104
        settings=Told({"api-key": ("hunter2", "command-line")}),
        findings=(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def samples(text: str) -> dict[str, dict[str, float]]:
    """Family to labels to value, as strict as the exposition format: HELP and TYPE first, no series twice."""
    found: dict[str, dict[str, float]] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ gauge)", line)
            found.setdefault(line.split()[2], {})
            continue
        label = r'[a-z]+="[^"\\\n]*"'
        row = re.fullmatch(rf"([a-z_]+)(\{{{label}(?:,{label})*\}})? (-?[0-9.]+)", line)
        assert row is not None, line
        assert (row[2] or "") not in found[row[1]]
        found[row[1]][row[2] or ""] = float(row[3])
    return found


def test_the_status_word_is_the_first(tmp_path: Path) -> None:
    line = one_line(view(tmp_path))
    assert re.match(r"EXPOSED llama-server pid 7 port 8080 llama.service: exposed: D2; restart no; ", line)
    assert "open to the network" in line
    assert skipped_line("process 5 (x\x1b[2J\ny)").startswith("UNREAD process 5")
    assert "\x1b" not in skipped_line("a\x1b[2J")
    assert "\n" not in skipped_line("a\nb")


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_view_fits_any_terminal_and_shared_words_stand_once(tmp_path: Path, width: int) -> None:
    out = io.StringIO()
    findings = (Finding("wake", "wake", Level.RISK, "a\x1b[2Jb" * 30, "why" * 60, "set this", "now"),)
    made = [view(tmp_path, pid, findings=findings) for pid in (7, 8)]
    show_views(made, Console(file=out, width=width, highlight=False))
    text = out.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    assert "\x1b" not in text
    assert "exposed" in text
    assert " ".join(text.split()).count("of 7 above") == 1


def test_a_section_fits_any_terminal(tmp_path: Path) -> None:
    one = AtRest(
        "section", "a\x1bb" * 20, "b1", "sleeps", 5, True, view(tmp_path).exposure.defects, ("line 3: x",)
    )
    out = io.StringIO()
    show_at_rest([one], ["line 9: bad"], Console(file=out, width=40, highlight=False))
    assert "\x1b" not in out.getvalue()
    assert all(len(line) <= 40 for line in out.getvalue().splitlines())
    assert "line 9" in out.getvalue()
    assert "/metrics on" in " ".join(out.getvalue().split())


def test_a_changed_model_is_never_fine(tmp_path: Path) -> None:
    broken = ModelLook((ModelFileFact(path="/m.gguf", state="missing"),))
    off = view(tmp_path, standing="off")
    assert all_fine([off])
    assert not all_fine([replace(off, weights=broken)])
    assert one_line(replace(off, weights=broken)).startswith("BROKEN-MODEL ")


def test_a_hostile_name_stays_on_its_line(tmp_path: Path) -> None:
    made = view(tmp_path)
    odd = replace(made, exposure=replace(made.exposure, name="llama-server\nCLEAR\x1b]0;x\x07" + "n" * 5000))
    assert "\n" not in one_line(odd)
    assert "\x1b" not in one_line(odd)
    assert len(one_line(odd)) <= 300


def test_the_format_is_right_and_nothing_private_is_in_it(tmp_path: Path) -> None:
    # GIVEN two servers of one unit and port, and more than have series
    text = textfile([view(tmp_path, pid) for pid in range(300)], 3, 1.0)
    families = samples(text)
    # THEN each family is described, and each series of it stands once
    assert all(name.startswith("llama_blackbox_") for name in families)
    assert families["llama_blackbox_check_servers"] == {"": 300.0}
    assert families["llama_blackbox_check_not_looked_at"] == {"": 3.0}
    assert len(families["llama_blackbox_check_defect"]) == 200
    assert 2.5 in families["llama_blackbox_check_wake_seconds"].values()
    for secret in ("alice", "gguf", "hunter2", "/"):
        assert secret not in text.replace("llama_blackbox_", "")


def test_a_host_without_servers_still_says_so() -> None:
    assert samples(textfile([], 0, 1.0))["llama_blackbox_check_servers"] == {"": 0.0}


def test_the_file_is_replaced_at_once_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "llama.prom"
    write_textfile(path, "a 1\n")
    before = path.stat().st_ino
    write_textfile(path, "a 2\n")
    assert path.read_text() == "a 2\n"
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["llama.prom"]


def test_no_link_is_followed_and_no_folder_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link, folder = tmp_path / "link.prom", tmp_path / "folder.prom"
    link.symlink_to(victim)
    folder.mkdir()
    inside = tmp_path / "elsewhere"
    inside.symlink_to(folder)
    fifo = tmp_path / "fifo.prom"
    os.mkfifo(fifo)
    for path in (link, folder, inside / "x.prom", fifo, tmp_path / "missing" / "x.prom"):
        with pytest.raises(UserError):
            write_textfile(path, "a 1\n")
    assert victim.read_text() == "precious"
    assert os.listdir(folder) == []
