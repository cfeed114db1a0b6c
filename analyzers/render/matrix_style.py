"""Sizes and colours of the route-matrix picture. Sizes are px."""

from __future__ import annotations

SIZE = 12  # a square
GAP = 1  # between the states of one build
COLUMN_GAP = 10  # between builds
ROW = 17
SECTION = 28
MARGIN = 12
HEAD = 44  # two lines for a build, one for the states' letters
LEFT = 292  # room for the longest route
LABEL_CHARACTERS = 41
NARROWEST = 720  # px; the legend and the notes need it
NOTE_LINE = 18

# Page variables win where a page defines them; a file of its own follows the reader's ground.
STYLE = """
.rm{font:12px/1.2 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
max-width:100%;height:auto;
--g:#fff;--i:#1d2329;--q:#59636e;--quiet:#d8efe0;--quiet-l:#7fb894;--ans:#eceff2;--ans-l:#b6bec7;--res:#fbe3b0;
--res-l:#b98a1e;--wak:#c9d2f7;--wak-l:#5a6cc4;--bad:#c1121f;--bad-i:#fff;--brk:#a21caf}
@media (prefers-color-scheme:dark){.rm{--g:#14181d;--i:#e6eaee;--q:#9aa5b1;--quiet:#1f4a31;--quiet-l:#3f8a60;
--ans:#2a3037;--ans-l:#4a535d;--res:#5d4510;--res-l:#c9982d;--wak:#2b3775;--wak-l:#7f8fe6;--bad:#e5484d;
--bad-i:#fff;--brk:#e879f9}}
.rm-ground{fill:var(--g)}
.rm text{fill:var(--i)}
.rm .rm-quiet,.rm .rm-note{fill:var(--q);font-size:11px}
.rm .rm-build{font-weight:600}
.rm .rm-section{font-weight:600}
.rm .rm-route{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:11px}
.rm-cell text{font-size:9px;font-weight:700;text-anchor:middle}
.rm-cell rect{stroke-width:1}
.rm-cell.rm-quiet rect{fill:var(--quiet);stroke:var(--quiet-l)}
.rm-cell.rm-answered rect{fill:var(--ans);stroke:var(--ans-l)}
.rm-cell.rm-resets rect{fill:var(--res);stroke:var(--res-l)}
.rm-cell.rm-wakes rect{fill:var(--wak);stroke:var(--wak-l)}
.rm-cell.rm-bad rect{fill:var(--bad);stroke:var(--bad)}
.rm .rm-cell.rm-bad text{fill:var(--bad-i)}
.rm-cell.rm-missed rect{fill:none;stroke:var(--ans-l);stroke-dasharray:2 2}
.rm-cell.rm-absent rect{fill:none;stroke:none}
.rm .rm-cell.rm-absent text,.rm .rm-cell.rm-missed text{fill:var(--q)}
.rm .rm-cell rect.rm-broken{fill:none;stroke:var(--brk);stroke-width:2}
"""
