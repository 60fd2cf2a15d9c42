"""Classes in groups, one after the other, where the states of all do not fit into the memory.

    for each group of classes
        train it as if there were no others, in passes of its own
    stack the weights, and the certificates of all classes

How many classes go together is the plan's (`planning/job.py`), and so are the
bits.  A snapshot holds the weights of all classes that are trained, and the states of the current
group.
"""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.runs.saved import GroupDone, Saved, unfit
from fewpass.solvers.multi_model import jointly
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.storage.snapshot import Snapshot


class ClassGroups:
    """The groups of a training: those that are trained, and the current one.

    Attributes
    ----------
    done : tuple
        Certificate and passes of each group that is trained.
    number : int
        Of the current group.
    """

    def __init__(self, groups: list[range], d: int) -> None:
        self._groups, self.number = groups, 0
        self.done: tuple[GroupDone, ...] = ()
        self._coef, self._intercept = np.zeros((groups[-1].stop, d)), np.zeros(groups[-1].stop)

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the weights and groups of another session."""
        done, groups = len(saved.groups), len(self._groups)
        if done > groups or (done == groups) != saved.finished:
            raise unfit(snapshot, f"{done} of {groups} groups are trained")
        self.done, self.number = saved.groups, min(done, groups - 1)
        self._coef[:], self._intercept[:] = saved.weights.coef, saved.weights.intercept

    @property
    def current(self) -> range:
        """The classes of the current group."""
        return self._groups[self.number]

    @property
    def is_over(self) -> bool:
        """Whether the current group is trained."""
        return len(self.done) > self.number

    @property
    def are_over(self) -> bool:
        """Whether all groups are trained."""
        return len(self.done) == len(self._groups)

    @property
    def passes_before(self) -> float:
        """Passes made for the groups that are trained."""
        return sum(done.passes for done in self.done)

    def put(self, weights: Weights) -> None:
        """Take the newest weights of the current group."""
        own = self.current
        self._coef[own.start : own.stop] = weights.coef
        self._intercept[own.start : own.stop] = weights.intercept

    def end(self, certified: Certificate | None, passes: float) -> None:
        """Count the current group as trained."""
        self.done = (*self.done, GroupDone(certified, passes - self.passes_before))

    def weights(self) -> Weights:
        """Return the weights of all classes."""
        return Weights(self._coef.copy(), self._intercept.copy())

    def certificate(self) -> Certificate | None:
        """Return the certificate of all classes; None where that of a group is missing."""
        certificates = [done.certificate for done in self.done]
        each = [own for one in certificates if one for own in one.each]
        return jointly([*each]) if all(certificates) else None
