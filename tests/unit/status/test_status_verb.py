"""The status verb: states in words and letters, the worst first, hostile names harmless, at any width."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from analyzers.cli.main import main
from analyzers.contracts.outbox import ServerRow, TransitionRow
from analyzers.contracts.outbox_read import open_reading
from analyzers.contracts.registry import STATES
from collector.outbox.store import open_store
from collector.outbox.write import Write, Yielded
from collector.status.picture import BAR_CELLS, BAR_SECONDS, LETTERS, Picture, Shown, bar, look
from collector.status.render import MOST, render, span

NOW = 1_700_000_000.0


def row(key: str, state: str = "awake", wall: float = NOW - 60, **about: object) -> ServerRow:
    return ServerRow(key, state, wall, None, json.dumps({"port": 8080, **about}))


def picture(
    folder: Path, rows: Sequence[ServerRow], moves: Sequence[TransitionRow] = (), beat: float = NOW
) -> Picture:
    store = open_store(folder, wall=lambda: beat)
    health = json.dumps({"problems": ["journal: no rights"]})
    store.commit(Write(servers=tuple(rows), transitions=tuple(moves), yields=(Yielded("agent", health),)))
    store.close()
    with open_reading(folder) as reader:
        return look(reader, NOW)


def text(shown: Picture, width: int = 80) -> str:
    out = io.StringIO()
    render(shown, Console(file=out, width=width, no_color=True, highlight=False))
    return out.getvalue()


def test_every_state_has_a_letter_of_the_bar():
    assert set(LETTERS) == set(STATES)


def test_asleep_does_not_look_like_idle():
    assert LETTERS["asleep"] != LETTERS["awake"] != LETTERS["busy"]


def test_the_worst_servers_come_first(tmp_path):
    shown = picture(tmp_path / "o", [row(state, state) for state in STATES])
    assert [one.state for one in shown.servers][:3] == ["stranded", "hung", "crashed"]


def test_the_bar_tells_the_last_half_hour():
    moves = [
        TransitionRow("k", "awake", NOW - 1200, "loading"),
        TransitionRow("k", "asleep", NOW - 600, "awake"),
    ]
    told = bar("asleep", moves, NOW)
    assert len(told) == BAR_CELLS
    assert told == "l" * 9 + "a" * 10 + "z" * 11


def test_a_bar_without_any_change_is_all_of_the_state_it_is_in():
    assert bar("asleep", [], NOW) == "z" * BAR_CELLS


def test_moves_of_a_clock_that_was_set_back_do_no_harm():
    moves = [TransitionRow("k", "asleep", NOW + 10 * BAR_SECONDS, "awake")]
    assert len(bar("asleep", moves, NOW)) == BAR_CELLS


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("state", ["asleep", "stranded"])
def test_it_fits_every_window(tmp_path, width, state):
    waiting = [{"peer": "127.0.0.1:1", "seconds": 12.0}]
    shown = picture(
        tmp_path / "o",
        [
            row(
                "k",
                state,
                unit="llama-with-a-long-name.service",
                model="m" * 40,
                stranded=waiting,
                reason="r " * 60,
            )
        ],
    )
    for line in text(shown, width).splitlines():
        assert len(line) <= max(width, 40)


def test_hostile_words_reach_no_terminal(tmp_path):
    evil = "x\x1b[2J\n\r\u202eevil"
    about = dict.fromkeys(("unit", "model", "build", "reason"), evil)
    lists = {name: [evil] for name in ("notes", "state_notes", "problems", "defects")}
    told = text(picture(tmp_path / "o", [row("k", evil, **about, **lists)]))
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "\r" not in told


@pytest.mark.parametrize(
    "about", ["", "[]", "null", "{", '{"port": "x", "defects": 7, "sleeps": "y"}', "[" * 9999]
)
def test_what_cannot_be_read_is_shown_without_it(tmp_path, about):
    told = text(picture(tmp_path / "o", [ServerRow("k", "awake", NOW, None, about)]))
    assert "awake" in told


def test_thousands_are_counted_and_not_shown(tmp_path):
    told = text(picture(tmp_path / "o", [row(f"k{number}") for number in range(3000)]))
    assert told.count("for 1 min") == MOST
    assert f"and {3000 - MOST} more" in told


def test_an_agent_that_writes_no_more_is_told_first(tmp_path):
    told = text(picture(tmp_path / "o", [row("k")], beat=NOW - 600))
    assert told.startswith("the agent has not written for 10 min")
    assert "the agent has not written" not in text(picture(tmp_path / "p", [row("k")], beat=NOW))


def test_what_is_wrong_with_the_agent_itself_is_told(tmp_path):
    assert "the agent: journal: no rights" in text(picture(tmp_path / "o", []))


def test_no_outbox_is_one_line_and_status_2(tmp_path, capsys):
    assert main(["status", "--outbox", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_json_and_one_picture_by_the_command_line(tmp_path, capsys):
    picture(tmp_path / "o", [row("k", "asleep", time.time())])
    assert main(["status", "--once", "--outbox", str(tmp_path / "o")]) == 0
    assert "asleep" in capsys.readouterr().out
    assert main(["status", "--json", "--outbox", str(tmp_path / "o")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "llama-blackbox/status/1"
    assert [one["state"] for one in told["servers"]] == ["asleep"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90061, "1 d 1 h"),
    ],
)
def test_spans(seconds, words):
    assert span(seconds) == words


def test_a_server_is_named_by_what_its_operator_knows():
    assert Shown("n", "awake", 0.0, "", {"sleeps": True}).number("sleeps") is None
