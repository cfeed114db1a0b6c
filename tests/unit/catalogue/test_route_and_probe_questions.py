"""Routes that reach a defect, and probes that leave a server alone: build by build, never by a guess."""

from __future__ import annotations

import pytest

from analyzers.catalogue.loader import load_catalogue
from analyzers.catalogue.reach import load_routes
from analyzers.catalogue.routes import ALWAYS_SAFE, route_of
from analyzers.errors import UserError

PROBES = ["/health", "/v1/health", "/props", "/models", "/v1/models", "/metrics", "/slots", "/lora-adapters"]
COUNTS = [
    "/chat/completions/input_tokens",
    "/v1/chat/completions/input_tokens",
    "/responses/input_tokens",
    "/v1/responses/input_tokens",
]
MEASURED = [8672, 8929, 9093, 9294, 9538, 9713, 9873, 10068, 10229, 10566, 10809, 11063, 11138, 11368, 11549]


@pytest.mark.parametrize("build", MEASURED)
@pytest.mark.parametrize("route", PROBES)
def test_every_probe_of_every_measured_build_is_known(build: int, route: str) -> None:
    found = load_catalogue().probe_safety(build, route)
    assert found is not None
    assert not found.presumed
    assert (found.method, found.date) == ("measured", "2026-12-02")
    assert found.first <= build <= found.last


@pytest.mark.parametrize(
    ("build", "safe"),
    [
        (None, ["/health"]),
        (1000, ["/health"]),  # older than anything measured
        (8671, ["/health"]),
        (9294, ["/health", "/v1/health", "/props", "/models", "/v1/models"]),
        (10400, ["/health", "/v1/health", "/props"]),  # between two that differ: nobody knows
        (11549, ["/health", "/v1/health", "/props", "/models", "/v1/models"]),
        (12_000, ["/health", "/v1/health", "/props", "/models", "/v1/models"]),
    ],
)
def test_safe_probes_by_build(build: int | None, safe: list[str]) -> None:
    assert load_catalogue().safe_probes(build) == tuple(f"GET {route}" for route in safe)


def test_metrics_by_build() -> None:
    known = load_catalogue()
    old, new = known.probe_safety(10229, "/metrics"), known.probe_safety(10566, "GET /metrics?x=1")
    assert old is not None
    assert new is not None
    assert (old.wakes, old.resets, old.moves_sleep) == (True, True, False)
    assert (new.wakes, new.resets, new.blocks, new.moves_sleep) == (False, False, True, True)
    assert not old.safe
    assert not new.safe  # it can put a server to sleep under a request that is just being read
    assert known.probe_safety(10400, "/metrics") is None


def test_models_block_only_since_they_wait_for_the_load() -> None:
    known = load_catalogue()
    blocks = {b: known.probe_safety(b, "/models") for b in (10229, 10566)}
    assert [found is not None and found.blocks for found in blocks.values()] == [False, True]
    health = known.probe_safety(11549, "/health")
    assert health is not None
    assert not health.blocks


def test_newer_builds_are_presumed_and_say_so() -> None:
    found = load_catalogue().probe_safety(20_000, "/props")
    assert found is not None
    assert found.presumed
    assert load_catalogue().probe_safety(None, "/props") is None
    assert load_catalogue().probe_safety(11549, "/tokenize") is None


def test_a_poller_that_keeps_the_model_awake_is_never_safe() -> None:
    for build in (*MEASURED, 99_999):
        assert not {"GET /slots", "GET /lora-adapters", "GET /metrics"} & set(
            load_catalogue().safe_probes(build)
        )


@pytest.mark.parametrize("route", [*COUNTS, "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    ("build", "status"),
    [
        (9713, "affected"),
        (10000, "presumed-affected"),
        (11138, "affected"),
        (11140, "unmeasured"),
        (11368, "fixed"),
        (11549, "fixed"),
        (12000, "presumed-fixed"),
        (None, "unmeasured"),
    ],
)
def test_d1_by_route_and_build(route: str, build: int | None, status: str) -> None:
    assert load_catalogue().route_standing("D1", route, build).status == status


def test_a_route_older_than_the_defect_was_sound_before_it() -> None:
    known = load_catalogue()
    assert known.route_standing("D1", "/v1/messages/count_tokens", 9294).status == "absent"
    reach = load_routes(known.routes_file).reach["D1"] if known.routes_file else ()
    first = [row.builds[0].status for row in reach]
    assert first == ["absent", "fixed"]  # 404 there, an answer here


def test_tokenising_reads_but_never_posts() -> None:
    known = load_catalogue()
    assert known.route_standing("D2", "POST /tokenize", 11549).status == "affected"
    assert known.route_standing("D3", "POST /tokenize", 11368).status == "absent"
    assert known.route_standing("D3", "POST /completion", 11063).status == "affected"


def test_what_nobody_looked_at_is_unmeasured_not_clean() -> None:
    known = load_catalogue()
    assert known.route_standing("D2", "/no-such-route", 11549).status == "unmeasured"
    assert known.route_standing("D2", "/infill", 9000).status == "unmeasured"
    assert known.route_standing("D2", "/infill", 11549).status == "unmeasured"
    with pytest.raises(KeyError):
        known.route_standing("D99", "/infill", 11549)


def test_every_route_of_the_file_agrees_with_its_defect() -> None:
    """A route may be unmeasured where the defect is known; it is never affected where the defect is not."""
    known = load_catalogue()
    assert known.routes_file is not None
    for id, rows in load_routes(known.routes_file).reach.items():
        witnesses = [w for row in rows for r in row.builds for w in r.witnesses if r.status == "affected"]
        assert witnesses
        assert all(known.affected(id, w.build).exposed for w in witnesses)


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("/tokenize", "POST /tokenize"),
        ("post /tokenize?x=1", "POST /tokenize"),
        (" GET /slots/ ", "GET /slots"),
        ("/", "POST /"),
    ],
)
def test_a_route_is_read_as_people_write_it(text: str, route: str) -> None:
    assert route_of(text, "POST") == route


def test_the_one_probe_for_strangers_never_touches_the_queue() -> None:
    known = load_catalogue()
    for build in MEASURED:
        found = known.probe_safety(build, ALWAYS_SAFE)
        assert found is not None
        assert found.safe
        assert not found.blocks


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("wakes = false", "wakes = 0", "'wakes' must be bool"),
        ("wakes = false\n", "", "'wakes' must be given"),
        ('"GET /health"', '"/health"', "method and a path"),
        ("last = 10229", "last = 11000", "overlap"),
        ('routes = ["GET /props"]', "routes = []", "needs routes"),
        ('defect = "D1"', "", "'defect' must be given"),
        ("first = 8672\nlast = 11549", "first = 8672\nlast = 8000", "before it begins"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path, old: str, new: str, said: str) -> None:
    shipped = load_catalogue().routes_file
    assert shipped is not None
    text = shipped.read_text()
    assert old in text
    path = tmp_path / "routes.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=r"routes\.toml") as caught:
        load_routes(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
