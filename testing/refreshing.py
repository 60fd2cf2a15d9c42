"""Refreshes of a store without Prefect, for tests."""

import numpy as np

from fewpass.pipeline.models.refresh import refreshing
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.settings.refresh_plan import RefreshPlan


def write_rows(path, seed, n=300, turned=False):
    """Write rows of three columns and a label as CSV; where it has turned, column a does more."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)).round(3)
    y = X @ ([-6.0, 1.0, 1.0] if turned else [1.0] * 3) + rng.logistic(size=n) > 0
    np.savetxt(
        path, np.column_stack([y, X]), fmt="%.6g", delimiter=",", header="y,a,b,c", comments=""
    )


def plan_of(folder, label="y", **changed):
    """Return a plan that takes CSV files of FOLDER/inbox into FOLDER/store."""
    usual = {"ingest": {"options": {"label": label}}, "training": {"lam": "1e-2", "tol": 1e-3}}
    return RefreshPlan.model_validate(
        {"sources": (f"{folder}/inbox/*.csv",), "store": f"{folder}/store", "settle": 0.0}
        | usual | changed
    )  # fmt: skip


def refresh(plan, work=None):
    """Refresh, here."""
    return refreshing.refresh(plan, work)


class Interrupted(Exception):  # noqa: N818 - what it is
    """The end of a refresh, as if it had been killed."""


class EndsBefore(RefreshWork):
    """Ends a refresh before its n-th part, from 0: takings, trainings and judgements."""

    def __init__(self, n):
        super().__init__()
        self.left = n

    def _count(self):
        self.left -= 1
        if self.left < 0:
            raise Interrupted

    def take(self, *of):
        self._count()
        return super().take(*of)

    def train(self, *of):
        self._count()
        return super().train(*of)

    def score(self, *of):
        self._count()
        return super().score(*of)
