"""Tables of the pages of S2GD and ASDCA, made of what was measured.

    python -m benchmarks.papers.tables [--s2gd s2gd.jsonl] [--asdca asdca.jsonl]

Results that are named are taken over into docs/papers, without the courses that only pictures show;
then the tables of both pages are printed.  A test holds the pages against these files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.papers import asdca, s2gd

KEPT = Path(__file__).parents[2] / "docs/papers"
MARKS = (10.0, 30.0)  # passes of S2GD's table

Row = dict[str, Any]


def rows_of(name: str) -> list[Row]:
    """What is kept of a page's results."""
    return [json.loads(x) for x in (KEPT / f"{name}.jsonl").read_text().splitlines()]


# -- S2GD ------------------------------------------------------------------------------------------

LABELS = {
    "SGD": "SGD, constant step", "GD": "GD, 1/L of the mean loss", "L-BFGS": "L-BFGS, 10 pairs",
    "SAG": "SAG", "SAG+": "SAG+", "S2GDcon": "S2GDcon, 1/(10 L)", "SVRG": "SVRG (nu = 0)",
    "S2GD": "S2GD (nu = lam)", "S2GD+": "S2GD+", "s2gd+ as shipped": "`--solver s2gd+`, no setting",
}  # fmt: skip
CHOSEN = ("SGD", "SAG", "S2GD", "SVRG", "S2GD+")  # by their steps


def kept_of_s2gd(rows: Iterable[Row]) -> Iterator[Row]:
    """The newest line of every set and method, with what the table shows of its curve."""
    for row in {(row["set"], row["method"]): row for row in rows}.values():
        if row["method"] == s2gd.CONSTANTS:
            yield row
            continue
        curve = s2gd.Curve(row["passes"], row["excess"], 0.0)
        at = {f"{mark:g}": curve.after(mark) for mark in MARKS}
        yield {"set": row["set"], "method": row["method"], "step": row["step"], "excess": at}


def s2gd_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Table 4, and what methods reach that were tried on all sets."""
    found = {(row["set"], row["method"]): row for row in rows}
    for name in s2gd.SETS:
        of = found[name, s2gd.CONSTANTS]
        sizes = f"{of['n']:,} | {of['d']:,} | {of['L']:.3g} | {of['mean L']:.3g}"
        yield f"| {name} | {sizes} | {of['kappa']:,.0f} |"
    whole = {m for m in LABELS if all((name, m) in found for name in s2gd.SETS)}
    for method, label in LABELS.items():
        if method not in whole:
            continue
        cells = [_excess(found[name, method]["excess"]) for name in s2gd.SETS]
        yield f"| {label} | {' | '.join(cells)} |"
    for method in whole.intersection(CHOSEN):
        steps = (found[name, method]["step"] for name in s2gd.SETS)
        yield f"{method} {', '.join(_step(one) for one in steps)}"


def _excess(at: dict[str, float]) -> str:
    shown = (at[f"{mark:g}"] for mark in MARKS)
    return ", ".join("< 1e-14" if e < s2gd.ROUNDING else f"{e:.0e}" for e in shown)


def _step(label: str) -> str:
    """Write `1/(4 L_mean)` as 1/4."""
    share = label.removeprefix("1/(").removesuffix(" L_mean)")
    return "1" if share == "1" else f"1/{share}"


# -- ASDCA -----------------------------------------------------------------------------------------

INDEPENDENT = {  # of the page, in brackets: another implementation, on the same data
    "paper": ("7.3 / 21.5", "17.5 / 58.5", "51.8 / 179", "177 / 572", "1133 / 2454"),
    "exact": ("5.3 / 15.3", "6.3 / 18", "14.3 / 48.3", "45 / 147", "281 / 611"),
    "sigma": ("5.3 / 14.8", "5.3 / 15", "5.5 / 15.5", "8.8 / 28", "42 / 94"),
}


def kept_of_asdca(rows: Iterable[Row]) -> Iterator[Row]:
    """Constants of sets, and the passes that every method took to the table's excesses."""
    for row in rows:
        if row["method"] == asdca.CONSTANTS:
            yield row
            continue
        course = asdca.Course(row["passes"], row["excess"])
        passes = [course.first_below(excess) for excess in asdca.EXCESSES]
        yield {name: row[name] for name in ("set", "method", "m", "theta")} | {"passes": passes}


def asdca_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The sets, and both tables of passes."""
    found = {(r["set"], r["method"], r.get("m"), r.get("theta", "")): r for r in rows}
    constants = {r["set"]: r for r in found.values() if r["method"] == asdca.CONSTANTS}
    for name in asdca.SETS:
        of = constants[name]
        thetas = ", ".join(f"{theta:#.2g}" for theta in of["thetas"])
        yield f"| {name} | {of['n']:,} | {of['d']:,} | {of['S']:#.2g} | {of['m']} | {thetas} |"
    for kind in (", drawn", ""):
        if (asdca.SYNTHETIC, f"SDCA{kind}", None, "") not in found:
            continue
        for theta in asdca.THETAS:
            keys = [(asdca.SYNTHETIC, f"ASDCA{kind}", m, theta) for m in asdca.BATCHES]
            if any(key not in found for key in keys):  # some take thousands of passes
                continue
            cells = [_passes(found[key]) for key in keys]
            if kind:
                cells = [f"{a} ({b})" for a, b in zip(cells, INDEPENDENT[theta], strict=True)]
            yield f"| {theta} | {' | '.join(cells)} |"
        yield f"SDCA {_passes(found[asdca.SYNTHETIC, f'SDCA{kind}', None, ''])}"
    for name in asdca.SETS:
        yield f"AGD {_passes(found[name, 'AGD', None, ''])}"
    for name in asdca.SETS[:2]:
        cells = [_passes(found[name, "ASDCA", m, "sigma"]) for m in asdca.BATCHES]
        yield f"`sigma` {', '.join(cells)}; SDCA {_passes(found[name, 'SDCA', None, ''])}"


def _passes(row: Row) -> str:
    return " / ".join(
        f"> {asdca.PASSES}" if p is None else f"{p:.1f}".removesuffix(".0") if p < 30 or p % 1
        else f"{p:.0f}"
        for p in row["passes"]
    )  # fmt: skip


# -- both ------------------------------------------------------------------------------------------

PAGES = {"s2gd": (kept_of_s2gd, s2gd_lines), "asdca": (kept_of_asdca, asdca_lines)}


def main() -> None:
    """Take results over, and print the tables."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in PAGES:
        options.add_argument(f"--{name}", type=Path, help="file of JSON lines")
    chosen = vars(options.parse_args())
    for name, (kept, lines) in PAGES.items():
        if chosen[name]:
            rows = [json.loads(x) for x in chosen[name].read_text().splitlines()]
            told = "".join(f"{json.dumps(row)}\n" for row in kept(rows))
            (KEPT / f"{name}.jsonl").write_text(told)
        sys.stdout.write(f"\n{name}.md\n\n" + "".join(f"{x}\n" for x in lines(rows_of(name))))


if __name__ == "__main__":
    main()
