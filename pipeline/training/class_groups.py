"""Models in groups, one after the other, where the states of all do not fit into the memory.

    for each group of models, of classes or of values of lam
        train it as if there were no others, in passes of its own
    stack the weights, and the certificates of all

Where a method begins at given weights for nothing, a later lam begins at the weights of the one
before.  How many models go together is the plan's (`planning/job.py`), and so are the bits.  A
snapshot holds the weights of all models that are trained, and the states of the current group.
"""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.runs.saved import GroupDone, Saved, unfit
from fewpass.solvers.multi_model import joint_certificate
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.storage.snapshot import Snapshot


class ModelGroups:
    """The groups of a training: those that are trained, and the current one.

    Parameters
    ----------
    groups
        The models of each, in the order of the tasks: of every lam all classes.
    d
        Columns.
    lams, width
        Values of lam, and scores of a model.

    Attributes
    ----------
    done : tuple
        Certificate and passes of each group that is trained.
    number : int
        Of the current group.
    """

    def __init__(self, groups: list[range], d: int, lams: int, width: int) -> None:
        self._groups, self.number, self._lams, self._width = groups, 0, lams, width
        self.done: tuple[GroupDone, ...] = ()
        rows = groups[-1].stop * width
        self._coef, self._intercept = np.zeros((rows, d)), np.zeros(rows)

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the weights and groups of another session."""
        done, groups = len(saved.groups), len(self._groups)
        if done > groups or (done == groups) != saved.finished:
            raise unfit(snapshot, f"{done} of {groups} groups are trained")
        self.done, self.number = saved.groups, min(done, groups - 1)
        trained = saved.weights if self._lams == 1 else saved.trained
        if not saved.finished and (trained is None or trained.coef.shape != self._coef.shape):
            raise unfit(snapshot, f"its weights are not those of {self._groups[-1].stop} models")
        if not saved.finished and trained is not None:
            self._coef[:], self._intercept[:] = trained.coef, trained.intercept

    @property
    def current(self) -> range:
        """The models of the current group."""
        return self._groups[self.number]

    @property
    def is_over(self) -> bool:
        """Return whether the current group is trained."""
        return len(self.done) > self.number

    @property
    def are_over(self) -> bool:
        """Return whether all groups are trained."""
        return len(self.done) == len(self._groups)

    @property
    def passes_before(self) -> float:
        """Passes made for the groups that are trained."""
        return sum(done.passes for done in self.done)

    def put(self, weights: Weights) -> None:
        """Take the newest weights of the current group."""
        own = self._rows(self.current)
        self._coef[own], self._intercept[own] = weights.coef, weights.intercept

    def end(self, certified: Certificate | None, passes: float) -> None:
        """Count the current group as trained."""
        self.done = (*self.done, GroupDone(certified, passes - self.passes_before))

    def _rows(self, models: range) -> slice:
        return slice(models.start * self._width, models.stop * self._width)

    def before(self) -> Weights | None:
        """Return where the current group may begin: at the weights of the last larger lam.

        None where some of its classes have none yet.
        """
        classes = self._groups[-1].stop // self._lams
        places: list[int] = []
        for model in self.current:
            last = model - classes * -(-(model + 1 - self.current.start) // classes)
            if last < 0:
                return None
            places += range(last * self._width, (last + 1) * self._width)
        return Weights(self._coef[places], self._intercept[places])

    def weights(self) -> Weights:
        """Return the weights of all models."""
        return Weights(self._coef.copy(), self._intercept.copy())

    def certificate(self) -> Certificate | None:
        """Return the certificate of all models; None where that of a group is missing."""
        certificates = [done.certificate for done in self.done]
        each = [own for one in certificates if one for own in one.each]
        return joint_certificate([*each]) if all(certificates) else None
