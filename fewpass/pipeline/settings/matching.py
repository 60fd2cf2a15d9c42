"""How columns of new rows are matched with those that a model or a data set knows."""

from __future__ import annotations

from typing import Literal

from fewpass.solvers.described import Described


class Matching(Described):
    """How columns are matched."""

    unknown_features: Literal["refuse", "ignore"] = "refuse"
    """What to do with columns that are not known, by name or, in LIBSVM text, by an index beyond
    the features: refuse them, or leave them out."""
    by_position: bool = False
    """Take columns in the order in which they come, whatever their names [default: by name, where
    both sides have names]."""


BY_NAME = Matching()
