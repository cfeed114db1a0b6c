"""Days and builds of wheels."""

import pytest

from analyzers.contracts.trials import Subject
from collector.lab.verify.routes.wheels import build_number, numbered, released


def hosted(version, build=None):
    return Subject(kind="hosted", name=f"xllamacpp {version}", version=version, build=build)


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("2026.10.11549", "2026-10"),
        ("2026.4.8672.1", "2026-04"),
        ("0.2.8", "2025-12-27"),
        ("0.9.9", None),
        (None, None),
    ],
)
def test_the_day_is_in_the_version_or_in_the_table(version, day):
    assert released(hosted(version)) == day


def test_a_binary_has_no_day():
    assert released(Subject(kind="native", name="b1", version="version: 11138 (abc)")) is None


def test_old_wheels_get_their_build_from_the_table():
    assert build_number(hosted("0.2.8")) == 7551
    assert numbered(hosted("0.2.8")).name == "b7551 (xllamacpp 0.2.8)"


def test_a_known_build_is_left_alone():
    subject = hosted("2026.10.11549", 11549)

    assert numbered(subject) is subject
    assert build_number(subject) == 11549


def test_an_unknown_wheel_stays_without_build():
    assert numbered(hosted("0.2.7")).build is None
