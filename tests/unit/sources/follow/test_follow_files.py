"""Log files followed through everything that rotation and servers do to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation
from collector.sources.follow.containers import container_log, container_stream
from collector.sources.follow.files import FileStream
from collector.sources.follow.formats import Wrapped
from collector.sources.follow.opening import Place, output_places
from collector.sources.stream import Batch

WHO = Incarnation(pid=4242, start_time=1.0, boot_id="b" * 32)
SLEEP = "2.00.004.097 I que    start_loop: entering sleeping state\n"
WAKE = "3.00.004.097 I que    start_loop: exiting sleeping state\n"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def follow(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., FileStream]]:
    made: list[FileStream] = []

    def begin(path: Path | None = None, **options: object) -> FileStream:
        place = options.pop("place", None) or Place(path or tmp_path / "server.log")
        made.append(FileStream(place, WHO, now=clock, **{"whole": True, **options}))
        return made[-1]

    yield begin
    for stream in made:
        stream.close()


def events(batch: Batch) -> list[str]:
    return [one.data["event"] for one in batch.evidence]


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_new_lines_come_once_and_partial_ones_wait_for_their_end(follow, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP + WAKE[:30])
    stream = follow()
    assert events(stream.poll()) == ["enter-sleep"]
    assert events(stream.poll()) == []
    append(log, WAKE[30:])
    batch = stream.poll()
    assert events(batch) == ["exit-sleep"]
    assert batch.evidence[0].incarnation == WHO
    assert stream.seen().lines == 2


def test_last_words_without_an_end_are_told_after_a_while_and_once(
    follow, tmp_path: Path, clock: Clock
) -> None:
    log = tmp_path / "server.log"
    append(log, "terminate called after throwing an instance of 'std::bad_alloc'")
    stream = follow()
    assert stream.poll().evidence == ()
    clock.now += 3
    assert [one.kind for one in stream.poll().evidence] == ["abort"]
    append(log, "\n" + SLEEP)
    assert events(stream.poll()) == ["enter-sleep"]


def test_a_stream_without_a_cursor_begins_at_the_end(follow, tmp_path: Path) -> None:
    append(tmp_path / "server.log", SLEEP)
    stream = follow(whole=False)
    assert stream.poll().evidence == ()
    append(tmp_path / "server.log", WAKE)
    assert events(stream.poll()) == ["exit-sleep"]


def test_it_goes_on_from_its_cursor(follow, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP + WAKE[:20])
    cursor = follow().poll().cursor
    append(log, WAKE[20:])
    batch = follow(cursor=cursor).poll()
    assert (events(batch), batch.gaps) == (["exit-sleep"], ())


def test_a_renamed_file_is_read_to_its_end_while_the_new_one_begins(follow, tmp_path: Path) -> None:
    # GIVEN a rotation by renaming, after which the server writes on into the old file for a while
    log = tmp_path / "server.log"
    append(log, SLEEP)
    stream = follow()
    stream.poll()
    log.rename(tmp_path / "server.log.1")
    assert stream.poll().evidence == ()
    assert "no such file" in (stream.health().problem or "")
    append(tmp_path / "server.log.1", WAKE)
    append(log, SLEEP)
    # THEN both are read
    assert sorted(events(stream.poll())) == ["enter-sleep", "exit-sleep"]
    assert stream.health().state == "ok"


def test_an_old_file_is_left_when_nobody_writes_it_any_more(follow, tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP)
    stream = follow()
    stream.poll()
    log.rename(tmp_path / "server.log.1")
    append(log, WAKE)
    cursor = json.loads(stream.poll().cursor or "{}")
    assert cursor["inode"] == (tmp_path / "server.log.1").stat().st_ino
    clock.now += 100
    append(log, SLEEP)
    stream.poll()
    cursor = json.loads(stream.poll().cursor or "{}")
    assert (cursor["inode"], cursor["offset"]) == (log.stat().st_ino, len(WAKE + SLEEP))


def test_after_a_restart_the_renamed_file_is_finished_first(follow, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP)
    cursor = follow().poll().cursor
    append(log, WAKE)
    log.rename(tmp_path / "server.log.1")
    append(log, SLEEP)
    batch = follow(cursor=cursor).poll()
    assert (events(batch), batch.gaps) == (["exit-sleep", "enter-sleep"], ())


def test_after_a_restart_a_file_that_is_gone_is_a_gap(follow, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP)
    first = follow()
    cursor = first.poll().cursor
    append(tmp_path / "new", WAKE)
    (tmp_path / "new").rename(log)
    batch = follow(cursor=cursor).poll()
    assert events(batch) == ["exit-sleep"]
    assert "rotated away" in batch.gaps[0].why


@pytest.mark.parametrize("after", ["", WAKE, WAKE * 20])
def test_a_file_that_is_copied_and_cut_is_read_again_from_its_beginning(
    follow, tmp_path: Path, after: str
) -> None:
    log = tmp_path / "server.log"
    append(log, SLEEP * 3)
    stream = follow()
    stream.poll()
    os.truncate(log, 0)
    append(log, after)
    batch = stream.poll()
    assert events(batch) == ["exit-sleep"] * after.count("\n")
    assert "cut or written anew" in batch.gaps[0].why
    assert stream.poll().gaps == ()


def test_garbage_and_huge_lines_are_bounded(follow, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    append(log, b"\x00\xff\x1b[2J" * 1000 + b"\n" + b"A" * (3 << 20) + b"\n" + SLEEP.encode())
    stream = follow()
    seen: list[str] = []
    for _ in range(20):
        batch = stream.poll()
        seen += events(batch)
        if not batch.more:
            break
    assert seen == ["enter-sleep"]
    assert stream.seen().lines == 3


def test_pipes_devices_and_planted_links_are_refused(follow, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        stream = follow(path)
        assert stream.poll().evidence == ()
        assert "no regular file" in (stream.health().problem or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to plant a link as somebody else")
def test_another_users_link_to_a_file_of_root_is_refused(follow, tmp_path: Path) -> None:
    append(tmp_path / "secret", SLEEP)
    os.symlink(tmp_path / "secret", tmp_path / "server.log")
    assert events(follow().poll()) == ["enter-sleep"]
    os.lchown(tmp_path / "server.log", 65534, 65534)
    stream = follow()
    assert stream.poll().evidence == ()
    assert "symbolic link" in (stream.health().problem or "")


def test_output_that_goes_to_a_file_is_found_by_the_process(follow, tmp_path: Path) -> None:
    log = tmp_path / "out"
    with log.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
        )
    try:
        places = output_places(child.pid)
        assert len(places) == 1
        log.unlink()
        stream = follow(place=places[0])
        with open(f"/proc/{child.pid}/fd/1", "ab") as file:
            file.write(SLEEP.encode())
        assert events(stream.poll()) == ["enter-sleep"]
    finally:
        child.communicate(b"")
    assert output_places(child.pid) == []


def test_a_path_in_another_root_follows_no_link_out_of_it(follow, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    append(tmp_path / "a" / "log", SLEEP)
    os.symlink(tmp_path / "a", tmp_path / "b")
    inside = Place(tmp_path / "a" / "log", root_of=os.getpid())
    assert events(follow(place=inside).poll()) == ["enter-sleep"]
    for path in (tmp_path / "b" / "log", Path("/../etc/passwd"), Path("/")):
        stream = follow(place=Place(path, root_of=os.getpid()))
        assert stream.poll().evidence == ()
        assert stream.health().problem


ID = "0123456789abcdef" * 4


def docker(text: str, stream: str = "stderr") -> str:
    return json.dumps({"log": text, "stream": stream, "time": "2026-12-02T10:00:00.5Z"}) + "\n"


def test_dockers_files_are_found_and_read_parts_put_together(tmp_path: Path) -> None:
    path = tmp_path / "containers" / ID / f"{ID}-json.log"
    path.parent.mkdir(parents=True)
    append(path, docker(SLEEP[:20]) + docker("noise\n", "stdout") + docker(SLEEP[20:]) + "no json\n")
    for name in (ID, ID[:12]):
        assert container_log(name, docker=(tmp_path / "containers",)) == path
    stream = container_stream(path, WHO, whole=True)
    batch = stream.poll()
    assert events(batch) == ["enter-sleep"]
    assert batch.evidence[0].wall == 1796205600.5
    stream.close()


def test_a_cursor_stands_before_an_unfinished_line_of_a_container(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, docker(WAKE) + docker(SLEEP[:20]))
    stream = FileStream(Place(path), WHO, whole=True, format=Wrapped)
    cursor = stream.poll().cursor
    append(path, docker(SLEEP[20:]))
    again = FileStream(Place(path), WHO, cursor=cursor, format=Wrapped)
    assert events(again.poll()) == ["enter-sleep"]
    stream.close()
    again.close()


def test_kubernetes_files_are_found_and_read(tmp_path: Path) -> None:
    real = tmp_path / "pods" / "ns_pod_uid" / "llama" / "0.log"
    real.parent.mkdir(parents=True)
    (tmp_path / "containers").mkdir()
    os.symlink(real, tmp_path / "containers" / f"pod_ns_llama-{ID}.log")
    stamp = "2026-12-02T10:00:00.500000000Z stderr"
    append(real, f"{stamp} P {SLEEP[:20]}\n{stamp} F {SLEEP[20:]}{stamp} F other\n")
    found = container_log(ID, docker=(), podman=(), kubernetes=tmp_path / "containers")
    assert found == real
    stream = container_stream(real, WHO, whole=True)
    assert events(stream.poll()) == ["enter-sleep"]
    stream.close()


def test_an_id_that_is_none_opens_no_path(tmp_path: Path) -> None:
    for name in ("../../etc", "", "x" * 64, ID + "/..", "*"):
        assert container_log(name, docker=(tmp_path,), podman=(tmp_path,), kubernetes=tmp_path) is None
