"""Only what a shell can run stands behind a ``$``."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from analyzers.catalogue.loader import catalogue
from analyzers.contracts.report import Advice, Gap, Report
from analyzers.render import render_html
from analyzers.render.steps import COMMAND, OPTION, SETTING, WORDS, kind_of


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("journalctl -u UNIT -o export > server.export", COMMAND),
        ("MALLOC_PERTURB_=165 GLIBC_TUNABLES=a.b=0 llama-server -m MODEL.gguf", COMMAND),
        ("sudo systemctl edit UNIT # add: [Service] Restart=on-failure, each on its own line", COMMAND),
        ('curl -s http://127.0.0.1:8080/completion -d \'{"prompt":"hi", "n_predict":1}\'', COMMAND),
        ("unheardof --of this", COMMAND),
        ("./run.sh", COMMAND),
        ("--sleep-idle-seconds -1", OPTION),
        ("-lv 4", OPTION),
        ("GGML_NO_BACKTRACE=1", SETTING),
        ("give one core at a time, each with its own log", WORDS),
        ("give the matching file with --exe", WORDS),
        ("systemctl cat UNIT, or the script that starts it", WORDS),
        ("systemd-coredump: raise ProcessSizeMax= in coredump.conf", WORDS),
        ("# a remark", WORDS),
        ("", WORDS),
    ],
)
def test_what_a_line_is(line: str, kind: str) -> None:
    assert kind_of(line) == kind


def told(sample: Callable[[str], Report], *lines: str) -> Report:
    report = sample("d1")
    verdict = report.verdict.model_copy(
        update={"advice": [Advice(text="do", command=line) for line in lines]}
    )
    return report.model_copy(update={"verdict": verdict, "gaps": [Gap(what="w", why="y", command=lines[0])]})


def test_words_options_and_settings_have_no_dollar(
    sample: Callable[[str], Report], terminal: Callable[..., str]
) -> None:
    report = told(sample, "give the trace as a file of its own", "-lv 4", "GGML_NO_BACKTRACE=1", "nvidia-smi")
    lines = [line.strip() for line in terminal(report).splitlines()]
    assert "give the trace as a file of its own" in lines
    assert "server option: -lv 4" in lines
    assert "environment: GGML_NO_BACKTRACE=1" in lines
    assert "$ nvidia-smi" in lines
    page = html.unescape(render_html(report))
    assert '<p class="hint">give the trace as a file of its own</p>' in page
    assert '<small>server option: </small><code class="cmd">-lv 4</code>' in page


def test_every_step_of_the_catalogue_is_no_mere_words() -> None:
    """What the catalogue gives as a command runs, or is an option or a setting."""
    pages = [catalogue().explain(id_) for rows in catalogue().ids().values() for id_, _ in rows]
    steps = [step for page in pages if page for section in page.sections for step in section.steps]
    assert len([step for step in steps if step.command]) > 100
    assert [step.command for step in steps if step.command and kind_of(step.command) == WORDS] == []
