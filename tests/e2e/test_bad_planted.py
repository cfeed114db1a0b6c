"""A real server with planted keys, headers and prompts crashes: core, log and bundle give none of them away.

The same core is then cut, as a full disk or a size limit would.
"""

from __future__ import annotations

import http.client
import json
import random
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bad_run import PATIENCE, UNDECIDED, UNUSABLE, VERDICT, Outcome, judged, quick, refused, triage, untouched

from collector.lab.demo.record import record
from collector.lab.faults import Provoked, Stage
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults.kernel import KernelLines
from collector.lab.faults.prompts import SENTENCE, SENTENCES
from collector.lab.reference import ReferenceServer, Request, RunningServer, ServerSpec, cached_model
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.ports import LOOPBACK

pytestmark = pytest.mark.real
KEY, ENV, HEADER, PROMPT, REPLY = (f"{kind}{secrets.token_hex(7)}" for kind in "kehpr")
MARKS = (KEY, ENV, HEADER, PROMPT, REPLY)
VERBOSE = 10  # above every level the server prints at
SHAPE = d2.Shape(
    "D2-planted",
    Request(
        "POST", "/completion", {"prompt": f"{PROMPT} " + SENTENCE * SENTENCES, "n_predict": 1}, timeout=30.0
    ),
    "handle_completions_impl",
    0.1,
)
TALK = {"messages": [{"role": "user", "content": f"say {PROMPT}"}], "max_tokens": 2}
REQUESTS: tuple[tuple[str, object], ...] = (
    ("/v1/chat/completions", TALK),
    ("/completion", {"prompt": f"{PROMPT} hello", "n_predict": 2}),
    ("/tokenize", {"content": PROMPT, "with_pieces": True}),
    ("/apply-template", TALK),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"text": PROMPT}]}]}),
    ("/v1/chat/completions", {"messages": PROMPT}),
    ("/completion", {"prompt": PROMPT, "json_schema": {"const": {"a": REPLY}, "type": REPLY}}),
    ("/completion", {"prompt": PROMPT, "grammar": f'root ::= "{REPLY}"', "n_predict": 8}),
    ("/completion", {"prompt": PROMPT, "grammar": f"root ::= {REPLY}"}),
)


def plant(server: RunningServer) -> None:
    """Requests of every kind that a verbose log prints something of; some of them are refused."""
    for route, body in REQUESTS:
        for key in (KEY, HEADER):
            headers = {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {key}",
                "X-Planted": HEADER,
                "Cookie": f"session={HEADER}",
            }
            _post(server.port, route, json.dumps(body), headers)
    _post(server.port, "/completion", '{"prompt": ' + PROMPT, {"Authorization": f"Bearer {KEY}"})


def _post(port: int, route: str, body: str, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PATIENCE)
    try:
        connection.request("POST", route, body, headers)
        connection.getresponse().read()
    finally:
        connection.close()


class Planting(Stage):
    """A stage whose servers have been talked to before the fault is provoked."""

    def start(self, **changes: Any) -> RunningServer:
        server = super().start(**changes)
        plant(server)
        return server


@dataclass(frozen=True)
class Remains:
    """What the dead server left: its log, its core where there is one, and the bundle made of them."""

    log: Path
    core: Path | None
    bundle: Path
    provoked: Provoked

    @property
    def all(self) -> list[Path]:
        return [path for path in (self.bundle, self.core) if path is not None]


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remains]:
    folder = tmp_path_factory.mktemp("planted")
    spec = ServerSpec(
        cached_model(),
        python=prepare(UNLOAD_VERSION),
        api_key=KEY,
        verbosity=VERBOSE,
        environment={"LLAMA_API_KEY": ENV, "HF_TOKEN": ENV, "LLAMA_ARG_API_KEY": ENV},
    )
    with ReferenceServer(folder / "lab") as lab:
        provoked = d2.provoke(Planting(lab, spec), SHAPE)
        assert provoked.happened, provoked.notes
        bundle = record(provoked, folder)[0]
        yield Remains(provoked.log, provoked.core.path, bundle, provoked)
    shutil.rmtree(folder, ignore_errors=True)


