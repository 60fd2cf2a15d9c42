"""Refreshes of a store without Prefect, for tests."""

import numpy as np

from fewpass.pipeline.models.refresh import refreshing
from fewpass.pipeline.models.refresh.store_state import store_at
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.storage.dataset import Dataset


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


class Nights:
    """An inbox that gets a file a night, and the store of its refreshes."""

    def __init__(self, folder, **changed):
        self.folder = folder
        (folder / "inbox").mkdir(parents=True)
        self.plan = plan_of(folder, **changed)
        self.count = 0

    def come(self, turned=False):
        self.count += 1
        write_rows(self.folder / f"inbox/{self.count:02d}.csv", self.count, turned=turned)

    def night(self, turned=False, work=None):
        self.come(turned)
        return refresh(self.plan, work)

    def nights(self, n, turned=lambda _night: False):
        return [self.night(turned(self.count + 1)) for _ in range(n)]

    @property
    def store(self):
        return store_at(self.plan.store)

    @property
    def rows_learnt(self):
        """Rows of each night that counts, by the data sets themselves."""
        return {n: Dataset.open(self.store.data_of(n)).n_rows for n in self.store.past.used}


class Interrupted(Exception):  # noqa: N818 - what it is
    """The end of a refresh, as if it had been killed."""


class EndsBefore(RefreshWork):
    """Ends a refresh before its n-th part, from 0: takings, trainings and evaluations."""

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
