"""The layout of every section: cards, tables, bars.  All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.drawing.charts import style
from fewpass.pipeline.drawing.safe_text import as_html


def document(title: str, parts: Sequence[str]) -> str:
    """Return a page of these parts, which are HTML, as is the title."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{style()}</style></head><body>\n"
        + "\n".join(part for part in parts if part)
        + "\n<footer>Made by fewpass.</footer></body></html>\n"
    )


def section(title: str, *cards: str, folded: bool = False) -> str:
    """Return a heading and its cards, maybe folded away; nothing where there are none."""
    body = "".join(cards)
    if not body:
        return ""
    body = f'<div class="cards">{body}</div>'
    if folded:
        return f"<details><summary><h2>{as_html(title)}</h2></summary>{body}</details>"
    return f"<h2>{as_html(title)}</h2>{body}"


def fold(title: str, body: str) -> str:
    """Return HTML that a click on its title unfolds."""
    return f"<details><summary>{as_html(title)}</summary>{body}</details>"


def last_part(address: str) -> str:
    """Return the name at the end of an address."""
    return address.rstrip("/").rpartition("/")[2] or address


def card(title: str, body: str, note: str = "", *, wide: bool = False) -> str:
    """Return a card; `body` is HTML, `note` a sentence under it."""
    said = f'<p class="quiet">{as_html(note)}</p>' if note else ""
    kind = "card wide" if wide else "card"
    return f'<div class="{kind}"><h3>{as_html(title)}</h3>{body}{said}</div>'


def tiles(figures: Mapping[str, str | None]) -> str:
    """Lay out the most important figures; None is left out."""
    each = (
        f'<div class="tile"><span class="quiet">{as_html(name)}</span><b>{as_html(value)}</b></div>'
        for name, value in figures.items()
        if value is not None
    )
    return f'<div class="tiles">{"".join(each)}</div>'


def facts(rows_of: Mapping[str, Any]) -> str:
    """Lay facts out one below the other; None is left out."""
    rows = (
        f"<tr><th>{as_html(name)}</th><td>{as_html(str(value))}</td></tr>"
        for name, value in rows_of.items()
        if value is not None
    )
    return f'<table class="facts">{"".join(rows)}</table>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """Lay out rows; the first columns are text, the others numbers."""
    kinds = ["text" if k < text_columns else "number" for k in range(len(head))]
    top = "".join(f'<th class="{k}">{as_html(h)}</th>' for h, k in zip(head, kinds, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{k}">{as_html(c)}</td>' for c, k in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    head_row = f"<thead><tr>{top}</tr></thead>"
    return _scrolled(f"<table>{head_row}<tbody>{body}</tbody></table>")


def rows_of(rows: Sequence[Mapping[str, str]], text_columns: int = 1) -> str:
    """Lay rows out below the names of their cells."""
    return table([*rows[0]], [[*row.values()] for row in rows], text_columns) if rows else ""


def _scrolled(table: str) -> str:
    return f'<div class="scroll" tabindex="0">{table}</div>'


class Bar(NamedTuple):
    """A number drawn as a bar."""

    name: str
    number: float
    text: str  # the number as written
    gone: bool = False  # whether what it is of is no more


def bars(rows: Sequence[Bar], most: float = 0.0) -> str:
    """Draw bars from the left, or from the middle with both signs; `most`: the longest one's."""
    most = most or max((abs(row.number) for row in rows), default=0.0) or 1.0
    two_sided = any(row.number < 0.0 for row in rows)
    each = (
        f'<span class="name{" gone" * row.gone}">{as_html(row.name)}</span>'
        f"{_bar(min(1.0, row.number / most), two_sided=two_sided)}"
        f'<span class="value{" gone" * row.gone}">{as_html(row.text)}</span>'
        for row in rows
    )
    return f'<div class="bars">{"".join(each)}</div>'


def _bar(share: float, *, two_sided: bool) -> str:
    width = abs(share) * (50.0 if two_sided else 100.0)
    start = 0.0 if not two_sided else 50.0 - width * (share < 0.0)
    colour = 2 if share < 0.0 else 1
    style = f"left:{start:.1f}%;width:{width:.1f}%"
    return f'<span class="bar"><i class="c{colour}" style="{style}"></i></span>'


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    *,
    corner: str = "",
    thin: Sequence[Sequence[bool]] | None = None,
) -> str:
    """Lay out numbers whose cells are the darker the larger their share is, in [-1, 1].

    Those below 0 have another colour, thin ones are hatched; `texts` are the numbers as written.
    """
    top = "".join(f'<th class="number">{as_html(label)}</th>' for label in columns)
    hatched = thin or [[False] * len(columns)] * len(rows)
    body = "".join(
        f"<tr><th>{as_html(label)}</th>"
        + "".join(
            f'<td class="cell{" down" * (share < 0.0)}{" thin" * few}" '
            f'style="--share:{70.0 * abs(share):.0f}%">{as_html(text)}</td>'
            for share, few, text in zip(own, thin_ones, written, strict=True)
        )
        + "</tr>"
        for label, own, thin_ones, written in zip(rows, shares, hatched, texts, strict=True)
    )
    head = f"<thead><tr><th>{as_html(corner)}</th>{top}</tr></thead>"
    return _scrolled(f'<table class="heat">{head}<tbody>{body}</tbody></table>')


def preformatted(text: str) -> str:
    """Show text as it is, to be copied."""
    return f"<pre>{as_html(text)}</pre>"
