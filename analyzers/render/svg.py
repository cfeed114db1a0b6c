"""The timeline as a picture: sleep as bands, moments as marks, the fault as a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analyzers.contracts.report import Report
from analyzers.render import svg_marks
from analyzers.render.axis import Scale, Shelves, place_all, ticks
from analyzers.render.moments import KIND_WORDS, Moment, Span, Story, clock_text, duration, tell, wall_text
from analyzers.render.safe import clean, markup

WIDTH, NARROW = 860, 360  # px; a page column and a phone
MARGIN = 14
LEVEL = 18  # px a level of labels takes
BAND = 26
AXIS = 30  # px for ticks and their numbers
GAP = 44  # px between the whole story and its last moments, for the lens between them
PRIORITY = ("fault", "sleep", "wake", "request", "load", "stop", "probe", "other")
SAME_TEXT = 2  # labels with the same words; a server that slept a hundred times repeats itself
LENS_SHARE = 0.08  # of the story: what happens in this last part cannot be told apart without a lens
LENS_PAD = 0.12  # of the lens's own length, on both sides


@dataclass(frozen=True)
class Format:
    """Sizes that follow from the picture's width."""

    width: int
    suffix: str

    @property
    def narrow(self) -> bool:
        return self.width < 600

    @property
    def characters(self) -> int:
        return 24 if self.narrow else 40

    @property
    def labels(self) -> int:
        return 8 if self.narrow else 12

    @property
    def wanted_ticks(self) -> int:
        return 4 if self.narrow else 8


def timeline_svg(report: Report, width: int = WIDTH, *, styled: bool = True) -> str:
    """An SVG element of ``width`` px, or an empty string when nothing can be drawn.

    ``styled`` puts the style sheet inside, for a file of its own; a page that has ``svg_marks.STYLE``
    in its own sheet leaves it out.
    """
    story = tell(report)
    if not story.moments:
        return ""
    form = Format(width, str(width))
    lens = lens_window(story)
    hidden = {id(m) for m in story.moments if lens and lens[0] <= m.at <= lens[1] and m is not story.fault}
    whole = _window(story)
    shown = [moment for moment in story.moments if id(moment) not in hidden]
    top, height = _panel(story, whole, shown, 0.0, form)
    parts = [top]
    if lens:
        parts.append(svg_marks.lens(Scale(*whole, MARGIN, form.width - MARGIN), lens, height, GAP))
        inside = [moment for moment in story.moments if lens[0] <= moment.at <= lens[1]]
        lower, below = _panel(story, lens, inside, height + GAP, form)
        parts.append(lower)
        height += GAP + below
    legend, extra = svg_marks.legend(_kinds(story), form.width, height)
    style = [f"<style>{svg_marks.STYLE}</style>"] if styled else []
    return _document(story, form, height + extra, [*style, *parts, legend])


def _document(story: Story, form: Format, height: float, parts: Sequence[str]) -> str:
    title, desc = f"tl-title-{form.suffix}", f"tl-desc-{form.suffix}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tl" viewBox="0 0 {form.width} {height:.0f}" '
        f'width="{form.width}" height="{height:.0f}" role="img" aria-labelledby="{title} {desc}">'
        f'<title id="{title}">Timeline of the process</title>'
        f'<desc id="{desc}">{markup(describe(story))}</desc>'
        f"{svg_marks.definitions(form.suffix)}{''.join(parts)}</svg>"
    )


def describe(story: Story) -> str:
    """The picture in words, for those who cannot see it."""
    sleeps = [span for span in story.spans if span.kind == "asleep"]
    words = [f"{len(story.moments)} moments over {duration(story.end - story.start)}"]
    words.append(f"{len(sleeps)} sleep{'s' if len(sleeps) != 1 else ''}")
    if sleeps:
        words.append(f"the last one {sleeps[-1].text}")
    if story.fault:
        words.append(f"{_when(story.fault, story.clock)}: {clean(story.fault.item.text)}")
    return "; ".join(words) + "."


def _when(fault: Moment, clock: str) -> str:
    if not fault.item.dated:
        return "the fault, at an unknown time"
    return f"the fault at {clock_text(fault.at, clock)}"


def lens_window(story: Story) -> tuple[float, float] | None:
    """(start, end) of the last moments before the fault, when the whole axis would squeeze them together."""
    fault = story.fault
    length = story.end - story.start
    if fault is None or length <= 0:
        return None
    near = [m.at for m in story.moments if 0 <= fault.at - m.at <= LENS_SHARE * length and m is not fault]
    if not near or fault.at == min(near):
        return None
    pad = LENS_PAD * (fault.at - min(near))
    return min(near) - pad, fault.at + pad


