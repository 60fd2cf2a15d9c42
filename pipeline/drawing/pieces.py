"""The layout of every section: cards, tables, bars, made by the macros of pieces.html."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from fewpass.pipeline.drawing.charts import style
from fewpass.pipeline.drawing.safe_text import without_control


@cache
def _macros() -> Any:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - for pages alone

    made = Environment(
        autoescape=True, trim_blocks=True, undefined=StrictUndefined, finalize=_shown
    )
    text = files("fewpass.pipeline.drawing").joinpath("pieces.html").read_text(encoding="utf-8")
    return made.from_string(text).module


def _shown(value: Any) -> Any:
    """Return what a page shows of a value: HTML as it is, all else without control characters."""
    return value if isinstance(value, Markup) else without_control(str(value))


def _made(macro: str, *given: Any) -> Markup:
    made: Markup = getattr(_macros(), macro)(*given)
    return made


def document(title: str, parts: Sequence[Markup]) -> str:
    """Return a page of these parts."""
    own = Markup(style())  # noqa: S704 - page.css
    return str(_made("document", title, own, parts))


def header(title: str, *below: Markup) -> Markup:
    """Return the title of a page, and what stands below it."""
    return _made("header", title, below)


def section(title: str, *each: Markup | None, folded: bool = False) -> Markup:
    """Return a heading and its cards, maybe folded away; nothing where there are none."""
    return _made("section", title, [one for one in each if one], folded)


def cards(each: Sequence[Markup]) -> Markup:
    """Lay cards out next to each other."""
    return _made("cards", each)


def fold(title: str, body: Markup) -> Markup:
    """Return HTML that a click on its title unfolds."""
    return _made("fold", title, body)


def last_part(address: str) -> str:
    """Return the name at the end of an address."""
    return address.rstrip("/").rpartition("/")[2] or address


def card(title: str, body: Markup, note: str = "", *, wide: bool = False) -> Markup:
    """Return a card; `note` is a sentence under its body.  Nothing where there is no body."""
    return _made("card", title, body, note, wide) if body else Markup()


def paragraph(text: str, kind: str = "") -> Markup:
    """Return a paragraph, maybe of a class of page.css."""
    return _made("paragraph", text, kind)


def tiles(figures: Mapping[str, str | None]) -> Markup:
    """Lay out the most important figures; None is left out."""
    return _made("tiles", figures)


def facts(rows: Mapping[str, Any]) -> Markup:
    """Lay facts out one below the other; None is left out."""
    return _made("facts", rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> Markup:
    """Lay out rows; the first columns are text, the others numbers."""
    return _made("table", head, rows, text_columns)


def rows_of(rows: Sequence[Mapping[str, str]], text_columns: int = 1) -> Markup:
    """Lay rows out below the names of their cells."""
    return table([*rows[0]], [[*row.values()] for row in rows], text_columns) if rows else Markup()


class Bar(NamedTuple):
    """A number drawn as a bar."""

    name: str
    number: float
    text: str  # the number as written
    gone: bool = False  # whether what it is of is no more


def bars(rows: Sequence[Bar], most: float = 0.0) -> Markup:
    """Draw bars from the left, or from the middle with both signs; `most`: the longest one's."""
    most = most or max((abs(row.number) for row in rows), default=0.0) or 1.0
    two_sided = any(row.number < 0.0 for row in rows)
    shares = (min(1.0, row.number / most) for row in rows)
    places = (_place(share, two_sided=two_sided) for share in shares)
    return _made("bars", [(row, *place) for row, place in zip(rows, places, strict=True)])


def _place(share: float, *, two_sided: bool) -> tuple[str, str]:
    """Return where a bar begins and how wide it is, in percent."""
    width = abs(share) * (50.0 if two_sided else 100.0)
    start = 0.0 if not two_sided else 50.0 - width * (share < 0.0)
    return f"{start:.1f}", f"{width:.1f}"


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    *,
    corner: str = "",
    thin: Sequence[Sequence[bool]] | None = None,
) -> Markup:
    """Lay out numbers whose cells are the darker the larger their share is, in [-1, 1].

    Those below 0 have another colour, thin ones are hatched; `texts` are the numbers as written.
    """
    hatched = thin or [[False] * len(columns)] * len(rows)
    dark = [[f"{70.0 * abs(share):.0f}" for share in own] for own in shares]
    cells = [zip(*own, strict=True) for own in zip(shares, dark, hatched, texts, strict=True)]
    return _made("heat", corner, columns, zip(rows, cells, strict=True))


def preformatted(text: str) -> Markup:
    """Show text as it is, to be copied."""
    return _made("preformatted", text)
