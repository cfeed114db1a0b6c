"""Reports and facts: every string but the ids."""

from __future__ import annotations

import json

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.report import Report
from analyzers.privacy.redact import MARKER, Redactor

KEY = "Zq8-planted_W4x"
TOKENIZE = "llama_vocab::impl::tokenize"
HEAD = f"Authorization: Bearer {KEY}"


def _report() -> Report:
    fact = {
        "id": "e1",
        "kind": "settings",
        "source": f"/home/jane/log {HEAD}",
        "text": HEAD,
        "trust": "server-printed",
        "data": {
            "args": ["--api-key", KEY],
            "env": {"HF_TOKEN": KEY, "LANG": "C"},
            "prompt": "my zebra",
            "deep": [{"api_key": KEY}, [HEAD]],
            "port": 8080,
        },
        "later": {"note": HEAD},
    }
    return Report.model_validate(
        {
            "tool": {"version": "1", "catalogue": "1"},
            "inputs": [{"name": "/home/jane/core", "kind": "core", "sha256": "ab" * 32}],
            "verdict": {
                "class": "SEGV-UAF-SLEEP",
                "cause": "wake",
                "defect": "D1",
                "phase": "first-request-after-wake",
                "confidence": "proven",
                "summary": HEAD,
                "handler": "server_routes::handle_count_tokens",
                "evidence": [fact],
                "reasons": [HEAD],
                "from_newer_version": [HEAD],
            },
            "signature": {
                "bug_key": "SEGV|wake|handle_count_tokens",
                "site_key": "3f6d+c22c81",
                "explain": [HEAD],
            },
            "process": {
                "args": ["x", "--api-key", KEY],
                "exe": "/home/jane/bin/llama-server",
                "boot_id": "b-1",
            },
            "threads": [{"name": HEAD, "frames": [{"function": TOKENIZE, "file": HEAD}]}],
            "timeline": [{"at": 1.5, "clock": "wall", "event": "enter-sleep", "text": HEAD}],
            "gaps": [{"what": HEAD, "why": HEAD, "command": f"curl -H '{HEAD}'"}],
            "extra_of_a_newer_version": {"deep": [{"text": HEAD}]},
        }
    )


def test_nothing_planted_survives_in_a_report_and_ids_do() -> None:
    # GIVEN a report with a key in every string a person may read
    report = _report()
    # WHEN it is redacted
    cleaned = Redactor().report(report)
    text = cleaned.to_json()
    # THEN neither key nor account name nor prompt is left, and ids, hashes and frames are
    assert all(word not in text for word in (KEY, "jane", "zebra"))
    data = json.loads(text)
    assert data["schema"] == "llama-blackbox/report/1"
    assert [data["verdict"][k] for k in ("class", "cause", "defect", "phase", "confidence")] == [
        "SEGV-UAF-SLEEP",
        "wake",
        "D1",
        "first-request-after-wake",
        "proven",
    ]
    assert data["verdict"]["handler"] == "server_routes::handle_count_tokens"
    assert data["inputs"][0]["sha256"] == "ab" * 32
    assert data["signature"]["bug_key"] == "SEGV|wake|handle_count_tokens"
    assert data["threads"][0]["frames"][0]["function"] == TOKENIZE
    assert data["verdict"]["evidence"][0]["data"]["port"] == 8080
    assert data["verdict"]["evidence"][0]["data"]["env"] == {"HF_TOKEN": MARKER, "LANG": "C"}


def test_redacting_a_report_twice_changes_nothing_and_the_first_one_is_untouched() -> None:
    report = _report()
    before = report.to_json()
    once = Redactor().report(report)
    assert Redactor().report(once) == once
    assert report.to_json() == before


def test_a_key_equal_to_an_id_does_not_destroy_the_report() -> None:
    redactor = Redactor().knowing(values=["SEGV-UAF-SLEEP", "first-request-after-wake", "enter-sleep"])
    cleaned = redactor.report(_report())
    assert cleaned.verdict.class_ == "SEGV-UAF-SLEEP"
    assert cleaned.verdict.phase == "first-request-after-wake"
    assert cleaned.timeline[0].event == "enter-sleep"


def test_the_types_of_a_fact_survive() -> None:
    fact = Evidence(id="e", kind="log", source="x", text=HEAD, trust=Trust.KERNEL, data={"how": ("flags",)})
    cleaned = Redactor().evidence(fact)
    assert cleaned.trust is Trust.KERNEL
    assert cleaned.data["how"] == ("flags",)
    assert Evidence.model_validate_json(cleaned.model_dump_json()).text == f"Authorization: {MARKER}"


def test_data_nested_without_end_is_cut_not_followed() -> None:
    nested: object = HEAD
    for _ in range(200):
        nested = [nested]
    fact = Evidence(id="e", kind="x", source="x", text="x", trust=Trust.CLIENT, data={"n": nested})
    assert KEY not in str(Redactor().evidence(fact).data)
