"""What one pass of ours comes to beside the peers', in sentences and tables (one_pass.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from testing.results import Row, table

PATH = "onepass, lam by held-out rows"
OURS = ("onepass", "without newton", "asgd")
PEERS = {
    "vw": "VW",
    "vw --power_t 0": "`--power_t 0`",
    "vw --l2 lam": "`--l2`",
    "vw --ftrl": "`--ftrl`",
    "vw --coin": "`--coin`",
    "sklearn": "scikit-learn",
    "sklearn, best step": "best step",
    "river adagrad": "River",
}
TEXT = ("reuters", "imdb", "sector, class 1")  # the sets whose rows are texts
ROUNDING = 1e-8  # of an excess, times the objective: how well the optimum is known
WORSE = 1.05  # times asgd's excess

Pair = tuple[str, str]  # set and lam


def grouped(rows: list[Row]) -> dict[Pair, list[Row]]:
    """Rows of all orders by set and lam."""
    found: dict[Pair, list[Row]] = {}
    for row in rows:
        found.setdefault((row["set"], row["lam"]), []).append(row)
    return found


def mean(rows: list[Row], name: str, figure: str) -> float:
    """Mean over the orders; infinite where one was not finite, NaN where none was measured."""
    known = [row["methods"][name] for row in rows if row["methods"].get(name)]
    if figure == "excess":  # below what the optimum is known to, there is none
        least = ROUNDING * max(1.0, rows[0]["lowest"])
        known = [one | {"excess": bounded_below(one["excess"], least)} for one in known]
    values = [np.inf if one[figure] is None else one[figure] for one in known]
    return float(np.mean(values)) if values else np.nan


def bounded_below(excess: float | None, least: float) -> float | None:
    """Return an excess, 0 where it is rounding."""
    return excess if excess is None or excess > least else 0.0


def best(
    rows: list[Row], figure: str, names: Iterable[str], sign: float = 1.0
) -> tuple[float, str]:
    """Return the smallest figure (the largest, by sign -1) of these methods, and whose it is."""
    each = [(sign * mean(rows, name, figure), name) for name in names]
    least, name = min((one for one in each if np.isfinite(one[0])), default=(np.nan, "none"))
    return sign * least, name


def findings(rows: list[Row]) -> list[str]:
    """Sentences on where we win and lose."""
    each = grouped(rows)
    said = [*told_of_objectives(each)]
    said += [told_of_ratios(each, name) for name in OURS[:2]]
    said += [one for key, own in each.items() if key[0] in TEXT for one in told_of_path(key, own)]
    return [*said, told_of_tests(each)]


def told_of_objectives(each: dict[Pair, list[Row]]) -> Iterator[str]:
    """Compare objectives with the best peer's in hindsight."""
    peers = {key: best(own, "excess", PEERS) for key, own in each.items()}
    ours = {key: mean(own, "onepass", "excess") for key, own in each.items()}
    lost = [key for key in each if ours[key] > peers[key][0]]
    yield (
        f"Objective: `onepass` is at or below the best of the {len(PEERS)} peers in hindsight on "
        f"{len(each) - len(lost)} of {len(each)} pairs of set and lam."
    )
    for key in lost:
        yield (
            f"Objective higher: {key[0]}, lam {key[1]}: excess {ours[key]:.2g} against "
            f"{peers[key][0]:.2g} ({peers[key][1]})."
        )


def told_of_ratios(each: dict[Pair, list[Row]], name: str) -> str:
    """Compare the excess of one of ours with that of `asgd`."""
    ratios = {
        key: mean(own, name, "excess") / mean(own, "asgd", "excess") for key, own in each.items()
    }
    above = [f"{key[0]} at {key[1]} ({r:.2f})" for key, r in ratios.items() if r > WORSE]
    told = f"; above {WORSE} on {', '.join(above)}" if above else f", never above {WORSE}"
    below = sum(ratio < 1.0 for ratio in ratios.values())
    return (
        f"Excess of `{name}` over that of `asgd`: below 1 on {below} of {len(ratios)}, "
        f"{np.median(list(ratios.values())):.2g} in the middle{told}."
    )


