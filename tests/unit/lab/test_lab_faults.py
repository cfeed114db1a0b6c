"""What an outcome is called, and that every expectation uses ids that exist."""

import pytest

from analyzers.contracts.registry import CAUSES, CLASSES, PHASES
from collector.lab.faults import (
    bus_error,
    content,
    d1_stale_capture,
    d2_unload_under_reader,
    d3_stranded,
    exception,
    harmless,
    wake_reload,
)
from collector.lab.faults.d2_unload_under_reader import EMPTY_VOCABULARY, _expected, classify
from collector.lab.faults.provoked import ANSWERED, CRASH, ERROR, HANG, WRONG, Expected
from collector.lab.reference.client import Answer


def answer(status=200, body=b'{"tokens":[1,2]}', error=None):
    return Answer("/tokenize", status, body, error, 0.0, 0.1)


AWAKE = answer()
TOO_LONG = answer(400, b'{"error":{"message":"request (9 tokens) exceeds"}}')
EMPTY = answer(400, b'{"error":{"message":"' + EMPTY_VOCABULARY + b'"}}')


@pytest.mark.parametrize(
    ("ended", "given_", "baseline", "outcome"),
    [
        (True, None, AWAKE, CRASH),
        (True, answer(None, b"", "RemoteDisconnected"), AWAKE, CRASH),
        (False, None, AWAKE, HANG),
        (False, answer(None, b"", "TimeoutError"), AWAKE, HANG),
        (False, answer(500, b"{}"), AWAKE, ERROR),
        (False, EMPTY, TOO_LONG, ERROR),
        (False, answer(200, b'{"tokens":[1,3]}'), AWAKE, WRONG),
        (False, answer(400, b'{"error":{"message":"request (8 tokens) exceeds"}}'), TOO_LONG, WRONG),
        (False, answer(), AWAKE, ANSWERED),
        (False, TOO_LONG, TOO_LONG, ANSWERED),
        (False, answer(200, b'{"tokens":[1,2],"ms":3}'), AWAKE, ANSWERED),
        (False, answer(), None, WRONG),
    ],
)
def test_outcomes_are_told_apart(ended, given_, baseline, outcome):
    assert classify(ended, given_, baseline) == outcome


def expectations():
    modules = (bus_error, content, d1_stale_capture, d3_stranded, exception, harmless, wake_reload)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Expected):
                yield value
            elif isinstance(value, content.Content):
                yield value.expected
    for outcome in (CRASH, ERROR, HANG, WRONG, ANSWERED):
        yield _expected(d2_unload_under_reader.COMPLETION, outcome)


def test_every_expectation_uses_ids_of_the_registry():
    found = list(expectations())
    assert len(found) > 12
    for each in found:
        assert each.class_ in CLASSES
        assert set(each.causes) <= set(CAUSES)
        assert set(each.phases) <= set(PHASES)
