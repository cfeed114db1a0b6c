"""Every fault, provoked once on a real server: what happened is what was meant, and it left its evidence."""

import shutil
from dataclasses import replace

import pytest

from collector.lab.faults import (
    bus_error,
    content,
    d1_stale_capture,
    d2_error_answer,
    d2_unload_under_reader,
    d3_stranded,
    exception,
    harmless,
    wake_reload,
)
from collector.lab.faults.d2_unload_under_reader import COMPLETION_ERROR, TOKENIZE_ERROR
from collector.lab.reference import CoreSettings
from collector.lab.reference.conditions import asleep_by_props

pytestmark = pytest.mark.real
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
# A core is looked for only where this machine's setting makes one that can be found.
KEEPS_CORES = not CoreSettings.of_machine().pattern.startswith(("@", "|")) or "systemd-coredump" in (
    CoreSettings.of_machine().pattern
)


def left_a_core(provoked):
    return provoked.core.path is not None if KEEPS_CORES else bool(provoked.core.reason)


def test_d1_crashes_and_its_awake_twin_is_answered(stale_stage):
    provoked = d1_stale_capture.provoke(stale_stage)
    assert provoked.happened
    assert provoked.ending.signal == 11
    assert left_a_core(provoked)
    assert b"entering sleeping state" in provoked.log.read_bytes()
    twin = d1_stale_capture.provoke_twin(stale_stage)
    assert twin.happened
    assert twin.ending.code == 0
    assert b"entering sleeping state" not in twin.log.read_bytes()


def test_d1_needs_the_defective_build(stage):
    provoked = d1_stale_capture.provoke(stage)
    assert provoked.outcome == "answered"
    assert provoked.answers[0].status == 200


@needs_gdb
def test_d1_under_gdb_leaves_the_core_gdb_saved(stale_stage):
    provoked = d1_stale_capture.provoke(replace(stale_stage, under_gdb=True))
    assert provoked.ending.signal == 11
    assert provoked.core.path.parent == provoked.server.folder
    assert "gdb" in provoked.core.reason


@pytest.mark.parametrize(
    "shape",
    [d2_unload_under_reader.COMPLETION, d2_unload_under_reader.TOKENIZE_UNPOISONED],
    ids=lambda shape: shape.name,
)
def test_d2_crashes_within_its_tries(stage, shape):
    said = []
    provoked = d2_unload_under_reader.provoke(replace(stage, say=said.append), shape)
    assert provoked.happened
    assert provoked.ending.signal == 11
    assert left_a_core(provoked)
    assert 1 <= len(said) <= d2_unload_under_reader.TRIES
    assert "crash" in said[-1]


@pytest.mark.full  # hit in about nine of twelve tries; the gate reads a recorded one
@pytest.mark.parametrize("shape", [TOKENIZE_ERROR, COMPLETION_ERROR], ids=lambda shape: shape.name)
def test_d2_answered_with_an_error_leaves_the_server_alive(stage, shape):
    provoked = d2_error_answer.provoke(stage, shape, tries=20)
    assert provoked.happened
    awake, pinned = provoked.answers
    assert d2_unload_under_reader.EMPTY_VOCABULARY not in awake.body
    assert pinned.status == d2_error_answer.STATUS[shape.name]
    assert d2_unload_under_reader.EMPTY_VOCABULARY in pinned.body
    assert provoked.ending is None


@needs_gdb
@pytest.mark.full
def test_d2_under_gdb_leaves_the_core_gdb_saved(stage):
    provoked = d2_unload_under_reader.provoke(replace(stage, under_gdb=True))
    assert provoked.ending.signal == 11
    assert provoked.core.path.parent == provoked.server.folder


def test_d3_leaves_a_client_waiting_until_somebody_wakes_the_server(stage):
    provoked = d3_stranded.provoke(stage)
    assert provoked.happened
    assert provoked.client.waiting
    assert asleep_by_props(provoked.server)
    ending = d3_stranded.release(provoked, 20)
    assert provoked.client.answer.status == 200
    assert ending.code == 0


@pytest.mark.parametrize("damage", wake_reload.STATES, ids=lambda damage: damage.__name__)
def test_a_model_damaged_while_asleep_aborts_the_wake(stage, damage):
    quiet = replace(stage, base=replace(stage.base, environment={"GGML_NO_BACKTRACE": "1"}))
    provoked = wake_reload.provoke(quiet, damage)
    assert provoked.happened
    assert provoked.ending.signal == 6
    assert b"failed to reload model after sleeping" in provoked.log.read_bytes()


@pytest.mark.parametrize(
    "what",
    [
        content.OVERFLOW_COMPLETION,
        content.OVERFLOW_TOKENIZE,
        content.OVERFLOW_COUNT,
        content.OVERFLOW_GRAMMAR,
    ],
    ids=lambda what: what.name,
)
def test_the_content_of_a_request_overflows_an_awake_servers_stack(stage, what):
    provoked = content.provoke(stage, what)
    assert provoked.happened
    assert provoked.ending.signal == 11
    assert left_a_core(provoked)
    assert b"sleeping state" not in provoked.log.read_bytes()


def test_the_same_overflow_after_a_sleep_is_still_the_requests(stage):
    provoked = content.provoke(stage, slept_before=True)
    assert provoked.happened
    assert b"exiting sleeping state" in provoked.log.read_bytes()


def test_an_assertion_fails_on_a_request(stage):
    quiet = replace(stage, base=replace(stage.base, environment={"GGML_NO_BACKTRACE": "1"}))
    provoked = content.provoke(quiet, content.ASSERTION)
    assert provoked.happened
    assert provoked.ending.signal == 6
    assert b"GGML_ASSERT" in provoked.log.read_bytes()


def test_an_exception_nobody_catches_ends_the_server(stage):
    provoked = exception.provoke(stage)
    assert provoked.happened
    assert provoked.ending.signal == 6
    assert b"std::system_error" in provoked.log.read_bytes()


def test_a_model_cut_under_its_mapping_is_a_bus_error(stage):
    provoked = bus_error.provoke(stage)
    assert provoked.happened
    assert provoked.ending.signal == 7
    assert stage.base.model.stat().st_size > wake_reload.CUT_BYTES


def test_ends_and_lives_without_a_fault(stage):
    stopped, killed = harmless.stop(stage), harmless.kill(stage)
    assert stopped.happened
    assert stopped.ending.code == 0
    assert killed.happened
    assert killed.core.path is None
    sleeper = harmless.sleeper(stage, cycles=2)
    assert sleeper.happened
    assert sleeper.log.read_bytes().count(b"server is entering sleeping state") == 2
