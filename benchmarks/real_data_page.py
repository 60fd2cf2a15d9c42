"""The page of real_data.py: tables, findings and a figure, made from its results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.data_sets import STUDIES
from benchmarks.results import Row, shown, table, versions

TEXT_COLUMNS = ("set", "loss", "lam", "scaling", "test rows are")
SET_HEAD = (
    "set", "training rows", "test rows", "features", "scaling", "test rows are"
)  # fmt: skip
RESULT_HEAD = (
    "set", "loss", "lam",
    "F*", "F ours", "F scikit-learn",
    "F - F* ours", "F - F* scikit-learn",
    "error at F*", "error ours", "error scikit-learn", "noise",
)  # fmt: skip


def better_objective(row: Row) -> bool:
    """Whether our mean objective is at most theirs; one that is not finite is the worst."""
    mine, other = (row[side]["excess"]["mean"] for side in ("ours", "sklearn"))
    return mine is not None and (other is None or mine <= other)


def error_verdict(row: Row) -> str:
    """Lower, equal within two standard errors, or higher: our test error against theirs."""
    mine, other = (row[side]["error"]["mean"] for side in ("ours", "sklearn"))
    if row["noise"] is None or other is None:
        return "lower"
    if abs(mine - other) <= 2.0 * row["noise"]:
        return "equal"
    return "lower" if mine < other else "higher"


def write_page(page: Path, rows: list[Row]) -> None:
    """Write the tables and the figure."""
    figure = page.parent / "figures" / "real-data-excess.png"
    draw(figure, rows)
    text = PAGE.format(
        versions=versions("numpy", "numba", "scikit-learn"),
        sets=table(SET_HEAD, [set_cells(row) for row in first_of_sets(rows)], TEXT_COLUMNS),
        results=table(RESULT_HEAD, [result_cells(row) for row in rows], TEXT_COLUMNS),
        findings="\n".join(f"- {finding}" for finding in findings(rows)),
        figure=f"figures/{figure.name}",
    )
    page.write_text(text)


def first_of_sets(rows: list[Row]) -> list[Row]:
    """One row of every set."""
    return list({row["set"]: row for row in reversed(rows)}.values())[::-1]


def set_cells(row: Row) -> list[str]:
    """Cells of one data set."""
    study = next(study for study in STUDIES if study.name == row["set"])
    numbers = [f"{row[name]:,}" for name in ("rows", "test_rows", "features")]
    split = "their own file" if study.test else "a fifth, by seed"
    return [row["set"], *numbers, row["scale"], split]


def result_cells(row: Row) -> list[str]:
    """Cells of one row: mean over the seeds and, in brackets, the worst of them."""

    def both(side: str, figure: str, form: str) -> str:
        found = row[side][figure]
        return f"{shown(found['mean'], form)} ({shown(found['worst'], form)})"

    lowest = row["optimum"]
    return [
        row["set"], row["loss"].replace("_", " "), str(row["lam"]),
        shown(lowest["objective"]["mean"], ".4f"),
        shown(row["ours"]["objective"]["mean"], ".4f"),
        shown(row["sklearn"]["objective"]["mean"], ".4f"),
        both("ours", "excess", ".1e"), both("sklearn", "excess", ".1e"),
        shown(lowest["error"]["mean"], ".4f"),
        both("ours", "error", ".4f"), both("sklearn", "error", ".4f"),
        shown(row["noise"], ".4f"),
    ]  # fmt: skip


def findings(rows: list[Row]) -> list[str]:
    """Sentences on where ours is better, equal or worse."""
    good = [row for row in rows if better_objective(row)]
    found = [f"Objective: ours is at most scikit-learn's on {len(good)} of {len(rows)} rows."]
    found += [f"Objective higher: {named(row)}." for row in rows if row not in good]
    verdicts = [error_verdict(row) for row in rows]
    count = {verdict: verdicts.count(verdict) for verdict in ("lower", "equal", "higher")}
    found.append(
        f"Test error: ours is lower on {count['lower']} rows, equal within two standard errors "
        f"of the difference on {count['equal']}, higher on {count['higher']}."
    )
    for row, verdict in zip(rows, verdicts, strict=True):
        if verdict == "higher":
            mine, other, best = (
                row[side]["error"]["mean"] for side in ("ours", "sklearn", "optimum")
            )
            found.append(
                f"Test error higher: {named(row)}: {mine:.4f} against {other:.4f}; "
                f"the exact minimum of F has {best:.4f}."
            )
    return found


def named(row: Row) -> str:
    """Name a row in a sentence."""
    return f"{row['set']}, {row['loss'].replace('_', ' ')}, lam {row['lam']}"


def draw(path: Path, rows: list[Row]) -> None:
    """Dots of both sides' excess, one line per row; what is beyond the right edge lies on it."""
    import matplotlib as mpl  # only the page needs it

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    edge = 1e2
    figure, axes = plt.subplots(figsize=(7.5, 0.22 * len(rows) + 1.2), layout="constrained")
    for side, colour, label in (
        ("ours", "tab:blue", "fewpass"), ("sklearn", "tab:orange", "scikit-learn")
    ):  # fmt: skip
        means = [row[side]["excess"]["mean"] for row in rows]
        places = [min(edge if value is None else value, edge) for value in means]
        axes.scatter(places, range(len(rows)), color=colour, s=18, label=label, zorder=3)
    names = [f"{r['set']} · {r['loss'].replace('_', ' ')} · {r['lam']}" for r in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(edge, color="grey", linewidth=0.6)
    axes.set_xlabel("F - F* after one pass (at 1e2: that or more)")
    axes.grid(axis="both", linewidth=0.3)
    axes.legend(loc="upper right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


PAGE = """# Real data: one pass, nothing tuned

Made by

    python -m benchmarks.real_data --results real-data.jsonl --page docs/real-data.md

from the public sets under `FEWPASS_DATA` ({versions}).

Both sides make one pass over the same training rows, all settings at their defaults: ours is
`TrainingPlan(dataset, loss, lam)`, scikit-learn's `SGDClassifier` or `SGDRegressor` with
`average=True, max_iter=1, tol=None` and `alpha` = lam (2 lam for its squared hinge, which lacks
our 1/2). Numbers are means over three seeds, in brackets the worst; the seed shuffles the rows
and, where a set has no test file, picks the test rows.

- F = mean loss + lam/2 ||w||^2 on the training rows; the intercept costs nothing. Ours is trained
  with lam/100 on it (so that the certificate holds), which F does not count.
- F* is the minimum of F, by Newton's method, proven to 1e-8 of itself by its gradient (squared
  loss: by singular values).
- error is the share of test rows on the wrong side; for the squared loss the mean squared error
  of the test rows. noise is the standard error of the difference of the two test errors, paired
  row by row.
- Scaling is done by ingest; scikit-learn gets the same numbers. mnist 9 is digit 9 against the
  rest, every pixel divided by its largest value (`maxabs`). The regression tables come with
  columns of very different units, so they stand here twice: `standard`, and raw, where no single
  step can be right.

{sets}

{results}

{findings}

![Excess over the optimum]({figure})

What decides:

- The first step. Ours is found on the first 1000 rows; scikit-learn's follows from alpha alone for
  the classifiers (10 at alpha 1e-4) and is 0.01 for regression, however long the rows are.
- The intercept. Ours steps as if the constant column were a quarter of a typical row's length, and
  starts at the mean of the targets for the squared loss. With a constant column of 1 its noise
  decides where rows are short: on phishing (logistic) scikit-learn was ahead then.
- Scaling. On the raw regression tables ours does not diverge, but learns little more than a
  constant: use `ingest --scale standard`.
- On ijcnn1 scikit-learn's test errors are lower than ours and than those of the exact minimum of F,
  from weights with a higher F: there the objective is not the test error, and no default of an
  optimiser of F is at fault.
"""