def _window(story: Story) -> tuple[float, float]:
    """A story of one moment still needs an axis: a second around it."""
    return (story.start, story.end) if story.end > story.start else (story.start - 0.5, story.end + 0.5)


def _kinds(story: Story) -> list[str]:
    seen = {moment.kind for moment in story.moments}
    spans = {span.kind for span in story.spans}
    states = [kind for kind in ("asleep", "loading") if kind in spans]
    return (["awake"] if story.states_known else []) + states + [k for k in KIND_WORDS if k in seen]


def _panel(
    story: Story, window: tuple[float, float], moments: Sequence[Moment], top: float, form: Format
) -> tuple[str, float]:
    """One axis with its band, marks and labels; returns the SVG text and its height in px."""
    scale = Scale(*window, MARGIN, form.width - MARGIN)
    chosen = _most_telling(moments, form.labels)
    texts = [_label_text(moment, story, form) for moment in chosen]
    shelves = Shelves(2, form.width - 2, levels=form.labels)
    points = [(scale.x(m.at), svg_marks.text_width(text) + 8) for m, text in zip(chosen, texts, strict=True)]
    labels = place_all(points, shelves)
    base = top + (max((label.level for label in labels), default=0) + 1) * LEVEL + 6
    parts = [_base(story, scale, base)]
    parts += [_span(span, scale, base, form) for span in story.spans if _inside(span, window)]
    parts += [
        svg_marks.leader(label.x, base - label.level * LEVEL, base, chosen[label.index].kind)
        for label in labels
    ]
    parts += [svg_marks.mark(scale.x(m.at), base, BAND, m.kind, _title(m, story)) for m in moments]
    parts += [
        svg_marks.label(label, texts[label.index], base - label.level * LEVEL, chosen[label.index].kind)
        for label in labels
    ]
    parts.append(_axis(story, scale, base + BAND, form))
    return "".join(parts), base + BAND + AXIS - top


def _base(story: Story, scale: Scale, base: float) -> str:
    death = story.death
    end = scale.right if death is None else scale.x(death.at)
    return svg_marks.base_band(scale.left, end, base, BAND, known=story.states_known)


def _inside(span: Span, window: tuple[float, float]) -> bool:
    return span.end > window[0] and span.start < window[1]


def _most_telling(moments: Sequence[Moment], limit: int) -> list[Moment]:
    """At most ``limit`` moments worth a label: by kind, and the latest of a kind first."""
    ranked = sorted(moments, key=lambda m: (PRIORITY.index(m.kind), -m.at))
    seen: Counter[str] = Counter()
    chosen: list[Moment] = []
    for moment in ranked:
        seen[moment.item.text] += 1
        if seen[moment.item.text] <= SAME_TEXT and len(chosen) < limit:
            chosen.append(moment)
    return sorted(chosen, key=lambda m: m.at)


def _label_text(moment: Moment, story: Story, form: Format) -> str:
    text = clean(moment.item.text) or clean(moment.item.event)
    return text if len(text) <= form.characters else f"{text[: form.characters - 1]}…"


def _title(moment: Moment, story: Story) -> str:
    return f"{clock_text(moment.at, story.clock)}: {clean(moment.item.text)}"


def _span(span: Span, scale: Scale, base: float, form: Format) -> str:
    begin, end = scale.x(span.start), scale.x(span.end)
    for text in (span.text, f"{span.kind} {duration(span.end - span.start)}", span.kind):
        if svg_marks.text_width(text) + 10 <= end - begin:
            return svg_marks.span(begin, end, base, BAND, span, text, form.suffix)
    return svg_marks.span(begin, end, base, BAND, span, "", form.suffix)


def _axis(story: Story, scale: Scale, y: float, form: Format) -> str:
    step, times = ticks(scale, form.wanted_ticks)
    rows: list[str] = []
    free_from = 0.0
    for at in times:
        text = tick_text(at, step, story.clock)
        half = svg_marks.text_width(text) / 2
        x = scale.x(at)
        middle = min(max(x, half + 1), form.width - half - 1)
        if middle - half >= free_from:
            rows.append(svg_marks.tick(x, y, middle, text))
            free_from = middle + half + 8
    return f'<path class="tl-axis" d="M{scale.left:.1f} {y:.1f}H{scale.right:.1f}"/>{"".join(rows)}'


def tick_text(at: float, step: float, clock: str) -> str:
    """A tick's number with just the digits its step needs."""
    if clock == "wall":
        return wall_text(at, "%m-%d" if step >= 86400 else "%H:%M" if step >= 60 else "%H:%M:%S")
    if step >= 60:
        return f"{int(at // 3600)}:{int(at % 3600 // 60):02d} h" if at >= 3600 else f"{at / 60:g} min"
    digits = next((n for n in range(7) if abs(round(step, n) - step) < 1e-9), 6)
    return f"{at:.{digits}f} s"
