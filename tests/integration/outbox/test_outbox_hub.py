"""Delivery to a hub over real HTTP: whatever it does, nothing is lost, doubled or waited for without end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from outbox_parts import Clock, incident, store
from small_hub import Handler, SmallHub, small_hub

from analyzers.contracts.outbox_read import open_reading
from collector.outbox.delivery import POISON_ATTEMPTS, Delivery
from collector.outbox.hub import MAX_ANSWER, HubSink
from collector.outbox.lane import MOST_DELAY
from collector.outbox.sinks import Later, Outgoing, Refused
from collector.outbox.store import Store
from collector.outbox.write import NewAttachment, Write

DEADLINE = 20.0


@pytest.fixture
def hub() -> Iterator[SmallHub]:
    with small_hub() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    made = store(tmp_path, clock)
    yield made
    made.close()


def until(delivery: Delivery, clock: Clock, done: Callable[[], bool]) -> bool:
    """Step, letting the injected clock run on whenever nothing is in flight."""
    end = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > end:
            return False
        if not delivery.step():
            clock.now += MOST_DELAY
        time.sleep(0.002)
    return True


def states(writer: Store) -> dict[str, str]:
    writer.flush()
    return dict(writer.rows("SELECT incident, state FROM deliveries"))


def test_metadata_first_and_attachments_when_they_are_wanted(
    hub: SmallHub, clock: Clock, writer: Store, tmp_path: Path
) -> None:
    ident = incident().id
    files = (
        NewAttachment(ident, "report.json", "report", b"{}"),
        NewAttachment(ident, "log.txt", "log", b"lines" * 10_000),
        NewAttachment(ident, "core", "core", b"memory", private=True),
    )
    writer.commit(Write(incidents=(incident(),), attachments=files))
    hub.want = ["log.txt", "core", "../../etc/passwd", "nothing"]
    delivery = Delivery(writer, [HubSink(hub.url, "s3cret")], mono=clock)
    assert until(delivery, clock, lambda: bool(hub.files) and not delivery.step())
    # THEN what may leave the host was offered, and what was wanted of it was sent
    assert [one["name"] for one in hub.records[ident]["manifest"]] == ["log.txt", "report.json"]
    assert hub.files == {(ident, "log.txt"): b"lines" * 10_000}
    assert all(each["Authorization"] == "Bearer s3cret" for each in hub.headers)
    assert states(writer) == {ident: "delivered"}
    # WHEN a later revision comes THEN it is sent, once
    writer.commit(Write(incidents=(incident(revision=2),)))
    assert until(delivery, clock, lambda: len(hub.posts) == 2 and not delivery.step())
    assert hub.posts == [(ident, 1), (ident, 2)]
    delivery.close()


def test_a_restarted_agent_sends_nothing_twice_that_was_receipted(
    hub: SmallHub, clock: Clock, writer: Store
) -> None:
    writer.commit(Write(incidents=(incident(1), incident(2))))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    assert until(delivery, clock, lambda: len(hub.posts) == 2 and not delivery.step())
    delivery.close()
    writer.flush()
    again = Delivery(writer, [HubSink(hub.url)], mono=clock)
    writer.commit(Write(incidents=(incident(3),)))
    assert until(again, clock, lambda: len(hub.posts) == 3 and not again.step())
    assert len(set(hub.posts)) == 3
    again.close()


def garbage(handler: Handler, body: bytes) -> bool:
    handler.say(200, b"<html>please log in</html>")
    return True


def other_id(handler: Handler, body: bytes) -> bool:
    handler.say(200, {"id": "another", "want": []})
    return True


def nested(handler: Handler, body: bytes) -> bool:
    handler.say(200, b"[" * 60_000)
    return True


def huge(handler: Handler, body: bytes) -> bool:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b"x" * MAX_ANSWER)
    except OSError:
        pass
    return True


def headers(handler: Handler, body: bytes) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n")
    return True


def noise(handler: Handler, body: bytes) -> bool:
    handler.wfile.write(b"\x00\xff\x16\x03" * 100)
    handler.close_connection = True
    return True


def redirect(handler: Handler, body: bytes) -> bool:
    handler.say(307, None, Location="/elsewhere")
    return True


def failing(handler: Handler, body: bytes) -> bool:
    handler.say(500, b"Traceback")
    return True


def denied(handler: Handler, body: bytes) -> bool:
    handler.say(401, None)
    return True


def cut(handler: Handler, body: bytes) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"id"')
    handler.close_connection = True
    return True


def slow(handler: Handler, body: bytes) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b"X")
            handler.wfile.flush()
    except OSError:
        pass
    handler.close_connection = True
    return True


def never(handler: Handler, body: bytes) -> bool:
    handler.server.over.wait(DEADLINE)
    handler.close_connection = True
    return True


BAD = [garbage, other_id, nested, huge, headers, noise, redirect, failing, denied, cut, slow, never]


@pytest.mark.parametrize("how", BAD, ids=lambda how: how.__name__)
def test_a_bad_hub_is_named_and_nothing_counts_as_delivered(
    hub: SmallHub, clock: Clock, writer: Store, how: Callable[[Handler, bytes], bool]
) -> None:
    # GIVEN a hub that does this
    hub.misbehave = how
    writer.commit(Write(incidents=(incident(),)))
    delivery = Delivery(writer, [HubSink(hub.url, seconds=0.5)], mono=clock)
    assert until(delivery, clock, lambda: delivery.health()[0].problem is not None)
    problem = delivery.health()[0].problem or ""
    assert problem.isprintable()
    assert states(writer) == {}
    # WHEN it is well again THEN the record comes, without a restart
    hub.misbehave = lambda handler, body: False
    assert until(delivery, clock, lambda: bool(hub.posts))
    assert until(delivery, clock, lambda: states(writer) == {incident().id: "delivered"})
    assert delivery.health()[0].problem is None
    delivery.close()


def test_redirects_are_not_followed(hub: SmallHub, clock: Clock, writer: Store) -> None:
    with small_hub() as elsewhere:
        hub.misbehave = lambda handler, body: handler.say(307, None, Location=elsewhere.url + "/x") or True
        writer.commit(Write(incidents=(incident(),)))
        delivery = Delivery(writer, [HubSink(hub.url, "s3cret")], mono=clock)
        assert until(delivery, clock, lambda: len(hub.headers) >= 3)
        delivery.close()
        assert elsewhere.headers == []


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_record_refused_for_good_is_marked_counted_and_the_next_goes_on(
    hub: SmallHub, clock: Clock, writer: Store, status: int
) -> None:
    def misbehave(handler: Handler, body: bytes) -> bool:
        if incident(1).id.encode() not in body:
            return False
        handler.say(status, None)
        return True

    hub.misbehave = misbehave
    writer.commit(Write(incidents=(incident(1), incident(2))))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    assert until(delivery, clock, lambda: bool(hub.posts) and not delivery.step())
    assert states(writer) == {incident(1).id: "refused", incident(2).id: "delivered"}
    assert delivery.health()[0].refused == 1
    assert dict(writer.health().dropped) == {"refused_incidents": 1}
    # WHEN a later revision of it comes THEN it is tried again
    hub.misbehave = lambda handler, body: False
    writer.commit(Write(incidents=(incident(1, revision=2),)))
    assert until(delivery, clock, lambda: (incident(1).id, 2) in hub.posts and not delivery.step())
    assert states(writer)[incident(1).id] == "delivered"
    delivery.close()


def test_a_record_that_always_fails_holds_nothing_up_and_is_given_up_in_the_end(
    hub: SmallHub, clock: Clock, writer: Store
) -> None:
    def misbehave(handler: Handler, body: bytes) -> bool:
        if incident(1).id.encode() in body:
            handler.say(500, None)
            return True
        return False

    hub.misbehave = misbehave
    writer.commit(Write(incidents=(incident(1),)))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    # WHEN the hub fails with it alone, however often THEN that makes it no bad record
    assert until(delivery, clock, lambda: len(hub.headers) > 2 * POISON_ATTEMPTS)
    assert states(writer) == {}
    # WHEN others come through between any two tries THEN it is given up
    for pid in range(2, 40):
        writer.commit(Write(incidents=(incident(pid),)))
        assert until(delivery, clock, lambda pid=pid: (incident(pid).id, 1) in hub.posts)
        tried = len(hub.headers)
        given_up = until(
            delivery,
            clock,
            lambda tried=tried: len(hub.headers) > tried or bool(delivery.health()[0].refused),
        )
        assert given_up
        if delivery.health()[0].refused:
            break
    assert states(writer)[incident(1).id] == "refused"
    delivery.close()


def test_an_attachment_too_large_for_the_hub_is_not_sent_again(
    hub: SmallHub, clock: Clock, writer: Store
) -> None:
    def misbehave(handler: Handler, body: bytes) -> bool:
        if handler.command == "PUT":
            handler.say(413, None)
            return True
        return False

    hub.misbehave, hub.want = misbehave, ["log.txt"]
    note = NewAttachment(incident().id, "log.txt", "log", b"lines")
    writer.commit(Write(incidents=(incident(),), attachments=(note,)))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    assert until(delivery, clock, lambda: len(hub.headers) == 2 and not delivery.step())
    writer.flush()
    assert writer.rows("SELECT state FROM wanted") == [("refused",)]
    assert states(writer) == {incident().id: "delivered"}
    delivery.close()


def test_a_hub_that_is_away_costs_the_agent_no_time(clock: Clock, writer: Store) -> None:
    with small_hub() as gone:
        url = gone.url
    writer.commit(Write(incidents=(incident(),)))
    delivery = Delivery(writer, [HubSink(url)], mono=clock, jitter=lambda: 1.0)
    assert until(delivery, clock, lambda: delivery.lanes[0].failures >= 12)
    assert delivery.lanes[0].not_before - clock.now <= MOST_DELAY
    with open_reading(writer.folder) as outbox:
        assert outbox.deliveries(incident().id) == []
    delivery.close()


def test_with_a_full_disk_incidents_still_leave_the_host(hub: SmallHub, clock: Clock, writer: Store) -> None:
    writer.commit(Write(incidents=(incident(1),)))
    assert writer._db is not None
    writer._db.execute("PRAGMA max_page_count = 1")
    filler = "x" * 100_000
    assert not writer.commit(Write(incidents=(incident(2, summary=filler),)))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    assert until(delivery, clock, lambda: len(hub.posts) == 2 and not delivery.step())
    assert {ident for ident, _ in hub.posts} == {incident(1).id, incident(2).id}
    delivery.close()


def test_a_sink_that_raises_is_named_and_holds_up_no_other(
    hub: SmallHub, clock: Clock, writer: Store
) -> None:
    class Broken:
        name = "broken"

        def send(self, outgoing: Outgoing) -> Refused | Later:
            raise RuntimeError("no")

        def attach(self, row: object, path: Path) -> Refused:
            raise RuntimeError("no")

        def close(self) -> None:
            raise RuntimeError("no")

    writer.commit(Write(incidents=(incident(),)))
    delivery = Delivery(writer, [Broken(), HubSink(hub.url)], mono=clock)
    assert until(delivery, clock, lambda: bool(hub.posts) and delivery.health()[0].problem is not None)
    assert "RuntimeError: no" in (delivery.health()[0].problem or "")
    delivery.close()


def test_a_hub_that_breaks_off_an_attachment_still_gets_the_records(
    hub: SmallHub, clock: Clock, writer: Store
) -> None:
    def misbehave(handler: Handler, body: bytes) -> bool:
        if handler.command == "PUT":
            handler.connection.close()
            handler.close_connection = True
            return True
        return False

    hub.misbehave, hub.want = misbehave, ["log.txt"]
    note = NewAttachment(incident().id, "log.txt", "log", b"lines")
    writer.commit(Write(incidents=(incident(),), attachments=(note,)))
    delivery = Delivery(writer, [HubSink(hub.url)], mono=clock)
    # WHEN others come through between any two tries of it THEN they do not wait, and it is given up at last
    for pid in range(100, 100 + 2 * POISON_ATTEMPTS):
        writer.commit(Write(incidents=(incident(pid),)))
        assert until(delivery, clock, lambda pid=pid: (incident(pid).id, 1) in hub.posts)
        tried = len(hub.headers)
        assert until(delivery, clock, lambda tried=tried: len(hub.headers) > tried or not delivery.step())
    writer.flush()
    assert writer.rows("SELECT state FROM wanted") == [("refused",)]
    delivery.close()
