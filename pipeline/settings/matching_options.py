"""Matching of the columns of new rows with those that a model or a data set knows."""

from __future__ import annotations

from typing import Literal

from fewpass.solvers.described import Described


class Matching(Described):
    """Settings of matching columns."""

    unknown_features: Literal["refuse", "ignore"] = "refuse"
    """What to do with columns of unknown names (in LIBSVM text, with an index beyond the
    features): refuse the source, or ignore them."""
    by_position: bool = False
    """Match columns by position, whatever their names [default: by name, if both sides have
    names]."""


BY_NAME = Matching.usual()
