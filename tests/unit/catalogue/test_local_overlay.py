"""The local overlay on top of the shipped ranges: it narrows and extends, and never says more than it saw."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from analyzers.catalogue.builds import standing_of
from analyzers.catalogue.loader import catalogue, known_defects, load_catalogue
from analyzers.catalogue.model import Defect, LocalWitness
from analyzers.catalogue.overlay import laid_on, overlay_path, read_overlay
from analyzers.cli.verbs.explain import explain
from analyzers.errors import UserError

HEAD = "schema = 1\n"
BLOCK = """
[[witness]]
defect = "{defect}"
status = "{status}"
build = {build}
build_id = "{build_id}"
stock = {stock}
date = "2026-12-02"
how = "verify pinned: 3 of 4 trials showed it"
trials = 4
"""
ID = "ab" * 20
B11549 = "8aedfa31af1c52fe94168556eb93295be603e89e"


def witness(status: str, build: int | None, **changes) -> LocalWitness:
    bound = 0.139 if status == "fixed" else None
    told = {"defect": "D2", "build_id": ID, "stock": True, "date": "2026-12-02", "how": "seen", "trials": 20}
    return LocalWitness(status=status, build=build, bound=bound, **{**told, **changes})


def shipped(id: str) -> Defect:
    found = load_catalogue().defect(id)
    assert found is not None
    return found


def status(defect: Defect, build: int) -> str:
    return standing_of(defect, build).status


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = overlay_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    return path


def block(defect: str = "D2", status: str = "affected", build: int = 12_000, **changes: str) -> str:
    told = {"build_id": ID, "stock": "true", **changes}
    made = BLOCK.format(defect=defect, status=status, build=build, **told)
    return made + ("bound = 0.139\n" if status == "fixed" else "")


def test_a_newer_affected_build_becomes_a_witness() -> None:
    made = laid_on(shipped("D2"), [witness("affected", 12_000)])
    assert status(made, 12_000) == "affected"
    assert "local" in standing_of(made, 12_000).because
    assert status(made, 11_800) == "presumed-affected"


def test_two_affected_builds_close_the_gap_between_them() -> None:
    d1 = shipped("D1")
    assert status(d1, 11_140) == "unmeasured"
    made = laid_on(d1, [witness("affected", 11_143, defect="D1")])
    assert [status(made, b) for b in (11_138, 11_140, 11_143, 11_144)] == [
        "affected",
        "presumed-affected",
        "affected",
        "unmeasured",
    ]
    assert status(made, 11_149) == "fixed"


def test_a_defect_seen_in_a_build_called_fixed_outranks_the_presumption_above_it() -> None:
    made = laid_on(shipped("D1"), [witness("affected", 11_200, defect="D1")])
    assert status(made, 11_200) == "affected"
    assert status(made, 11_180) == "presumed-fixed"  # as far as was seen
    assert status(made, 11_300) == "unmeasured"  # fixed below and above, affected between: nobody knows
    assert status(made, 11_368) == "fixed"


def test_a_clean_run_speaks_for_its_build_alone() -> None:
    made = laid_on(shipped("D2"), [witness("fixed", 12_000)])
    assert status(made, 12_000) == "fixed"
    assert "at most 13.9% at 95 %" in standing_of(made, 12_000).because
    assert [status(made, b) for b in (11_999, 12_001, 99_000)] == ["presumed-affected"] * 3


def test_a_clean_run_in_a_gap_stays_a_point() -> None:
    made = laid_on(shipped("D1"), [witness("fixed", 11_145, defect="D1")])
    assert [status(made, b) for b in (11_144, 11_145, 11_146)] == ["unmeasured", "fixed", "unmeasured"]


def test_a_clean_run_takes_nothing_back_that_was_seen() -> None:
    made = laid_on(shipped("D2"), [witness("fixed", 11_549)])
    assert status(made, 11_549) == "affected"
    # the same build, once affected and once clean, in either order
    for order in (("affected", "fixed"), ("fixed", "affected")):
        made = laid_on(shipped("D2"), [witness(each, 12_000) for each in order])
        assert status(made, 12_000) == "affected"


@pytest.mark.parametrize("kind", ["affected", "fixed"])
def test_a_patched_or_foreign_tree_leaves_the_stock_build_alone(kind: str) -> None:
    d2 = shipped("D2")
    assert laid_on(d2, [witness(kind, 11_368, stock=False)]) == d2
    assert laid_on(d2, [witness(kind, None)]) == d2
    assert laid_on(d2, [witness(kind, 11_368, defect="D1")]) == d2


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    seen=st.lists(st.tuples(st.sampled_from(["affected", "fixed"]), st.integers(8000, 13_000)), max_size=6),
    build=st.integers(8000, 13_000),
)
def test_any_pile_of_witnesses_keeps_the_ranges_sound(seen: list[tuple[str, int]], build: int) -> None:
    """Ranges stay in order and apart; a build nobody looked at is never called fixed or affected outright;
    clean runs alone make nobody else safer than the shipped data does."""
    for id in ("D1", "D2", "D5"):
        before = shipped(id)
        made = laid_on(before, [witness(kind, number, defect=id) for kind, number in seen])
        for low, high in zip(made.builds, made.builds[1:], strict=False):
            assert low.last is not None
            assert low.first <= low.last < high.first
        own = {kind for kind, number in seen if number == build}
        looked_at = own or any(w.build == build for row in before.builds for w in row.witnesses)
        now = status(made, build)
        if not looked_at:
            assert now not in ("fixed", "affected")
        if "affected" in own:
            assert now == "affected"
        if not own and standing_of(before, build).exposed and all(kind == "fixed" for kind, _ in seen):
            assert standing_of(made, build).exposed


def test_the_loader_reads_it_on_top_of_what_ships(home: Path) -> None:
    home.write_text(HEAD + block() + block("D1", "affected", 12_345, stock="false", build_id="cd" * 20))
    known = known_defects()
    assert known.affected("D2", 12_000).status == "affected"
    assert known.affected("D1", 12_345).status == "presumed-fixed"
    # the foreign tree is known by its build-id, whatever number it claims
    own = known.affected_wheel("D1", "CD" * 20)
    assert own is not None
    assert own.status == "affected"
    assert "local" in own.because
    assert known.version.endswith("+local.2")
    assert load_catalogue().affected("D2", 12_000).status == "presumed-affected"
    assert "12000" in str(catalogue().explain("D2"))


def test_a_change_is_seen_at_once(home: Path) -> None:
    home.write_text(HEAD)
    assert known_defects().affected("D2", 12_000).status == "presumed-affected"
    home.write_text(HEAD + block())
    assert known_defects().affected("D2", 12_000).status == "affected"
    home.unlink()
    assert known_defects().affected("D2", 12_000).status == "presumed-affected"


def test_a_route_it_was_shown_through_is_a_witness_of_the_route(home: Path) -> None:
    home.write_text(HEAD + block(build=11_549) + 'routes = ["POST /infill"]\n')
    assert known_defects().route_standing("D2", "/infill", 11_549).status == "affected"
    assert load_catalogue().route_standing("D2", "/infill", 11_549).status == "unmeasured"
    assert known_defects().route_standing("D2", "/rerank", 11_549).status == "unmeasured"


def test_a_clean_run_of_a_known_wheel_takes_nothing_back(home: Path) -> None:
    home.write_text(HEAD + block(status="fixed", build=11_549, build_id=B11549))
    found = known_defects().affected_wheel("D2", B11549)
    assert found is not None
    assert found.status == "affected"


BROKEN = {
    "not toml": "schema = = 1",
    "no schema": "x = 1",
    "newer schema": "schema = 2",
    "unknown key": HEAD + block() + "more = 1\n",
    "no bound": HEAD + block(status="fixed").replace("bound = 0.139\n", ""),
    "no subject": HEAD + block().replace(f'build_id = "{ID}"\n', "").replace("stock = true", "stock = false"),
    "odd id": HEAD + block(build_id="../../etc"),
    "odd status": HEAD + block(status="perfect"),
    "no trials": HEAD + block().replace("trials = 4", "trials = 0"),
    "odd date": HEAD + block().replace("2026-12-02", "yesterday"),
    "control": HEAD + block(defect="D2\\u001b[31m"),
    "bytes": "\ud800",
    "too large": "#" * (1 << 20) + "\n" + HEAD,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_one_is_one_line_and_sinks_nothing(home: Path, text: str) -> None:
    home.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError) as caught:
        read_overlay(home)
    assert str(home) in str(caught.value)
    assert str(caught.value).isprintable()
    known = known_defects()
    assert known.affected("D2", 11_549).status == "affected"
    assert len(known.notes) == 1
    assert "overlay was left out" in known.notes[0]
    assert "+local" not in known.version


def test_a_defect_nobody_knows_is_named_and_left(home: Path) -> None:
    home.write_text(HEAD + block("D77"))
    assert "D77" in known_defects().notes[0]


def test_a_pipe_in_its_place_does_not_hang(home: Path) -> None:
    os.mkfifo(home)
    assert "is no file" in known_defects().notes[0]


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert overlay_path() == tmp_path / ".local/share/llama-blackbox/catalogue/overlay.toml"


def test_explain_shows_what_is_local_and_what_could_not_be_read(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write_text(HEAD + block())
    assert explain("D2", Console(width=200)) == 0
    assert "local" in capsys.readouterr().out
    home.write_text("broken = = ")
    assert explain("D2", Console(width=200)) == 0
    assert "overlay was left out" in capsys.readouterr().out