def clean(outcome: Outcome) -> None:
    assert outcome.status in (VERDICT, UNDECIDED), outcome
    for planted in MARKS:
        assert planted not in outcome.out
        assert planted not in outcome.err


def test_they_are_where_they_could_leak_from(remains: Remains) -> None:
    log = remains.log.read_text(errors="replace")
    assert PROMPT in log
    if remains.core is not None:
        core = remains.core.read_bytes()
        for planted in (KEY, ENV, PROMPT):  # the others were freed, and what is freed is poisoned here
            assert planted.encode() in core


@pytest.mark.parametrize("form", ["--json", "--markdown", "--html=-", "--fast"])
def test_no_output_holds_any(remains: Remains, form: str) -> None:
    inputs = [[remains.bundle], [remains.log], remains.all, [*remains.all, remains.log]]
    for paths in inputs:
        with untouched(remains.bundle, remains.log):
            clean(triage("--fast", form, *paths))


def test_nor_does_what_follows_the_verdict(remains: Remains, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    clean(triage(*remains.all, "--html", page))
    for planted in MARKS:
        assert planted not in page.read_text()


def test_the_bundle_holds_none(remains: Remains) -> None:
    files = [path for path in remains.bundle.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        for planted in MARKS:
            assert planted not in path.read_text(errors="replace"), path.name


def test_redaction_costs_no_verdict(remains: Remains) -> None:
    verdict = judged(quick(*remains.all))["verdict"]
    assert (verdict["class"], verdict["defect"], verdict["cause"]) == ("SEGV-UAF-SLEEP", "D2", "sleep")


def needs_core(remains: Remains) -> Path:
    if remains.core is None:
        pytest.skip(remains.provoked.core.reason)
    return remains.core


def test_with_include_private_the_arguments_are_shown(remains: Remains) -> None:
    report = judged(quick("--include-private", needs_core(remains)))
    assert report["redaction"] == "none"
    shown = " ".join(report["process"]["args"])  # the kernel keeps the first 80 characters
    assert shown.startswith(str(remains.provoked.server.spec.python)[:60])


def test_without_rights_to_the_kernels_lines_the_gap_is_named(remains: Remains, tmp_path: Path) -> None:
    note = "/dev/kmsg cannot be read (operation not permitted)"
    (bundle, *_) = record(replace(remains.provoked, kernel=KernelLines(note=note)), tmp_path)
    judged(quick(bundle), f"the kernel's line: {note}")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_servers_core_cut_by_a_full_disk_still_tells_what_it_can(
    remains: Remains, tmp_path: Path, share: float
) -> None:
    check_cut(needs_core(remains), tmp_path / "core", share)


@pytest.mark.full
def test_a_servers_core_cut_at_sixty_places(remains: Remains, tmp_path: Path) -> None:
    dice = random.Random(8)
    for _ in range(60):
        check_cut(needs_core(remains), tmp_path / "core", dice.random() ** 3)


def check_cut(core: Path, target: Path, share: float) -> None:
    """``share`` of the core, alone and with nothing else to go by."""
    size = int(core.stat().st_size * share)
    with core.open("rb") as source, target.open("wb") as out:
        while size > 0 and (block := source.read(min(size, 1 << 20))):
            size -= out.write(block)
    outcome = quick(target)
    if outcome.status == UNUSABLE:
        refused(outcome, str(target))
        return
    verdict = judged(outcome, "the core is cut")["verdict"]
    assert verdict["class"] in ("SEGV", "SEGV-UAF-SLEEP", "UNDETERMINED")
    assert verdict["confidence"] != "proven" or verdict["defect"] == "D2"
    clean(outcome)
