"""The catalogue that ships: complete, consistent with the registry and with the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyzers.catalogue.loader import Catalogue, load_catalogue
from analyzers.catalogue.model import Defect
from analyzers.catalogue.pages import REGISTRY, commands
from analyzers.contracts.registry import CAUSES, CLASSES, CONFIDENCES, PHASES, STATES

ROOT = Path(__file__).resolve().parents[3]
DEFECT_IDS = [f"D{number}" for number in range(1, 9)]
ALL_IDS = [(kind, id) for kind, ids in REGISTRY.items() for id in ids]
METHODS = {"measured", "source", "reported"}
PLACEHOLDER_LEFT = re.compile(r"…|TODO|XXX|FIXME")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def test_it_is_read_once(catalogue: Catalogue) -> None:
    assert load_catalogue() is catalogue
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", catalogue.dated)
    assert catalogue.version.startswith(catalogue.dated)


def test_the_defects_are_d1_to_d8(catalogue: Catalogue) -> None:
    assert [defect.id for defect in catalogue.defects] == DEFECT_IDS


def test_pages_equal_the_registry(catalogue: Catalogue) -> None:
    # GIVEN the registry's ids THEN there is exactly one page for each, in the same order
    assert [(page.kind, page.id) for page in catalogue.pages] == ALL_IDS


@pytest.mark.parametrize(("kind", "id"), ALL_IDS)
def test_every_id_has_a_page_with_substance(catalogue: Catalogue, kind: str, id: str) -> None:
    page = catalogue.explain(f"{kind}:{id}")
    assert page is not None
    assert page.id == id
    assert page.title == REGISTRY[kind][id]
    meaning = page.sections[0].lines[0]
    assert meaning.endswith((".", ")"))
    assert meaning.casefold() != page.title.casefold()


@pytest.mark.parametrize("id", CLASSES)
def test_every_class_says_what_to_do_and_what_resembles_it(catalogue: Catalogue, id: str) -> None:
    page = catalogue.explain(id)
    assert page is not None
    headings = {section.heading for section in page.sections}
    assert {
        "What it means",
        "What to do now",
        "How it is told",
        "What looks like it",
        "What to collect next time",
    } <= headings


@pytest.mark.parametrize("id", DEFECT_IDS)
def test_every_defect_page_is_whole(catalogue: Catalogue, id: str) -> None:
    page = catalogue.explain(id)
    defect = catalogue.defect(id)
    assert page is not None
    assert defect is not None
    assert page.kind == "defect"
    assert defect.advice
    assert set(defect.classes) <= set(CLASSES)
    assert set(defect.phases) <= set(PHASES)
    assert defect.cause in CAUSES
    # a defect that exposure checks report must say in which builds, where else and what proves it
    assert not defect.exposure or (defect.builds and defect.look_alikes and defect.proven_by)


def test_what_the_field_taught_about_each_defect(catalogue: Catalogue) -> None:
    told = {d.id: (set(d.classes), d.cause, set(d.phases)) for d in catalogue.defects}
    assert told["D1"][1:] == ("wake", {"first-request-after-wake"})
    assert {"unloading", "asleep"} <= told["D2"][2]
    assert told["D2"][1] == "sleep"
    assert told["D3"] == ({"HANG-STRANDED"}, "sleep", {"asleep"})
    assert told["D7"] == ({"ABRT-WAKE-RELOAD"}, "wake", {"waking"})
    assert told["D8"][1:] == ("wake", {"first-request-after-wake"})
    assert [d.id for d in catalogue.defects if not d.exposure] == ["D6"]


def test_fixed_in_is_a_build_the_ranges_call_fixed(catalogue: Catalogue) -> None:
    fixed = {d.id: d.fixed_in for d in catalogue.defects if d.fixed_in is not None}
    assert fixed == {"D1": 11149, "D4": 10519}
    for id, build in fixed.items():
        assert catalogue.affected(id, build).status == "fixed"
        assert catalogue.affected(id, build - 1).status != "fixed"


def test_every_proof_is_described_and_used(catalogue: Catalogue) -> None:
    used = {name for d in catalogue.defects for group in d.proven_by for name in group}
    assert used == set(catalogue.proofs)


def test_d1_needs_five_things_at_once(catalogue: Catalogue) -> None:
    defect = catalogue.defect("d1")
    assert defect is not None
    assert defect.proven_by == (
        ("affected-mark", "affected-signature"),
        ("crash-under-count-tokens",),
        ("loop-awake-flags",),
        ("wake-just-before-fault",),
        ("log-of-this-wake",),
    )


def _all_advice(catalogue: Catalogue) -> list[tuple[str, str, str | None]]:
    rows = [(d.id, step.text, step.command) for d in catalogue.defects for step in d.advice]
    for page in catalogue.pages:
        rows += [(page.id, step.text, step.command) for s in page.sections for step in s.steps]
    return rows


def test_every_advice_is_a_sentence_and_every_command_can_be_typed(catalogue: Catalogue) -> None:
    for id, text, command in _all_advice(catalogue):
        assert text[0].isupper(), (id, text)
        assert text.endswith("."), (id, text)
        if command is not None:
            assert re.match(r"[a-zA-Z-]", command), (id, command)
            assert command.isascii(), (id, command)
            assert not PLACEHOLDER_LEFT.search(command), (id, command)
            assert command.count("'") % 2 == 0, (id, command)
            assert command.count('"') % 2 == 0, (id, command)


def test_commands_that_explain_something_lead_somewhere(catalogue: Catalogue) -> None:
    asked = [
        match.group(1)
        for _, _, command in _all_advice(catalogue)
        if command and (match := re.match(r"llama-blackbox explain (\S+)", command))
    ]
    assert asked
    assert all(catalogue.explain(id) for id in asked)


def test_no_step_destroys_anything(catalogue: Catalogue) -> None:
    words = re.compile(r"\brm\b|\bmkfs|kill -9|killall|pkill|\bdd\b.* of=(?!/dev/null)")
    assert not [row for row in _all_advice(catalogue) if row[2] and words.search(row[2])]


def test_advice_for_a_deployment_leaves_the_others_out(catalogue: Catalogue) -> None:
    defect = catalogue.defect("D2")
    assert defect is not None
    systemd = {step.where for step in defect.advice_for("systemd")}
    assert systemd == {"any", "systemd"}
    assert {step.where for step in defect.advice_for()} == {"any"}
    assert defect.advice_for("docker")[0] == defect.advice[0]


def test_the_first_step_against_d3_releases_and_against_d1_upgrades(catalogue: Catalogue) -> None:
    first = {d.id: d.advice[0] for d in catalogue.defects}
    assert "11149" in first["D1"].text
    assert first["D3"].command is not None
    assert first["D3"].command.endswith("/slots")


def test_every_witness_says_how_and_when(catalogue: Catalogue) -> None:
    for witness in (w for d in catalogue.defects for row in d.builds for w in row.witnesses):
        assert witness.method in METHODS
        assert witness.how
        assert witness.date in ("reported", catalogue.dated)
        assert witness.method != "reported" or witness.date == "reported"


def test_wheels_agree_with_the_ranges_and_the_marks(catalogue: Catalogue) -> None:
    assert len({wheel.build for wheel in catalogue.wheels}) == len(catalogue.wheels) == 13
    for wheel in catalogue.wheels:
        assert f".{wheel.build}" in wheel.version
        assert catalogue.affected("D1", wheel.build).status == wheel.defects["D1"]
        standing = catalogue.affected_wheel("D1", wheel.build_id.upper())
        assert standing is not None
        assert standing.status == wheel.defects["D1"]


def test_a_known_wheel_brings_its_queue_layout(catalogue: Catalogue) -> None:
    # GIVEN an old and a new wheel THEN the flags stand at the same place, mutex and condition do not
    old = catalogue.known_build("5ba62581f62142f934d22a3372b4228d74303d2f")
    new = catalogue.known_build("093f29465c094a0b3e60216f55169f0dde60f676")
    assert old is not None
    assert new is not None
    assert {old.layout.members[m] - new.layout.members[m] for m in ("sleeping", "time_last_task")} == {0}
    assert (old.layout.members["mutex"], old.layout.members["condition"]) == (176, 216)
    assert (new.layout.members["mutex"], new.layout.members["condition"]) == (256, 296)


def test_an_unknown_build_id_is_nobody(catalogue: Catalogue) -> None:
    assert catalogue.known_build(None) is None
    assert catalogue.known_build("00" * 20) is None
    assert catalogue.affected_wheel("D1", "00" * 20) is None


def test_a_wheel_without_an_entry_of_its_own_falls_back_on_the_ranges(catalogue: Catalogue) -> None:
    standing = catalogue.affected_wheel("D2", catalogue.wheels[-1].build_id)
    assert standing is not None
    assert standing.status == "affected"


def test_marks_tell_affected_from_fixed(catalogue: Catalogue) -> None:
    stem = "_ZN13server_routes19handle_count_tokens"
    fixed = catalogue.mark(f"{stem}ERK15server_http_req18task_response_type")
    stale = catalogue.mark(
        f"{stem}EPK11llama_vocabP12mtmd_contextRK20mtmd_helper_init_optRK15server_http_req18task_response_type"
    )
    assert fixed is not None
    assert stale is not None
    assert (fixed[0].id, fixed[1].affected) == ("D1", False)
    assert (stale[0].id, stale[1].affected) == ("D1", True)
    assert catalogue.mark("_ZN12server_queue10start_loopEl") is None


@pytest.mark.parametrize("name", ["verdicts.md", "catalogue.md"])
def test_the_documents_name_every_defect(catalogue: Catalogue, name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert [id for id in DEFECT_IDS if f"`{id}`" not in text] == []


def test_the_verdict_document_names_every_id(catalogue: Catalogue) -> None:
    text = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    for ids in (CLASSES, CAUSES, PHASES, CONFIDENCES, STATES):
        for id, line in ids.items():
            assert f"| `{id}` | {line}" in text


def test_the_catalogue_document_shows_every_wheel_and_layout(catalogue: Catalogue) -> None:
    text = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
    for wheel in catalogue.wheels:
        d1 = wheel.defects["D1"]
        row = f"| {wheel.version} | b{wheel.build} | `{wheel.build_id}` | {d1} | {wheel.layout.id} |"
        assert row in text
    for layout in catalogue.layouts:
        values = " | ".join(str(value) for value in layout.members.values())
        assert f"| {layout.id} | {layout.size} | {values} |" in text


def test_a_defect_is_found_by_name_and_in_any_case(catalogue: Catalogue) -> None:
    found: list[Defect | None] = [catalogue.defect(text) for text in ("d3", " D3 ", "Stranded-Task")]
    assert {defect.id if defect else None for defect in found} == {"D3"}


def test_pages_with_commands_exist(catalogue: Catalogue) -> None:
    page = catalogue.explain("HANG-STRANDED")
    assert page is not None
    assert any("/slots" in (step.command or "") for step in commands(page))
