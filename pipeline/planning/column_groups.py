"""Features that a penalty charges for together: those that one column of the source became."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.solvers.losses import Problem
from fewpass.solvers.registry import L1
from fewpass.storage.column_schema import Groups


def with_groups(problem: Problem, groups: Groups | None) -> Problem:
    """Return the problem with the groups of the columns (d,), where its penalty has any.

    Raises
    ------
    BadInput
        When no column became several features, or one became too many.
    """
    if problem.penalty.by_column:
        return problem
    if groups is None:
        raise BadInput(
            "The group penalty charges for the features that a column became together, and no "
            "column is known to have become several. Ingest columns of words or dates with "
            f"`encode=always`, or use `penalty={L1}`."
        )
    from fewpass.solvers.batch.working_set import MOST_SET  # noqa: PLC0415 - its kernels

    if (widest := int(np.bincount(groups).max())) > MOST_SET:
        raise BadInput(
            f"A column became {widest:,} features, and the group penalty takes up to "
            f"{MOST_SET:,} together. Have it hashed (`column=NAME=hash`), or use `penalty={L1}`."
        )
    return problem._replace(penalty=problem.penalty.with_groups(groups))
