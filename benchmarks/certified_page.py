"""The page of certified.py: tables, findings and a figure, made from its results."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.results import Row, table, versions

TOL = 1e-6
METHODS = {
    "s2gd+": "s2gd+, all at its defaults",
    "s2gd": "s2gd, all at its defaults",
    "s2gd+, no secants": "s2gd+ without secants, as in the paper (`--set solver.secants=0`)",
}
HEAD = (
    "set", "loss", "lam", "kappa", "F*", "passes", "true", "foreseen",
    "certified gap", "true gap", "rejected",
)  # fmt: skip
TEXT_COLUMNS = ("set", "loss", "lam")


def write_page(page: Path, rows: list[Row]) -> None:
    """Write the tables and the figure."""
    figure = page.parent / "figures" / "certified.png"
    judged = [row for row in rows if row["excess"] is not None]
    draw(figure, [row for row in judged if row["lam"] == "1/n"])
    text = PAGE.format(
        versions=versions("numpy", "numba", "scipy"),
        results="\n\n".join(method_table(judged, method) for method in METHODS),
        findings="\n".join(f"- {finding}" for finding in findings(judged)),
        raw=raw_text([row for row in rows if row["excess"] is None]),
        figure=f"figures/{figure.name}",
    )
    page.write_text(text)


def method_table(rows: list[Row], method: str) -> str:
    """Every set, loss and lam of one method."""
    cells = [result_cells(row) for row in rows if row["method"] == method]
    return f"### {METHODS[method]}\n\n" + table(HEAD, cells, TEXT_COLUMNS)


def result_cells(row: Row) -> list[str]:
    """Cells of one training."""
    scale = max(1.0, row["objective"])
    return [
        row["set"].partition(",")[0], row["loss"].replace("_", " "), str(row["lam"]),
        f"{row['kappa']:,.0f}", f"{row['lowest']:.5f}",
        f"{row['passes']:.0f}", f"{true_passes(row):.0f}", f"{row['foreseen']:.0f}",
        f"{row['relative']:.1e}", f"{row['excess'] / scale:.1e}", str(row["rejected"]),
    ]  # fmt: skip


def true_passes(row: Row) -> float:
    """When the true gap was first at most the tolerance, at a gradient."""
    return next(p for p, f, _ in row["curve"] if f - row["lowest"] <= TOL * max(1.0, f))


def findings(rows: list[Row]) -> list[str]:
    """Sentences on what was reached, how tight certificates are, and what secants bring."""
    late = [row for row in rows if row["relative"] > TOL]
    found = [f"{len(rows) - len(late)} of {len(rows)} trainings reach the certified gap."]
    found += [
        f"Not reached: {named(row)}: {row['relative']:.1e} after {row['passes']:.0f} passes."
        for row in late
    ]
    wrong = [row for row in rows if row["excess"] > row["certificate"]]
    found.append(f"The true gap is above the certificate on {len(wrong)} of {len(rows)}.")
    found += [f"Above it: {named(row)}." for row in wrong]
    ratios = [row["certificate"] / row["excess"] for row in rows if row["excess"] > 0.0]
    found.append(
        f"At the end the certificate is {min(ratios):.1f} to {max(ratios):.0f} times the true gap, "
        f"{statistics.median(ratios):.0f} times in the middle."
    )
    spent = statistics.fmean(true_passes(row) / row["passes"] for row in rows)
    found.append(
        f"The true gap was at most 1e-6 after {spent:.0%} of the passes on average; the rest went "
        "into proving it."
    )
    ahead = [row["foreseen"] / row["passes"] for row in rows if row["method"] in ("s2gd+", "s2gd")]
    found.append(
        f"`fewpass plan` foresees {min(ahead):.1f} to {max(ahead):.1f} times the passes that s2gd+ "
        f"and s2gd then take, {statistics.geometric_mean(ahead):.2f} times on (geometric) average."
    )
    return found + [comparison(rows, other) for other in list(METHODS)[1:]]


def comparison(rows: list[Row], other: str) -> str:
    """Passes of one method over those of s2gd+, on the same problems."""
    passes = {(r["set"], r["loss"], r["lam"], r["method"]): r["passes"] for r in rows}
    ratios = [
        passes[*key, other] / taken
        for (*key, method), taken in passes.items() if method == "s2gd+" and (*key, other) in passes
    ]  # fmt: skip
    return (
        f"{other} takes {min(ratios):.2f} to {max(ratios):.2f} times the passes of s2gd+, "
        f"{statistics.geometric_mean(ratios):.2f} times on (geometric) average."
    )


def raw_text(rows: list[Row]) -> str:
    """What raw rows are like, and lead to."""
    like = rows[0]
    head = (
        f"imdb holds a 1 for every word and pair of words of a text: rows are "
        f"{like['mean_length']:.0f} long in root mean square, {like['max_length']:.0f} at most."
    )
    return "\n".join([head, *(raw_line(row) for row in rows)])


def raw_line(row: Row) -> str:
    """What raw rows lead to."""
    reached = "needs" if row["relative"] <= TOL else "has not reached it after"
    return (
        f"With {row['loss'].replace('_', ' ')} and lam {row['lam']} kappa is {row['kappa']:,.0f}.\n"
        f"For a certified 1e-6 `fewpass plan` foresees {row['foreseen']:,.0f} passes and the "
        f"theory up to {row['theory']:,.0f}; s2gd+ {reached}\n{row['passes']:,.0f} "
        f"(certified {row['relative']:.1e}, {row['rejected']} epochs undone)."
    )


def named(row: Row) -> str:
    """Name a row in a sentence."""
    return f"{row['set']}, {row['loss'].replace('_', ' ')}, lam {row['lam']}, {row['method']}"


def draw(path: Path, rows: list[Row]) -> None:
    """A panel per set and loss: certificate and true gap of s2gd+ and s2gd after every gradient."""
    import matplotlib as mpl  # only the page needs it

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["set"] for row in rows))
    losses = list(dict.fromkeys(row["loss"] for row in rows))
    figure, axes = plt.subplots(
        len(losses), len(names), figsize=(2.6 * len(names), 5.4), layout="constrained",
        sharey=True, squeeze=False,
    )  # fmt: skip
    for row in rows:
        place = axes[losses.index(row["loss"])][names.index(row["set"])]
        colour = {"s2gd+": "tab:blue", "s2gd": "tab:orange"}.get(row["method"], "tab:gray")
        passes = [p for p, _, _ in row["curve"]]
        place.semilogy(passes, [g for _, _, g in row["curve"]], color=colour, label=row["method"])
        true = [max(f - row["lowest"], 1e-13) for _, f, _ in row["curve"]]
        place.semilogy(passes, true, "--", color=colour, linewidth=1)
        place.set_title(f"{row['set'].partition(',')[0]}, {row['loss'].replace('_', ' ')}", size=9)
        place.grid(visible=True, linewidth=0.3)
    axes[0][0].legend(fontsize=8)
    for place in axes[-1]:
        place.set_xlabel("passes")
    axes[0][0].set_ylabel("gap")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


PAGE = """# Real data: certified to 1e-6

