"""Shapes of the timeline picture. Each kind has its own shape and word: nothing is told by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

from analyzers.render.axis import Label, Scale
from analyzers.render.moments import KIND_WORDS, Span
from analyzers.render.safe import markup

CHARACTER = 6.7  # px; widest average of a 12 px sans-serif, so that labels never touch
STYLE = """
.tl{font:12px/1.2 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
max-width:100%;height:auto}
.tl text{fill:var(--ink,#1d2329)}
.tl .tl-num{fill:var(--quiet,#59636e);font-size:11px}
.tl .tl-axis,.tl .tl-tick{stroke:var(--line-strong,#8b949e);fill:none}
.tl .tl-lead{stroke:var(--line-strong,#8b949e);fill:none;stroke-dasharray:2 2}
.tl .tl-band{fill:var(--awake,#d8efe0);stroke:var(--line-strong,#8b949e)}
.tl .tl-unknown{fill:var(--lens,#e9edf2);stroke:var(--line-strong,#8b949e);stroke-dasharray:4 3}
.tl .tl-asleep{stroke:var(--asleep-ink,#3b4a8c)}
.tl .tl-loading{stroke:var(--load-ink,#8a5a00)}
.tl .tl-hatch{fill:var(--asleep,#c9d2f7)}
.tl .tl-hatch-line{stroke:var(--asleep-ink,#3b4a8c);stroke-width:1.2;opacity:.35}
.tl .tl-dots{fill:var(--load,#fbe3b0)}
.tl .tl-dot{fill:var(--load-ink,#8a5a00);opacity:.5}
.tl .tl-plate{fill:var(--card,#fff);opacity:.88}
.tl .tl-lens{fill:var(--lens,#e9edf2);stroke:var(--line,#d0d7de)}
.tl .tl-mark{fill:var(--ink,#1d2329);stroke:var(--card,#fff);stroke-width:1}
.tl .tl-open{fill:var(--card,#fff);stroke:var(--ink,#1d2329);stroke-width:1.5}
.tl .tl-fault{stroke:var(--fault,#c1121f);stroke-width:2.5;fill:none}
.tl .tl-fault-text{fill:var(--fault,#c1121f);font-weight:700}
"""


def text_width(text: str) -> float:
    """px that ``text`` takes at most; East Asian wide characters count twice."""
    return CHARACTER * sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def definitions(suffix: str) -> str:
    """Hatching for sleep and dots for loading, so that both show in grey print."""
    return (
        f'<defs><pattern id="tl-asleep-{suffix}" width="8" height="8" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="tl-hatch" width="8" height="8"/>'
        '<path class="tl-hatch-line" d="M0 0V8"/></pattern>'
        f'<pattern id="tl-loading-{suffix}" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<rect class="tl-dots" width="6" height="6"/><circle class="tl-dot" cx="3" cy="3" r="1"/>'
        "</pattern></defs>"
    )


def base_band(begin: float, end: float, y: float, height: float, *, known: bool) -> str:
    """The life of the process; ``known`` says that what is not asleep or loading in it was awake."""
    style = "tl-band" if known else "tl-unknown"
    width = max(end - begin, 0.0)
    return f'<rect class="{style}" x="{begin:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def span(begin: float, end: float, y: float, height: float, item: Span, text: str, suffix: str) -> str:
    kind = "asleep" if item.kind == "asleep" else "loading"
    width = max(end - begin, 1.0)
    rect = (
        f'<rect class="tl-{kind}" fill="url(#tl-{kind}-{suffix})" x="{begin:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}"><title>{markup(item.text)}</title></rect>'
    )
    if not text:
        return rect
    middle, half = (begin + end) / 2, text_width(text) / 2 + 3
    plate = f'<rect class="tl-plate" x="{middle - half:.1f}" y="{y + 5:.1f}" width="{2 * half:.1f}" '
    words = f'<text x="{middle:.1f}" y="{y + 17:.1f}" text-anchor="middle">{markup(text)}</text>'
    return f'{rect}{plate}height="16" rx="3"/>{words}'


def leader(x: float, top: float, bottom: float, kind: str) -> str:
    style = "tl-fault" if kind == "fault" else "tl-lead"
    return f'<path class="{style}" d="M{x:.1f} {top - 14:.1f}V{bottom:.1f}"/>'


def label(place: Label, text: str, y: float, kind: str) -> str:
    anchor, shift = ("start", 5) if place.after else ("end", -5)
    style = ' class="tl-fault-text"' if kind == "fault" else ""
    return (
        f'<text{style} x="{place.x + shift:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}">{markup(text)}</text>'
    )


def mark(x: float, y: float, height: float, kind: str, title: str) -> str:
    """The mark of one moment, on the band's lower edge; the fault crosses it."""
    if kind == "fault":
        drawn = f'<path class="tl-fault" d="M{x:.1f} {y:.1f}v{height:.1f}"/>{shape(x, y + height / 2, kind)}'
    else:
        drawn = shape(x, y + height, kind)
    return f"<g>{drawn}<title>{markup(title)}</title></g>"


def shape(x: float, y: float, kind: str) -> str:
    """The small shape that stands for a kind, centred on (x, y)."""
    here = f"M{x:.1f} {y:.1f}"
    shapes = {
        "fault": f'<path class="tl-fault" d="{here}m-5 -5l10 10m0 -10l-10 10"/>',
        "sleep": f'<path class="tl-mark" d="{here}m-5 -4h10l-5 9z"/>',
        "wake": f'<path class="tl-mark" d="{here}m-5 4h10l-5 -9z"/>',
        "load": f'<path class="tl-mark" d="{here}m-4 -4h8v8h-8z"/>',
        "request": f'<circle class="tl-mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>',
        "probe": f'<path class="tl-open" d="{here}m0 -5l5 5l-5 5l-5 -5z"/>',
        "stop": f'<path class="tl-open" d="{here}m-4 -4h8v8h-8z"/>',
    }
    return shapes.get(kind, f'<circle class="tl-open" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')


def tick(x: float, y: float, middle: float, text: str) -> str:
    line = f'<path class="tl-tick" d="M{x:.1f} {y:.1f}v5"/>'
    place = f'x="{middle:.1f}" y="{y + 18:.1f}"'
    return f'{line}<text class="tl-num" {place} text-anchor="middle">{markup(text)}</text>'


def lens(scale: Scale, window: tuple[float, float], y: float, gap: float) -> str:
    """The wedge from a stretch of the upper axis to the whole lower one, saying how much it holds."""
    begin, end = scale.x(window[0]), scale.x(window[1])
    top = f"M{begin:.1f} {y:.1f}H{max(end, begin + 1):.1f}"
    wedge = f"{top}L{scale.right:.1f} {y + gap - 6:.1f}H{scale.left:.1f}Z"
    late = begin + end > scale.left + scale.right
    x, anchor = (scale.right - 24, "end") if late else (scale.left + 24, "start")
    words = f'<text class="tl-num" x="{x:.1f}" y="{y + gap - 12:.1f}" text-anchor="{anchor}">enlarged</text>'
    return f'<path class="tl-lens" d="{wedge}"/>{words}'


def legend(kinds: Sequence[str], width: float, top: float) -> tuple[str, float]:
    """The shapes that occur, with their words; returns the SVG text and its height in px."""
    parts: list[str] = []
    x, y = 20.0, top + 16
    for kind in kinds:
        word = KIND_WORDS.get(kind, kind)
        room = text_width(word) + 30
        if x + room > width:
            x, y = 20.0, y + 20
        parts.append(_legend_shape(x, y, kind))
        parts.append(f'<text class="tl-num" x="{x + 12:.1f}" y="{y:.1f}">{markup(word)}</text>')
        x += room
    return "".join(parts), y - top + 10


def _legend_shape(x: float, y: float, kind: str) -> str:
    style = {"asleep": "tl-hatch tl-asleep", "loading": "tl-dots tl-loading", "awake": "tl-band"}.get(kind)
    if style:
        return f'<rect class="{style}" x="{x - 8:.1f}" y="{y - 9:.1f}" width="16" height="10"/>'
    return shape(x, y - 4, kind)