def told_of_path(key: Pair, rows: list[Row]) -> Iterator[str]:
    """Say how lam by held-out rows predicts beside Vowpal Wabbit's default."""
    known = [row for row in rows if row.get(PATH)]
    if known:
        ours = float(np.mean([row[PATH]["loss"] for row in known]))
        vw = float(np.mean([row["methods"]["vw"]["loss"] for row in known]))
        lams = sorted({f"{row[PATH]['lam_n']:.3g}/n" for row in known})
        yield (
            f"Text, lam by held-out rows: {key[0]}: test log loss {ours:.4f} ({', '.join(lams)}), "
            f"{'at most' if ours <= vw else 'above'} Vowpal Wabbit's default, {vw:.4f}."
        )


def told_of_tests(each: dict[Pair, list[Row]]) -> str:
    """Count where `onepass` predicts at least as well as the best peer of each figure."""
    counts = []
    for figure, word, sign in (
        ("loss", "loss", 1.0),
        ("error", "error", 1.0),
        ("auc", "AUC", -1.0),
    ):
        known = [own for own in each.values() if own[0]["methods"]["onepass"][figure] is not None]
        won = sum(
            sign * mean(own, "onepass", figure) <= sign * best(own, figure, PEERS, sign)[0]
            for own in known
        )
        counts.append(f"{word} on {won} of {len(known)}")
    return (
        "Test rows, at the lam that is given: `onepass` is as good as the peer that is best in "
        f"hindsight, another one for each figure: {', '.join(counts)}."
    )


def tables(rows: list[Row]) -> str:
    """Tabulate excess and losses of test rows; errors and progressive losses are told in a line."""
    each = grouped(rows)
    text = ("set", "lam", "learner", "best peer", "its name")
    head = ("set", "lam", "orders", *(f"`{name}`" for name in OURS), *PEERS.values(), "learner")
    excess = [excess_cells(key, own) for key, own in each.items()]
    tests = ("set", "lam", "optimum", "`onepass`", "`asgd`", "VW", "best peer", "its name",
             "lam by held-out rows")  # fmt: skip
    losses = [loss_cells(key, own) for key, own in each.items()]
    return "\n\n".join(
        [
            "Excess:",
            table(head, excess, text),
            "Loss on test rows:",
            table(tests, losses, text),
            told_of_progressive(each),
        ]
    )


def told_of_progressive(each: dict[Pair, list[Row]]) -> str:
    """Count where the progressive loss of `onepass` is at most Vowpal Wabbit's."""
    won = sum(
        mean(own, "onepass", "progressive") <= mean(own, "vw", "progressive")
        for own in each.values()
    )
    return (
        "The progressive loss of `onepass` is at most that of Vowpal Wabbit's default on "
        f"{won} of {len(each)}.\nTest errors, areas under the ROC curve and progressive losses of "
        "all are in `docs/evidence.jsonl`."
    )


def excess_cells(key: Pair, rows: list[Row]) -> list[str]:
    """Cells of one pair; the least excess is bold."""
    values = [mean(rows, name, "excess") for name in (*OURS, *PEERS)]
    least = min(value for value in values if np.isfinite(value))
    cells = [f"**{cell(v)}**" if v <= 1.005 * least else cell(v) for v in values]
    learners = sorted({str(row["learner"]) for row in rows})
    return [*key, str(len(rows)), *cells, ", ".join(learners)]


def loss_cells(key: Pair, rows: list[Row]) -> list[str]:
    """Cells of one pair."""
    peer, name = best(rows, "loss", PEERS)
    path = [row[PATH]["loss"] for row in rows if row.get(PATH)]
    ours = [mean(rows, one, "loss") for one in ("onepass", "asgd", "vw")]
    values = [at_optimum(rows, "loss"), *ours, peer]
    return [
        *key,
        *(cell(value, 3) for value in values),
        PEERS[name],
        cell(float(np.mean(path)), 3) if path else "",
    ]


def at_optimum(rows: list[Row], figure: str) -> float:
    """Mean over the orders of a figure of the optimum."""
    values: list[Any] = [row["optimum"][figure] for row in rows]
    return float(np.mean(values)) if None not in values else np.nan


def cell(value: float, digits: int = 2) -> str:
    """A number in a few digits; a dash where nothing was measured."""
    if np.isnan(value):
        return "-"
    return "not finite" if np.isinf(value) else f"{value:.{digits}g}"
