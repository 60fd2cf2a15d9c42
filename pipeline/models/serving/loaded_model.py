"""A trained model in memory, for services: `fewpass.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.explanation import Explainer, Explanation
from fewpass.pipeline.models.estimators.frames import as_table
from fewpass.pipeline.models.export.model_form import LabelOutput, NumberOutput, form_of
from fewpass.pipeline.models.export.plain_model import PlainModel, of_run
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.models.serving.one_row import absent, cell_in, row_scorer
from fewpass.pipeline.models.serving.single_cells import typed_cells
from fewpass.pipeline.models.serving.single_steps import number_of, shares_of_scores
from fewpass.pipeline.rows.targets import clipped
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.saved import weights_digest
from fewpass.pipeline.tables.encoding.apply_terms import single_reads
from fewpass.pipeline.tables.encoding.applying import columns_of, encode, refuse_bad
from fewpass.pipeline.tables.encoding.cells import read_numbers
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.encoding.terms import Cell
from fewpass.solvers.losses.loss import normalised
from fewpass.storage.folder import Folder
from fewpass.storage.table import DenseTable, SparseTable, Table


class LoadedModel:
    """A trained model, as `fewpass.load` returns it.

    Rows are mappings, lists of them, Arrow tables or frames of pandas or polars; columns are found
    by name.  It is safe in several threads.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns that a row must have.
    classes : tuple or None
        Labels, in the order of probabilities; None: the model predicts numbers.
    version : str
        The first 12 digits of the SHA-256 of the weights: equal where models are.
    run : str
        Address of the run.
    """

    def __init__(self, model: PlainModel, run: str, version: str) -> None:
        self._model, self.run, self.version = model, run, version
        form = form_of(model)
        self.columns: tuple[str, ...] = form.names
        self._reads: dict[str, Cell] = {
            name: read
            for one in reversed(form.columns)
            for name, read in zip(one.columns, single_reads(one.read), strict=True)
        }
        self._outcome = form.output
        self.classes: tuple[Any, ...] | None = None
        if isinstance(self._outcome, LabelOutput):
            self.classes = self._outcome.classes
        self._scores_of = row_scorer(form)
        self._explainers: dict[str | None, Explainer] = {}

    @property
    def health(self) -> dict[str, Any]:
        """Return what a service says of itself: status, version, run, columns, classes."""
        return {
            "status": "ok", "version": self.version, "run": self.run, "loss": self._model.loss,
            "columns": list(self.columns), "classes": self.classes and list(self.classes),
        }  # fmt: skip

    @property
    def has_probabilities(self) -> bool:
        """True if `predict_proba` has an answer."""
        return isinstance(self._outcome, LabelOutput) and self._outcome.probabilities is not None

    def predict_one(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is predicted for one row, in less than a millisecond.

        Parameters
        ----------
        row
            A value for each of `columns`, None where it is missing; other keys are ignored.
            Numbers and dates may be text, as in files.

        Returns
        -------
        dict
            `label`, `score` (of two classes the second one's, else the predicted one's) and, where
            there are, `probabilities` by label; of regressions `prediction`.

        Raises
        ------
        BadInput
            If a column is missing, or holds what it did not hold in training.
        """
        scores = self._scores_of(row).tolist()
        if isinstance(self._outcome, NumberOutput):
            return {"prediction": number_of(scores[0], self._outcome)}
        classes = self._outcome.classes
        best = int(scores[0] > 0.0) if len(scores) == 1 else scores.index(max(scores))
        score = scores[0] if len(scores) == 1 else scores[best]
        answer: dict[str, Any] = {"label": classes[best], "score": score}
        if (how := self._outcome.probabilities) is not None:
            p = shares_of_scores(scores, how)
            answer["probabilities"] = dict(zip(classes, p, strict=True))
        return answer

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """Return the scores of rows: (n,), or (n, K) of K > 2 classes; what `predict` goes by."""
        scores = self._scores(rows)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return labels, or numbers, (n,).

        Parameters
        ----------
        rows
            A list of mappings, an Arrow table, or a frame of pandas or polars.

        Raises
        ------
        BadInput
            If a column is missing, or holds what it did not hold in training.
        """
        scores = self._scores(rows)
        if self.classes is None:
            numbers = np.exp(scores[:, 0]) if self._model.has_response else scores[:, 0]
            return clipped(numbers, self._model.bounds)
        best = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
        labels: NDArray[Any] = np.array(self.classes)[best]
        return labels

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return probabilities (n, K), in the order of `classes`.

        Parameters
        ----------
        rows
            As for `predict`.

        Raises
        ------
        BadInput
            If the model has none, and as `predict` does.
        """
        outcome = self._outcome
        if not isinstance(outcome, LabelOutput) or outcome.probabilities is None:
            raise BadInput(
                "The model has no probabilities: it predicts numbers, or its scores are distances. "
                "Train with `loss=logistic`, or with `held_out` rows and `calibrate=platt`."
            )
        p = outcome.probabilities.probabilities(self.decision_function(rows))
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else normalised(p)

    def explain(self, rows: Any, label: str | None = None) -> Explanation:
        """Return what every column contributes to the scores of rows.

        Parameters
        ----------
        rows
            As for `predict`.
        label
            Explain the scores of one of several classes; by default those of the label predicted.

        Returns
        -------
        Explanation
            names (T,), predicted (n,), base (n,), contributions (n, T) and score (n,), which is
            base + contributions.  The base is the mean score of the rows that the model learnt
            from.

        Raises
        ------
        BadInput
            As `predict` does; there is no such class; or it is not known any more what features
            are on average, as there are very many and the data set is gone.
        """
        if label not in self._explainers:
            model = load_model(run_at(self.run))
            if not weights_digest(model.weights).startswith(self.version):
                raise BadInput(f"{self.run} has another model by now. Load it again.")
            self._explainers[label] = Explainer.of(model, label)
        explainer = self._explainers[label]
        recipe = recipe_in(explainer.model.record.columns)
        return explainer.explain(self._table(rows, recipe))

    def _table(self, rows: Any, recipe: Recipe | None) -> Table:
        """Return the features of rows, as a recipe makes them."""
        cells = self._cells(rows)
        n = len(cells[0])
        nothing = np.full(n, np.nan)
        if recipe is None:
            pairs = zip(self.columns, cells, strict=True)
            return DenseTable(np.column_stack([_numbers(*pair) for pair in pairs]), nothing, None)
        encoded = encode(recipe, cells)
        refuse_bad(recipe, cells, encoded)
        return SparseTable(*encoded.sparse(np.float64), nothing, None)

    def _scores(self, rows: Any) -> NDArray[np.float64]:
        """Return scores (n, K)."""
        table, coef = self._table(rows, self._model.recipe), self._model.coef
        if isinstance(table, DenseTable):
            result: NDArray[np.float64] = table.X @ coef.T + self._model.intercept
            return result
        return _products(table.data, table.indices, table.indptr, coef) + self._model.intercept

    def _cells(self, rows: Any) -> list[Any]:
        """Return the columns of rows as Arrow arrays (n,)."""
        if isinstance(rows, Mapping):
            raise BadInput("Rows are a list of mappings, or a frame. Give one row to predict_one.")
        if isinstance(rows, Sequence):
            return [self._cells_of_rows(rows, name) for name in self.columns]
        table = as_table(rows, self.columns)
        missing = [name for name in self.columns if name not in table.column_names]
        if missing:
            raise absent(missing[0])
        return [*columns_of(table, self.columns)]

    def _cells_of_rows(self, rows: Sequence[Any], name: str) -> Any:
        try:
            cells = [row[name] for row in rows]
        except KeyError:
            cells = [cell_in(row, name) for row in rows]
        return typed_cells(name, self._reads[name], cells)