Made by

    python -m benchmarks.certified --results certified.jsonl --page docs/certified.md

from the public sets under `FEWPASS_DATA`, every row scaled to unit length at ingest
(`--scale unit-rows`)
({versions}). Nothing is tuned: a training is
`TrainingPlan(dataset, solver, loss, lam, tol=1e-6, passes=3000)`, one seed, one process.

- F = mean loss + lam/2 ||w||^2 + lam_b/2 b^2 with lam_b = lam/100, on the training rows.
- certified gap: what the training itself proves of its last weights, over max(1, F). It stops when
  this is at most 1e-6. On these sets F is below 1, so the number is absolute.
- true gap: F at these weights minus F*, in the same unit. F* comes from Newton's method, written
  down apart from the project's solvers, and is proven to 1e-11 of itself.
- true: the passes after which the true gap was at most 1e-6, had anybody known. foreseen: what
  `fewpass plan` says is usual.
- kappa = L/lam, L the mean over the rows. passes counts rows read over rows of the set, gradients
  and inner loops alike.
- rejected: epochs undone because F rose.

## What comes out

{findings}

![Certificate and true gap]({figure})

Lines: certificate; dashed: true gap; lam = 1/n. Blue s2gd+, orange s2gd, grey s2gd+ without
secants.

{results}

## Raw rows: the warning example

{raw}
Scaled to unit length the same set takes a few dozen passes, in the tables above. Units of features
decide more than the method does.
"""
