"""What goes and what stays: by age, count and size, and never the newest of a signature."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from capture_cores import capture_made, core_bytes_written

from analyzers.errors import UserError
from collector.capture.kept import retention
from collector.capture.kept.captures import Capture, captures, find
from collector.capture.kept.retention import DAY, Rules, doomed, read_rules, throw_away
from collector.capture.kept.signatures import signature
from collector.capture.tidying import tidy

NOW = 1_796_195_973.0


def one(store: Path, number: int, days: float, **more: object) -> Path:
    when = NOW - days * DAY
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(when))}-{number}-{number}"
    crash = {"signal": 11, "time": int(when), "ns_pid": number, "program": "/x"}
    return capture_made(store, name, pid=number, core=False, more={"crash": crash, **more})


def gone(store: Path, rules: Rules, keys: dict[int, str]) -> set[int | None]:
    rows = doomed(captures(store), rules, lambda each: keys[each.pid or 0], NOW)
    return {capture.pid for capture, _ in rows}


def test_age_count_and_size_each_take_the_oldest_first(tmp_path: Path) -> None:
    for number, days in ((1, 100), (2, 50), (3, 10), (4, 1)):
        one(tmp_path, number, days)
    keys = dict.fromkeys(range(1, 5), "same")
    assert gone(tmp_path, Rules(days=60), keys) == {1}
    assert gone(tmp_path, Rules(count=2), keys) == {1, 2}
    assert gone(tmp_path, Rules(bytes=1), keys) == {1, 2, 3}
    assert gone(tmp_path, Rules(), keys) == {1}
    assert gone(tmp_path, Rules(days=1000), keys) == set()


def test_the_newest_of_each_signature_stays_whatever_the_rules(tmp_path: Path) -> None:
    for number, days in ((1, 400), (2, 300), (3, 200), (4, 100)):
        one(tmp_path, number, days)
    keys = {1: "a", 2: "a", 3: "b", 4: "a"}
    assert gone(tmp_path, Rules(days=1, count=1, bytes=1), keys) == {1, 2}


def test_the_greedy_user_gives_first_then_its_greedy_unit(tmp_path: Path) -> None:
    # GIVEN one old capture of a quiet user, and newer ones of another: of a quiet unit, and of one that loops
    def of(uid: int, unit: str, number: int, days: float) -> None:
        folder = one(tmp_path, number, days, unit=unit)
        told = json.loads((folder / "capture.json").read_text())
        told["crash"]["uid"] = uid
        (folder / "capture.json").write_text(json.dumps(told))

    of(1000, "quiet.service", 1, 80)
    of(2000, "other.service", 2, 70)
    for number in range(3, 8):
        of(2000, "loop.service", number, 60 - number)
    keys = dict.fromkeys(range(1, 9), "same")
    keys[7] = "newest"
    # THEN the looping unit's oldest go, one by one, before anybody else's
    assert gone(tmp_path, Rules(count=4), keys) == {3, 4, 5}


def test_ever_new_signatures_do_not_hold_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SIGNATURES_OF_USER", 2)
    for number in range(1, 6):
        one(tmp_path, number, 10 - number)
    keys = {number: f"new {number}" for number in range(1, 6)}
    assert gone(tmp_path, Rules(count=1), keys) == {1, 2, 3}


def test_the_user_and_the_unit_of_a_capture_are_known(tmp_path: Path) -> None:
    folder = capture_made(tmp_path, "20261201T000000Z-4711-100-u1000", core=False)
    (folder / "cgroup").write_text("0::/system.slice/llama@a.service/child\n")
    found = captures(tmp_path)[0]
    assert (found.uid, found.unit, found.pid) == (1000, "llama@a.service", 4711)


def test_equal_moments_leave_one(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        one(tmp_path, number, 100)
    assert len(gone(tmp_path, Rules(days=1), dict.fromkeys((1, 2, 3), "same"))) == 2


def test_a_removal_that_was_killed_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = one(tmp_path, 1, 100)
    monkeypatch.setattr(retention.shutil, "rmtree", lambda *_, **__: None)
    throw_away(Capture(folder, {}))
    monkeypatch.undo()
    # THEN it is no capture any more, and nothing adopts it
    assert captures(tmp_path) == []
    assert list(tmp_path.iterdir()) != []
    list(tidy(tmp_path, tmp_path / "none"))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    for number in (1, 2):
        one(tmp_path, number, 4000)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    lines = list(tidy(tmp_path, tmp_path / "none", dry_run=True))
    assert [line.split()[:3] for line in lines] == [["would", "throw", "away"]]
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    # AND a real one does what it said
    lines = list(tidy(tmp_path, tmp_path / "none"))
    assert any(line.startswith("threw away") for line in lines)
    assert [capture.pid for capture in captures(tmp_path)] == [2]


def test_rules_are_read_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "unsafe", lambda path: None)
    file = tmp_path / "retention.conf"
    assert read_rules(file) == Rules()
    file.write_text("# mine\ndays = 7\n\ncount=5\nbytes = 1000\n")
    assert read_rules(file) == Rules(7, 5, 1000)
    for text in ("days = -1", "day = 3", "count = 0", "bytes = 10G", "nonsense", "days = 9999999999999999"):
        file.write_text(text)
        with pytest.raises(UserError, match="not understood"):
            read_rules(file)


def test_rules_that_others_can_write_throw_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "unsafe", lambda path: f"{path} can be written by others (mode 666)")
    (tmp_path / "retention.conf").write_text("count = 1\n")
    with pytest.raises(UserError, match="written by others"):
        list(tidy(tmp_path, tmp_path / "retention.conf"))


def test_a_signature_is_asked_once_and_kept(tmp_path: Path) -> None:
    folder = capture_made(tmp_path, "20261201T000000Z-4711-100")
    key = signature(captures(tmp_path)[0])
    assert key
    (folder / "core").unlink()
    assert signature(captures(tmp_path)[0]) == key


@pytest.mark.parametrize("content", [b"", b"\x7fELF" + b"\xff" * 300, b"no core"])
def test_a_core_that_says_nothing_has_a_signature_all_the_same(tmp_path: Path, content: bytes) -> None:
    folder = capture_made(tmp_path, "20261201T000000Z-4711-100")
    (folder / "core").write_bytes(content)
    assert signature(captures(tmp_path)[0]) == "unknown|11|/usr/bin/llama-server"


def test_a_capture_is_found_by_name_beginning_pid_and_as_the_newest(tmp_path: Path) -> None:
    names = ["20261201T000000Z-1-1", "20261202T000000Z-2-2"]
    for number, name in enumerate(names, 1):
        capture_made(tmp_path, name, pid=number, core=False)
    assert find(tmp_path, "newest").id == names[1]
    assert find(tmp_path, "20261201").id == names[0]
    assert find(tmp_path, names[0]).id == names[0]
    with pytest.raises(UserError, match="2 captures begin so"):
        find(tmp_path, "202612")
    for name in ("", "zzz", "../x"):
        with pytest.raises(UserError, match="no such capture"):
            find(tmp_path, name)


def test_names_and_manifests_of_nonsense_do_not_stop_the_list(tmp_path: Path) -> None:
    for name in ("x", "20269999T999999Z-a-b", "-", "20261201T000000Z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "capture.json").write_text(
            "[1, 2" if name == "x" else '{"crash": [], "process": 7}'
        )
    core_bytes_written(tmp_path / "stray")
    assert len(captures(tmp_path)) == 4