def _products(data: Any, indices: Any, indptr: Any, coef: Any) -> NDArray[np.float64]:
    """Return the products (n, K) of sparse rows and coef (K, d)."""
    is_empty, products = np.diff(indptr) == 0, np.empty((len(indptr) - 1, len(coef)))
    for k, weights in enumerate(coef):
        each = np.append(data * weights[indices], 0.0)
        products[:, k] = np.where(is_empty, 0.0, np.add.reduceat(each, indptr[:-1]))
    return products


def _numbers(name: str, cells: Any) -> NDArray[np.float64]:
    """Return a column of a model that encodes none; BadInput where a number is missing."""
    numbers = read_numbers(cells).values
    if np.isnan(numbers).any():
        row = int(np.flatnonzero(np.isnan(numbers))[0])
        raise BadInput(f"Column {name!r} is {cells[row]} in row {row}, but a number was expected.")
    return numbers


def load(run: Any) -> LoadedModel:
    """Return a run's newest model, held in memory; of a store the published one.

    Parameters
    ----------
    run
        Folder or address of a run, or of a store in which `prefect run refresh` published a model.

    Raises
    ------
    BadInput
        If there is no model yet, it is for rows scaled to unit length or with offsets, or its
        columns have no names.
    """
    address = Folder(os.fspath(run)).url  # which `explain` reads, in whatever folder then
    plain = of_run(address)
    return LoadedModel(plain, address, plain.version)
