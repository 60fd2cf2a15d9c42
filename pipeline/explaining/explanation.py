"""Explanation of the scores of rows: the contribution of every column to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.explaining.contributions import (
    TOGETHER,
    TermWeights,
    Vector,
    contributions_of,
    term_weights,
)
from fewpass.pipeline.explaining.function_terms import function_terms
from fewpass.pipeline.explaining.score_terms import ScoreTerms, terms_of
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import (
    Predictor,
    make_predictor,
    row_of_class,
    typed_labels,
)
from fewpass.storage.table import Table


class Explanation(NamedTuple):
    """Contributions of columns to the scores of n rows: score = base + offset + contributions.

    Attributes
    ----------
    names
        (T,) terms: columns of the source, or two of them with " x " between; of an additive model
        its functions, as `fewpass explain` shows them.
    predicted
        (n,) what is predicted: labels or numbers.
    labels
        (n,) of which label the scores are; None for one score.
    base
        (n,) the mean score of the rows that the model learnt from; of an additive model the
        constant next to its functions.
    offset
        (n,) what the rows themselves add to their score; 0 without offsets.
    contributions
        (n, T) how far each column takes the score from the base.
    """

    names: Sequence[str]
    predicted: NDArray[Any]
    labels: NDArray[Any] | None
    base: Vector
    offset: Vector
    contributions: Vector

    @property
    def score(self) -> Vector:
        """(n,) base + offset + all contributions."""
        score: Vector = self.base + self.offset + self.contributions.sum(axis=1)
        return score


class Explainer(NamedTuple):
    """Explains the scores that a model makes of rows.

    Of an additive model `model` has a feature for every cell of its pairs (function_terms.py).
    """

    model: Model
    terms: ScoreTerms
    at: TermWeights
    predictor: Predictor
    row: int | None  # of which score: that of a class; None: of the label predicted

    @classmethod
    def of(cls, model: Model, label: str | None = None) -> Explainer:
        """Return the explainer of a model.

        Parameters
        ----------
        label
            Explain the scores of one class of several; by default those of the label predicted.

        Raises
        ------
        BadInput
            The model has no such class, or one score, or its rows' mean features are gone.
        """
        functions = function_terms(model)
        if functions is not None:
            model, terms, at = functions
        else:
            terms = terms_of(model)
            at = term_weights(model, terms)
        predictor = make_predictor(model, probability=False, raw=True)
        row = None if label is None else row_of_class(model, label)
        return cls(model, terms, at, predictor, row)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that an explanation of rows has."""
        of = ("label",) * (self.at.base.size > 1)
        offset = ("offset",) * (self.model.record.offsets is not None)
        each = tuple(f"contribution_{name}" for name in self.terms.names)
        return ("predicted", *of, "score", "base", *offset, *each)

    @property
    def rows_at_once(self) -> int:
        """Rows whose contributions are in memory at once."""
        return max(1, TOGETHER // self.at.means.size)

    def with_model(self, model: Model) -> Explainer:
        """Return the same of another model with the same terms."""
        return self._replace(model=model, at=self.at._replace(weights=model.weights))

    def __call__(self, table: Table) -> dict[str, NDArray[Any]]:
        """Return the columns of an explanation of rows as their source has them."""
        why = self.explain(table)
        given = {"label": why.labels, "score": why.score, "base": why.base, "offset": why.offset}
        first = {"predicted": why.predicted} | {
            name: column for name, column in given.items() if column is not None
        }
        each = dict(zip(self.columns[-len(self.terms.names) :], why.contributions.T, strict=True))
        return {name: (first | each)[name] for name in self.columns}

    def explain(self, table: Table) -> Explanation:
        """Explain rows as their source has them; all contributions are in memory at once."""
        each = contributions_of(self.at, self.model, table)
        n = len(each)
        predicted = self.predictor(table)["predicted"]
        offset = np.zeros(n) if table.offset is None else table.offset
        rows, labels = np.zeros(n, np.intp), None
        if self.at.base.size > 1:
            scores = each.sum(axis=2) + self.at.base
            rows = scores.argmax(axis=1) if self.row is None else np.full(n, self.row)
            labels = typed_labels(self.model)[rows]
        chosen = each[np.arange(n), rows]
        return Explanation(self.terms.names, predicted, labels, self.at.base[rows], offset, chosen)
