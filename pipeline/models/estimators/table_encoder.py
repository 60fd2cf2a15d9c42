"""Tables with words, dates, gaps and heavy tails, as a transformer of scikit-learn's kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.form_of_table import (
    form_asked,
    formed,
    that_count,
    with_targets,
    without_targets,
)
from fewpass.pipeline.models.estimators.frames import (
    as_table,
    first_rows,
    require_readable,
    without_dropped,
)
from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.meanings import seed_of
from fewpass.pipeline.settings.encoding import HASH_BITS, MOST_BITS, column_kinds
from fewpass.pipeline.tables.additive.noise_columns import NEEDLESS
from fewpass.pipeline.tables.additive.rules import AskedForm, against_curves
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.cells import table_without_nulls
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, as_sample, fitted
from fewpass.pipeline.tables.encoding.ids import ids_in
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.readers.blocks import partitions_of

#: Features of a frame.
MOST_DENSE = 4096
#: Of parameters that are whole numbers: the smallest and the largest.
LIMITS = {
    "bits": (1, MOST_BITS), "bins": (2, 4096), "most_values": (1, 1 << 62),
    "least_rows": (1, 1 << 62), "sample_rows": (1, 1 << 62),
}  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn the columns of a table into a sparse matrix of numbers for a linear model.

    A sample of the rows decides how.  Numbers are clipped to the sample's 0.5 % and 99.5 %
    quantiles and standardised; if their tail is heavy their logarithm stands next to them.  Words
    and booleans get one feature per value, or hashed features if there are many values.  Dates
    become days, weekday, month and hour.  Missing, rare and unseen values have features of their
    own.  Columns that name or count the rows are left out.

    Parameters
    ----------
    bits : int, default=20
        A column with many values is hashed to 2^bits features at most.
    bins : int or None, default=None
        Replace every number by one feature for each of this many ranges between quantiles.
    ranks : bool, default=True
        Add a number's rank, and whether it is the lowest, if that says more than the number.
    most_values : int, default=1000
        A column with more values than this is hashed.
    least_rows : int, default=10
        A value needs this many rows of the sample to get a feature of its own; in a small sample,
        one row in 1000.
    sample_rows : int, default=100_000
        Size of the sample: rows drawn at random, of a Dask frame its first rows.
    random_state : int, RandomState or None, default=None
        Seed of the sample; None is 0.
    columns : dict or None, default=None
        What columns hold, by name, where the sample shall not decide: "drop", "number", "category",
        "hash", "date", "text", "chars", "bins:64" and the other kinds of `--column`.
    additive : bool or "splines", default=False
        Add a curve for every number and functions of some pairs of columns, as far as rows that are
        held out of the sample approve; y chooses.  "splines" adds the curves alone.
    pairs : int, list of "A:B" or None, default=None
        How many pairs to choose, or which.  None is as many as the rows bear.
    knots : int or None, default=None
        Pieces of every curve, rounded up to a power of two.  None is 8 or 32, by the rows.
    pair_bins : int or None, default=None
        Pieces of a number in a pair.  None is 4 or 8, by the rows.

    Attributes
    ----------
    recipe_ : Recipe
        How each column is encoded; `recipe_.model_dump_json()` returns it as JSON.
    left_out_ : dict
        Columns that are ids, and why they were left out.
    n_features_in_ : int
    feature_names_in_ : ndarray (n_features_in_,)
        Where X had names.
    """

    bits: int = HASH_BITS
    bins: int | None = None
    ranks: bool = True
    most_values: int = 1000
    least_rows: int = 10
    sample_rows: int = 100_000
    random_state: Any = None
    columns: Any = None
    additive: bool | str = False
    pairs: Any = None
    knots: int | None = None
    pair_bins: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide how to encode each column.

        Parameters
        ----------
        X : frame of pandas, polars or Arrow, Dask dataframe, or array (n, d)
            A table.  The columns of an array are called x0, x1, ...
        y : array (n,), default=None
            Targets: words, whole numbers of at most 20 values (labels) or numbers.  They choose the
            pairs of an additive model, and are ignored otherwise.

        Raises
        ------
        ValueError
            If there are no rows, or a column cannot be encoded; the message names it.
        """
        return self.fit_for(X, y, "auto")

    def fit_for(
        self, X: Any, y: Any, task: str, weight: Any = None, *, unasked: bool = False,
        plain: bool = False,
    ) -> Self:  # fmt: skip
        """Do the same for targets of a task: "classification", "regression" or "auto".

        Curves and pairs are chosen by rows of these weights (n,); unasked: where the rows are sure;
        plain: where they are better than numbers as they come.
        """
        self._require_numbers()
        kinds = column_kinds(self.columns)
        table, whole = first_rows(X, self.sample_rows) if is_collection(X) else (as_table(X), True)
        if not table.num_rows:
            raise BadInput("The table has 0 rows. Give at least one.")
        used = without_dropped(table, kinds)
        require_readable(used)
        asked = form_asked(self.additive, self.pairs, self.knots, self.pair_bins)
        if unasked and y is not None and asked is None:
            asked = AskedForm(unasked=True)
        if asked is not None and y is not None:
            y = column_or_1d(y)
        used, y, weight = that_count(used, y, weight)
        n_rows = used.num_rows if whole else None
        seed = seed_of(self.random_state)
        if asked is not None:
            asked = asked._replace(plain=plain)
            used = with_targets(used, y, weight, asked)
        sample = table_without_nulls(as_sample(used, self.sample_rows, seed), NULL_VALUES)
        if asked is not None:
            sample, own = without_targets(sample)
        self.left_out_: dict[str, str] = ids_in(sample, kinds, n_rows)
        rules = RecipeRules(
            self.bits, self.bins, self.ranks, self.most_values, self.least_rows, kinds,
            n_rows=n_rows,
        )  # fmt: skip
        sample = sample.drop_columns([*self.left_out_])
        self.recipe_: Recipe = fitted(sample, rules)
        column_types = [one.kind for one in self.recipe_.columns]
        may = not unasked or not against_curves(column_types, n_rows)
        if asked is not None and may:
            asked = asked._replace(wanted=tuple(kinds))
            form = formed(self.recipe_, sample, own, asked, seed, task)
            self.recipe_ = form.recipe
            self.left_out_ |= dict.fromkeys(form.left_out, NEEDLESS)
        self.n_features_in_ = len(table.column_names)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(table.column_names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _require_numbers(self) -> None:
        """Refuse a parameter that is no whole number within its limits."""
        for name, (least, most) in LIMITS.items():
            given = getattr(self, name)
            is_open = given is None and name == "bins"
            if not (is_open or (isinstance(given, int | np.integer) and least <= given <= most)):
                raise ValueError(f"{name} is {given!r}. Give a number from {least} to {most}.")

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """Return the encoder that has a recipe already."""
        made = cls()
        made.recipe_ = recipe
        made.feature_names_in_ = np.asarray([column.name for column in recipe.columns], object)
        made.n_features_in_ = len(recipe.columns)
        return made

    def transform(self, X: Any) -> Any:
        """Return X as a CSR matrix (n, d); for a Dask dataframe, a dask.array of such blocks.

        After `set_output(transform="pandas")`, or polars, it is a frame, of 4,096 features at most.
        Columns are found by name; further columns are ignored.

        Raises
        ------
        ValueError
            If a column is missing, or does not hold what it held in `fit`.
        """
        check_is_fitted(self)
        if is_collection(X):
            return self._lazily(X)
        made = self.features(X)
        return self._dense(made) if self._gives_frames else made

    def features(self, X: Any) -> Any:
        """Return X as a CSR matrix (n, d), whatever `set_output` asks `transform` for."""
        rows = as_table(X, [column.name for column in self.recipe_.columns])
        if not hasattr(X, "columns") and rows.num_columns != self.n_features_in_:
            raise BadInput(
                f"X has {rows.num_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return encoded(self.recipe_, rows)

    @property
    def _gives_frames(self) -> bool:
        """True if `set_output`, or scikit-learn's configuration, asks for frames."""
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return bool((own or get_config()["transform_output"]) != "default")

    def _dense(self, made: Any) -> NDArray[Any]:
        """Return features as an array, which scikit-learn makes a frame; BadInput if too many."""
        if made.shape[1] > MOST_DENSE:
            raise BadInput(
                f"{type(self).__name__} makes {made.shape[1]:,} features, nearly all of them 0, "
                f"and frames are for {MOST_DENSE:,} at most. Leave hashed columns and text out "
                "(columns={name: 'drop'}), or say set_output(transform='default')."
            )
        rows: NDArray[Any] = made.toarray()
        return rows

    def _lazily(self, X: Any) -> Any:
        import dask.array as da  # noqa: PLC0415 - only for those who have collections
        from dask.delayed import delayed  # noqa: PLC0415

        of_part, d = delayed(self.transform), self.recipe_.n_outputs
        meta = sparse.csr_matrix((0, d))
        parts = [da.from_delayed(of_part(p), (np.nan, d), meta=meta) for p in partitions_of(X)]
        return da.concatenate(parts)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the features (d,), such as `city=Rome`."""
        check_is_fitted(self)
        return np.asarray(self.recipe_.outputs, object)
