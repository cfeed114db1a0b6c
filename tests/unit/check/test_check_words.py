"""What `check` prints: verdicts, statuses, JSON, narrow terminals, and nothing a terminal would obey."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from check_scenes import host, readiness, scene, subject, unit
from rich.console import Console

from analyzers.cli.main import main
from analyzers.contracts.evidence import Incarnation
from analyzers.errors import UserError
from collector.check import cli
from collector.check.exposure import CLEAR, EXPOSED, OFF, POSSIBLE, Exposure, expose, sleep_limit
from collector.check.model import SCHEMA, Readiness, size_text
from collector.check.render import show_exposure, show_readiness
from collector.gather.servers import Server


def blind(root: Path) -> Readiness:
    return readiness(scene(host(root), subject(limit=0), unit=unit()))


def printed(found: Readiness, width: int) -> str:
    out = io.StringIO()
    show_readiness([found], Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.mark.parametrize("width", [30, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_the_setting_is_named(tmp_path: Path, width: int) -> None:
    text = printed(blind(tmp_path), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "blind" in text
    assert "LimitCORE=infinity" in text.replace("\n", "").replace(" ", "") or width == 30
    assert "\x1b" not in text


def test_a_hostile_name_never_reaches_the_terminal(tmp_path: Path) -> None:
    server = Server(1, "/x/llama-server\x1b[2J", "/x", False, Incarnation(pid=1))
    made = subject(outputs=("/var/\x1b]0;x\x07.log (deleted)",) * 2)
    made.server = server
    assert "\x1b" not in printed(readiness(scene(host(tmp_path), made)), 80)


def test_the_document_is_versioned_and_its_home_folders_are_hidden(tmp_path: Path) -> None:
    # GIVEN
    made = readiness(scene(host(tmp_path), subject(outputs=("/home/alice/x.log (deleted)",) * 2)))
    # WHEN
    document = json.loads(cli.as_text([made], ["one"], cores=True))
    private = json.loads(cli.as_text([made], [], cores=True, private=True))
    # THEN
    assert document["schema"] == SCHEMA
    assert (document["what"], document["not_looked_at"]) == ("cores", ["one"])
    first = document["servers"][0]
    assert first["verdict"] == "at-risk"
    assert first["findings"][0]["level"] == "lost"
    assert {"id", "about", "level", "what", "why", "change", "present"} == first["findings"][0].keys()
    assert "alice" not in json.dumps(document)
    assert "alice" in json.dumps(private)


def exposure_of(*args: str, hosted: bool = False) -> Exposure:
    made = subject(args=("llama-server", "-m", "/m.gguf", *args))
    made.server = Server(
        os.getpid(), "/usr/bin/python3" if hosted else "/x/llama-server", "/nothing", hosted, Incarnation()
    )
    return expose(made)


def test_a_server_that_never_sleeps_is_off_whatever_its_build() -> None:
    made = exposure_of()
    assert made.verdict == OFF
    assert made.headline == "sleep is off"


def test_an_unknown_build_that_sleeps_is_possibly_exposed() -> None:
    made = exposure_of("--sleep-idle-seconds", "300")
    assert made.verdict == POSSIBLE
    assert "D2" in made.headline
    assert {one.defect for one in made.defects if one.standing == OFF} >= {"D5"}
    assert not any(one.defect == "D6" for one in made.defects)


@pytest.mark.parametrize(
    ("args", "limit", "says"),
    [
        (("--sleep-idle-seconds", "-1"), -1, "off"),
        (("--sleep-idle-seconds=60",), 60, "after 60 s"),
        (("--sleep-idle-seconds", "2147484"), 2_147_484, "overflows"),
        (("--sleep-idle-seconds", "x"), None, "could not be read"),
    ],
)
def test_the_limit_in_force(args: tuple[str, ...], limit: int | None, says: str) -> None:
    seconds, words = sleep_limit(subject(args=("llama-server", *args)))
    assert seconds == limit
    assert says in words


def test_a_hosted_server_keeps_its_limit_to_itself() -> None:
    made = exposure_of(hosted=True)
    assert made.sleep_idle_seconds is None
    assert made.verdict == POSSIBLE


def test_exposure_prints_at_any_width() -> None:
    out = io.StringIO()
    show_exposure([exposure_of("--sleep-idle-seconds", "9")], Console(file=out, width=40, highlight=False))
    assert all(len(line) <= 40 for line in out.getvalue().splitlines())
    assert {EXPOSED, CLEAR, "possible"} & set(out.getvalue().replace(":", " ").split())


def test_two_names_none_and_a_stranger_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["check", "--pid", "1", "--unit", "x"]) == 2
    assert main(["check", "--cores", "--pid", str(os.getpid())]) == 2
    assert "no" in capsys.readouterr().err
    monkeypatch.setattr(cli, "servers", list)
    monkeypatch.setattr(cli, "hidden", lambda: ["process 5 (llama-server) is another user's"])
    with pytest.raises(UserError, match="sudo"):
        cli.pick(None, None)


def test_sizes_are_readable() -> None:
    assert [size_text(size) for size in (10, 2048, 3 << 20, 5 << 30, 9 << 40)] == [
        *("10 B", "2.0 KiB", "3.0 MiB", "5.0 GiB", "9216.0 GiB"),
    ]
