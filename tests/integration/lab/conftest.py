"""Labs that keep their servers in the test's own folder, and the two builds every machine can have."""

import pytest

from collector.lab.faults import Stage
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare


@pytest.fixture
def lab(tmp_path):
    with ReferenceServer(tmp_path / "lab") as made:
        yield made


@pytest.fixture(scope="session")
def stale_build():
    """xllamacpp 2026.9.11063: has D1."""
    return ServerSpec(cached_model(), python=prepare(STALE_CAPTURE_VERSION))


@pytest.fixture(scope="session")
def unload_build():
    """xllamacpp 2026.10.11549: has D2 and D3."""
    return ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION))


@pytest.fixture
def hosted(unload_build):
    return unload_build


@pytest.fixture
def stale_stage(lab, stale_build):
    return Stage(lab, stale_build)


@pytest.fixture
def stage(lab, unload_build):
    return Stage(lab, unload_build)
