"""Tables of words, gaps and dates where an estimator encodes them itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.frames import arrow_of, as_table, require_readable
from fewpass.pipeline.models.estimators.table_encoder import TableEncoder
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.tables.additive.rules import against_curves
from fewpass.pipeline.tables.encoding.cells import is_span
from fewpass.pipeline.tables.encoding.inference import infer, needs_encoding
from fewpass.pipeline.tables.encoding.plain_types import has_fields, plain_type
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.column_schema import Schema

ENCODES = ("none", "auto", "linear", "always", *ADDITIVE)


def require_encode(encode: Any) -> None:
    """Refuse what the parameter `encode` cannot be; ValueError."""
    if encode not in ENCODES:
        raise ValueError(f"encode is {encode!r}. Choose one of {', '.join(ENCODES)}.")


def refuse_collection(encode: Any) -> None:
    """Refuse to choose a recipe for a Dask collection, whose first rows cost a computation."""
    require_encode(encode)
    if encode != "none":
        raise BadInput(
            f"encode={encode!r} is for files and rows in memory, but X is a Dask collection. Put a "
            "TableEncoder before the estimator, or give the files."
        )


def refuse_batch(encode: Any) -> None:
    """Refuse to choose a recipe by a batch, or to go on without that of a fit."""
    require_encode(encode)
    raise BadInput(
        "Columns are encoded by a sample of all rows, and partial_fit sees a batch. Encode the "
        "batches with a TableEncoder that was fitted before, and begin with a new model."
    )


def encoder_of(schema: Schema | None) -> TableEncoder | None:
    """Return what encodes raw rows as those of a data set were; None where they were not."""
    recipe = recipe_in(schema)
    return None if recipe is None else TableEncoder.of(recipe)


def fitted_encoder(
    X: Any, encode: str, columns: Any, y: Any = None, weight: Any = None, *, numbers: bool = False
) -> TableEncoder | None:
    """Return what encodes rows in memory; None where columns are numbers alone, and no curves.

    Of an additive model the targets y (n,) of rows of these weights (n,) choose the pairs;
    `numbers`: they are no labels.
    """
    plain = encode != "always" and not columns and not _is_more_than_numbers(X)
    if plain and (encode == "linear" or (encode == "auto" and not _may_bend(X, y))):
        return None
    additive: Any = {"additive": True, "splines": "splines"}.get(encode, False)
    task = "regression" if numbers else "classification"
    encoder = TableEncoder(columns=columns, additive=additive)
    encoder.fit_for(X, y, task, weight, unasked=encode == "auto", plain=plain)
    return None if plain and encoder.recipe_.leaves_numbers else encoder


def _may_bend(X: Any, y: Any) -> bool:
    """Say whether curves are tried on plain numbers that nobody asked them for."""
    named = y is not None and hasattr(X, "columns")
    return named and not against_curves(["number"] * len(X.columns), len(X))


def refuse_cells(X: Any, because: Exception) -> None:
    """Raise ValueError where cells of X (n, d) are missing or words, and say what takes them."""
    if not hasattr(X, "columns"):
        if str(because).startswith("Input X contains NaN"):  # scikit-learn's words
            raise ValueError(
                "Input X contains NaN: values are missing. Fill them in before (SimpleImputer)."
            ) from because
        return
    names = [name for name, cells in _columns_of(X).items() if not _are_numbers(name, cells)]
    if names := [*dict.fromkeys([*_structured_columns(X), *names])]:
        raise ValueError(
            f"Columns of X hold words, dates or gaps (NaN): {', '.join(map(repr, names[:8]))}. "
            "encode='auto' makes features of them; a TableEncoder before the estimator does, too."
        ) from because


def _are_numbers(name: str, cells: Any) -> bool:
    if pc.any(pc.is_null(cells, nan_is_null=True)).as_py():
        return False
    if pa.types.is_boolean(cells.type):
        return True
    return infer(name, cells).kind == "number" and not is_span(cells.type)


def _is_more_than_numbers(X: Any) -> bool:
    if not hasattr(X, "columns"):
        return False
    if _structured_columns(X):
        return True
    cells = _columns_of(X)
    return any(needs_encoding(infer(name, column), column) for name, column in cells.items())


def _structured_columns(X: Any) -> list[str]:
    """Return the columns that only an encoder knows as numbers: structures, periods, intervals."""
    schema = arrow_of(X).schema
    return [
        field.name
        for field in schema
        if has_fields(plain_type(field.type)) or isinstance(field.type, pa.BaseExtensionType)
    ]


def _columns_of(X: Any) -> dict[str, Any]:
    table = as_table(X)
    require_readable(table)
    return {name: table.column(name).combine_chunks() for name in table.column_names}
