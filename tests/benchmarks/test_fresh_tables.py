"""Tables that nobody tuned on: what their rows lose, and what is said of it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score

from benchmarks.fresh_tables import fresh_found, row_losses


def test_losses_of_rows_are_those_of_scikit_learn_row_by_row():
    rng = np.random.default_rng(0)
    y, p = pd.Series(rng.normal(size=50)), pd.DataFrame({"predicted": rng.normal(size=50)})
    assert row_losses(y, p, "reg").mean() == pytest.approx(1.0 - r2_score(y, p))
    y = pd.Series(rng.choice(["b", "a", "c"], 50))
    chances = rng.dirichlet([1.0, 1.0, 1.0], 50)
    ours = pd.DataFrame(chances, columns=["probability_c", "probability_a", "probability_b"])
    losses = row_losses(y, ours.assign(predicted="a", probability=0.5), "multi")
    assert losses.mean() == pytest.approx(log_loss(y, chances[:, [1, 2, 0]]))
    unseen = row_losses(pd.Series(["d", "a"]), ours[:2], "multi")  # no row of it was learnt from
    assert unseen == pytest.approx(-np.log([1e-15, ours["probability_a"][1]]))


def test_a_default_is_worse_where_it_is_by_more_than_chance():
    def row(name, default, deviation):
        sides = {"linear-form": 0.5, "fewpass": default, "linear": 0.5, "boosting": 0.4}
        sides["lightgbm"] = 0.51
        told = {side: {"log_loss": loss} for side, loss in sides.items()}
        return {"table": name, "kind": "bin", "rows": 9, "deviation": deviation} | told

    rows = [row("sure", 0.51, 0.002), row("chance", 0.51, 0.02), row("better", 0.4, 0.01)]
    rows[1]["same-days"] = {"log_loss": 0.4}
    first, pipeline, boosting, lightgbm, told = fresh_found(rows)
    assert "on 1 of 3 tables, worse on 1: sure by 0.0100" in first
    assert "on 1 of 3 tables, higher on 2 (sure +2 %, chance +2 %)" in pipeline
    assert "on 0 of 3 tables, higher on 2 (sure +27 %, chance +27 %)" in boosting
    assert "on 1 of 3 tables, higher on 0." in lightgbm
    assert "on the 1 tables with dates" in told
    assert "on 2 of 3 tables, higher on 0." in told
