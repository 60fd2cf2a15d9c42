"""Charts as SVG text: lines, marks and whiskers on linear or logarithmic axes.

The report, the dashboard and notebooks show them.  Colours are variables of page.css, so that a
chart follows a dark screen; every size is in the units of the view box, which the page scales to
its width.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup

from fewpass.pipeline.drawing.safe_text import as_html, without_control

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 14.0, 10.0, 40.0
LEGEND = 50.0  # below a chart that is a file of its own
WINDOW = 20  # points of a curve that are averaged
MANY = 5 * WINDOW  # points of a curve that is easier to read smoothed
MOST_POINTS = 600  # of a line: more cannot be distinguished
TICKS = 5

#: Of an axis; a date is in seconds since 1970, and ticks of a whole one are whole numbers.
Kind = Literal["linear", "log", "date", "whole"]
XY = tuple[float, float]


class Curve(NamedTuple):
    """One line of a chart, with its name in the legend."""

    name: str
    points: Sequence[XY]
    colour: int = 1  # --c1 to --c4 of the page
    look: Literal["line", "faint", "dashed", "marks", "step", "area"] = "line"


class Whisker(NamedTuple):
    """A vertical stroke, from low to high."""

    x: float
    low: float
    high: float


class Axis(NamedTuple):
    """Scale from numbers to places along one side of a chart."""

    kind: Kind
    low: float
    high: float
    start: float  # place of `low`
    end: float  # place of `high`

    def place(self, value: float) -> float:
        """Return where a number lies, ends included."""
        low, high, at = self.low, self.high, value
        if self.kind == "log":
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, low))
        share = min(1.0, max(0.0, (at - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the numbers written next to it."""
        if self.kind == "date":
            return calendar_ticks(self.low, self.high)
        if self.kind == "log":
            return decades(self.low, self.high)
        return steps(self.low, self.high, least=float(self.kind == "whole"))

    def words(self) -> list[str]:
        """Return these numbers as they are written."""
        return (
            calendar_words(self.ticks()) if self.kind == "date" else [*map(written, self.ticks())]
        )


def chart(
    lines: Sequence[Curve], x_label: str, y_label: str, *, x: Kind = "linear", y: Kind = "linear",
    whiskers: Iterable[Whisker] = (), x_range: XY | None = None, y_range: XY | None = None,
) -> Markup:  # fmt: skip
    """Draw lines with a legend; of a single moment write the numbers: a dot is no picture.

    Points that an axis cannot show (0 on a logarithmic one, what is not finite) are left out, and
    nothing is drawn without any.
    """
    shown = [line._replace(points=_drawable(line.points, x, y)) for line in lines]
    shown, strokes = [line for line in shown if line.points], list(whiskers)
    if not shown:
        return Markup()
    description = described([line for line in shown if line.look != "area"], x_label, x)
    if len({p[0] for line in shown for p in line.points}) == 1:
        return Markup("<p>{}</p>").format(without_control(description))
    xs = [p[0] for line in shown for p in line.points]
    ys = [p[1] for line in shown for p in line.points]
    ys += [end for w in strokes for end in (w.low, w.high)]
    across = Axis(x, *(x_range or _range(xs, x)), LEFT, WIDTH - RIGHT)
    up = Axis(y, *(y_range or _range(ys, y)), HEIGHT - BOTTOM, TOP)
    parts = [_grid(across, up, x_label, y_label)]
    parts += [_stroke(w, across, up) for w in strokes]
    parts += [_drawn(line, across, up) for line in shown]
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img">'
    )
    title = f"<title>{as_html(f'{y_label} against {x_label}')}</title>"
    desc = f"<desc>{as_html(description)}</desc>"
    drawn = f"{picture}{title}{desc}{''.join(parts)}</svg>{_legend(shown)}"
    return Markup(drawn)  # noqa: S704 - its texts are escaped


