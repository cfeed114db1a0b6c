"""D3 on real servers: found from outside while it hangs, or read from the log after the client gave up."""

from __future__ import annotations

import pytest
from e2e_ask import UNDETERMINED, VERDICT, Said, ask
from e2e_stage import Plays

pytestmark = pytest.mark.real


def test_d3_found_looked_at_and_released(plays: Plays) -> None:
    # GIVEN a request stranded in a sleeping server, found from outside and released
    play = plays("d3")
    # WHEN
    answer = ask(*play.inputs)
    # THEN the threads prove it and name whose request it was; the release is told
    want = Said("HANG-STRANDED", "D3", "sleep", "asleep", "proven", "handle_completions_impl")
    assert answer.said == want
    assert answer.status == VERDICT
    assert "a waking call released it" in answer.reasons
    assert answer.report.signature.bug_key == "HANG-STRANDED|D3|handle_completions_impl"
    events = [item.event for item in answer.report.timeline]
    assert "unanswered" in events
    assert events.index("unanswered") < events.index("release-stranded")


def test_d3_by_the_log_alone_when_the_client_gives_up(plays: Plays) -> None:
    # GIVEN a client that gave up: its tasks are cancelled while the server sleeps
    play = plays("d3-gave-up")
    # WHEN / THEN
    for answer in (ask(play.log), ask(play.bundle)):
        assert answer.said == Said("HANG-STRANDED", "D3", "sleep", "asleep", "strong")
        assert answer.status == VERDICT
        assert "connections" in answer.gaps


def test_d3_twin_clients_of_a_sleeping_server_that_want_nothing(plays: Plays) -> None:
    # GIVEN a sleeping server with a silent and an answered client
    answer = ask(*plays("d3-idle").inputs)
    # THEN nobody waits
    assert answer.said == Said("NO-FAULT", None, "unknown", "asleep", "strong")
    assert answer.status == VERDICT


def test_d3_twin_a_client_gives_up_on_an_awake_server(plays: Plays) -> None:
    play = plays("gave-up-awake")
    alone = ask(play.log)
    assert alone.said == Said("UNDETERMINED", None, "unknown", "awake", "undetermined")
    assert alone.status == UNDETERMINED
    assert ask(play.bundle).said == Said("NO-FAULT", None, "unknown", "awake", "strong")