@cache
def style() -> str:
    """Return the style of charts and pages."""
    return files("fewpass.pipeline.drawing").joinpath("page.css").read_text(encoding="utf-8")


def picture(drawn: str) -> str:
    """Return a chart as an SVG file: with its style, and its legend below it."""
    inner, _, legend = drawn.partition(">")[2].partition("</svg>")
    tall = HEIGHT + LEGEND
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {tall:g}" '
        f'width="{1.5 * WIDTH:g}" height="{1.5 * tall:g}" style="background:var(--card)">'
        f"<style>{style()}</style>{inner}"
        f'<foreignObject y="{HEIGHT:g}" width="{WIDTH:g}" height="{LEGEND:g}">'
        f'<div xmlns="http://www.w3.org/1999/xhtml">{legend}</div></foreignObject></svg>'
    )


def image_address(drawn: str) -> str | None:
    """Return an address that holds a chart as a picture, for pages with styles of their own.

    None of what is no picture, such as a single moment.
    """
    if not drawn.startswith("<svg"):
        return None
    return f"data:image/svg+xml;base64,{base64.b64encode(picture(drawn).encode()).decode()}"


def described(lines: Sequence[Curve], x_label: str, x: Kind = "linear") -> str:
    """Say where lines begin and end, for those who do not see them."""

    def at(point: XY) -> str:
        where = day_word(point[0]) if x == "date" else f"{point[0]:.4g}"
        return f"{point[1]:.4g} at {where}"

    each = [
        f"{line.name}: {', '.join(map(at, dict.fromkeys((line.points[0], line.points[-1]))))}"
        for line in lines
    ]
    return f"{'; '.join(each)} {x_label}."


def steps(low: float, high: float, least: float = 0.0) -> list[float]:
    """Return round numbers from low to high, about TICKS of them: 1, 2 or 5 times a power of 10.

    They are at least `least` apart.
    """
    raw = max(least, (high - low) / TICKS)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return powers of 10 from low to high, seven at most; 2 and 5 times them where they are few.

    Of a range without any of these, round numbers.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = -(-(last - first) // 7) or 1
    parts = (1.0, 2.0, 5.0) if last - first <= 2 else (1.0,)
    ticks = [k * 10.0**p for p in range(first, last + 1, every) for k in parts]
    ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return ticks if len(ticks) > 1 else steps(low, high)


def written(value: float) -> str:
    """Write a number as short as tells it from the next tick: 0.25, 3000, 20k, 0.0001, 1.5e-6."""
    if value and (abs(value) < 1e-4 or abs(value) >= 1e9):
        return f"{value:.8g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if abs(value) >= 1e6:
        return f"{value / 1e6:.10g}M"
    return f"{value / 1e3:.8g}k" if abs(value) >= 1e4 else f"{value:.8g}"


def smoothed(points: Sequence[XY]) -> list[XY]:
    """Return the means of WINDOW points as they go along a curve."""
    sums = np.cumsum([0.0, *(y for _, y in points)])
    means = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    return [(x, float(mean)) for (x, _), mean in zip(points[WINDOW - 1 :], means, strict=True)]


def thinned(points: Sequence[XY]) -> list[XY]:
    """Return as many points as can be distinguished, among them the first and the last."""
    chosen = np.unique(np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)).round())
    return [points[int(k)] for k in chosen]


def _drawable(points: Sequence[XY], x: Kind, y: Kind) -> list[XY]:
    def fits(value: float, kind: Kind) -> bool:
        return math.isfinite(value) and (kind != "log" or value > 0.0)

    return thinned([p for p in points if fits(p[0], x) and fits(p[1], y)])


def _range(values: Sequence[float], kind: Kind) -> XY:
    low, high = min(values), max(values)
    if kind == "log":
        return (low * 0.9, high * 1.1) if high < 1.5 * low else (low, high)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return (low if low == 0.0 else low - margin), high + margin


def _grid(across: Axis, up: Axis, x_label: str, y_label: str) -> str:
    foot, parts = HEIGHT - BOTTOM, []
    for tick, word in zip(across.ticks(), across.words(), strict=True):
        x = across.place(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{foot}"/>')
        parts.append(_text(x, foot + 16.0, word, "middle"))
    for tick, word in zip(up.ticks(), up.words(), strict=True):
        y = up.place(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6.0, y + 4.0, word, "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 5.0, x_label, "middle"))
    turn = f' transform="rotate(-90 12 {(TOP + foot) / 2.0:.1f})"'
    parts.append(_text(12.0, (TOP + foot) / 2.0, y_label, "middle", turn))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{as_html(text)}</text>'


def _stroke(whisker: Whisker, across: Axis, up: Axis) -> str:
    x, low, high = across.place(whisker.x), up.place(whisker.low), up.place(whisker.high)
    return f'<path class="whisker" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'


def _drawn(line: Curve, across: Axis, up: Axis) -> str:
    places = [(across.place(x), up.place(y)) for x, y in line.points]
    kind = f'class="{line.look} c{line.colour}"'
    if line.look == "marks" or len(places) == 1:
        dots = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places)
        return f'<g class="marks c{line.colour}">{"".join(dots)}</g>'
    corners = _stairs(places) if line.look == "step" else places
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    if line.look == "area":
        return f'<polygon class="c{line.colour}" points="{path}"/>'
    return f'<polyline {kind} points="{path}"/>'


def _stairs(places: Sequence[XY]) -> list[XY]:
    corners = [places[0]]
    for x, y in places[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return corners


def _legend(lines: Sequence[Curve]) -> str:
    named = [line for line in lines if line.name]
    keys = (f'<span><i class="c{k.colour} {k.look}"></i>{as_html(k.name)}</span>' for k in named)
    return f'<p class="legend">{"".join(keys)}</p>' if named else ""


# -- dates along an axis, in seconds since 1970 ----------------------------------------------------

MOST_TICKS = 6
#: Steps from one tick to the next: a unit of the calendar, and how many of it.
_STEPS = [
    *(("Y", k) for k in (100, 50, 20, 10, 5, 2, 1)),
    *(("M", k) for k in (6, 3, 1)),
    *(("D", k) for k in (10, 5, 2, 1)),
    *(("h", k) for k in (12, 6, 3, 1)),
]


def calendar_ticks(low: float, high: float) -> list[float]:
    """Return the first moments of years, months or days between two moments, six at most."""
    ticks: list[float] = [low, high]
    for unit, every in _STEPS:
        finer = _multiples(low, high, unit, every)
        if len(finer) > MOST_TICKS:
            break
        ticks = finer if len(finer) > 1 else ticks
    return ticks


def _multiples(low: float, high: float, unit: str, every: int) -> list[float]:
    first, last = (np.datetime64(int(at), "s").astype(f"datetime64[{unit}]") for at in (low, high))
    start = -(-first.astype(np.int64) // every) * every
    if unit == "Y":  # whole decades of years, not of years since 1970
        start = -(-(first.astype(np.int64) + 1970) // every) * every - 1970
    places = np.arange(start, last.astype(np.int64) + 1, every)
    seconds = places.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(np.float64)
    return [float(at) for at in seconds if low <= at <= high]


def calendar_words(moments: Sequence[float]) -> list[str]:
    """Write moments as short as tells them apart: 2017, 2017-04, 2017-04-12."""
    whole = [str(np.datetime64(int(at), "s")) for at in moments]
    for length, rest in ((4, "-01-01T00:00:00"), (7, "-01T00:00:00"), (10, "T00:00:00")):
        if all(word.endswith(rest) for word in whole):
            return [word[:length] for word in whole]
    days = [word[:10] for word in whole]
    return days if len(set(days)) == len(days) else [word[:16].replace("T", " ") for word in whole]


def day_word(moment: float) -> str:
    """Write the day of a moment."""
    return str(np.datetime64(int(moment), "s"))[:10]
