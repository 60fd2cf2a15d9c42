"""Tables of any library as Arrow: data frames of pandas and polars, and Dask's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct, shown_name
from fewpass.pipeline.tables.encoding.inference import is_readable
from fewpass.pipeline.tables.encoding.plain_types import plain_table, text_in
from fewpass.pipeline.tables.encoding.python_cells import typed_alike
from fewpass.pipeline.tables.readers.arrow_batches import require_valid
from fewpass.pipeline.tables.readers.library_errors import quoted


def without_dropped(table: Any, kinds: dict[str, str]) -> Any:
    """Return a table without the columns to drop; BadInput where kinds name what is not there."""
    unknown = [name for name in kinds if name not in table.column_names]
    if unknown:
        raise BadInput(
            f"X has no column {unknown[0]!r}, which `columns` names. It has "
            f"{', '.join(map(repr, table.column_names[:20]))}."
        )
    return table.drop_columns([name for name, kind in kinds.items() if kind == "drop"])


def as_table(X: Any, names: Sequence[str] | None = None) -> Any:
    """Return rows as an Arrow table of plain columns; BadInput when they are none.

    Parameters
    ----------
    names
        Columns that are wanted, or parts of some; further ones may hold anything [default: all].
    """
    table = plain_table(arrow_of(X, names))
    columns = [text_in(column) for column in table.columns]
    table = pa.table(columns, names=table.column_names) if columns else table
    require_distinct(table.column_names, "X")
    return table


def arrow_of(X: Any, names: Sequence[str] | None = None) -> Any:
    """Return rows as an Arrow table of whatever columns, validated; BadInput when they are none."""
    require_rows(X)
    X = X if names is None else _with_only(X, names)
    if any(hasattr(X, name) for name in ("iloc", "__arrow_c_stream__", "to_arrow")):
        table = _arrow_of_frame(X)
    elif isinstance(X, pa.RecordBatch):
        table = pa.Table.from_batches([X])
    else:
        from sklearn.utils.validation import check_array  # noqa: PLC0415 - services need it not

        array = check_array(X, dtype=None, ensure_all_finite=False)
        names = [f"x{k}" for k in range(array.shape[1])]
        table = pa.table({name: _of_array(name, array[:, k]) for k, name in enumerate(names)})
    require_valid(table, "X")
    return table


def _with_only(X: Any, names: Sequence[str]) -> Any:
    """Return a frame of pandas or Arrow with the columns of these names, or of which they are part.

    Those of polars are all of Arrow's types.
    """
    if not (hasattr(X, "iloc") or isinstance(X, pa.Table | pa.RecordBatch)):
        return X
    wanted = {*names, *(name[:k] for name in names for k, c in enumerate(name) if c == ".")}
    every = X.columns if hasattr(X, "iloc") else X.schema.names
    own = [k for k, name in enumerate(every) if str(name) in wanted]
    return X.iloc[:, own] if hasattr(X, "iloc") else X.select(own)


def _arrow_of_frame(frame: Any) -> Any:
    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "iloc"):
            _require_dense(frame)
            return _of_pandas(frame)
        return frame.to_arrow() if hasattr(frame, "to_arrow") else pa.table(frame)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise _of_no_type("A column", error) from error


def _of_pandas(frame: Any) -> Any:
    for k in [k for k, kind in enumerate(frame.dtypes) if kind.kind == "O"]:
        if len(set(map(type, frame.iloc[:, k].tolist()))) > 1:
            _typed(frame, k)  # or it is refused: Arrow alone makes one of several
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, OverflowError):  # whole numbers of more than 64 bits
        columns = [_of_series(frame, k) for k in range(frame.shape[1])]
        return pa.table(columns, names=[str(name) for name in frame.columns])


def _of_series(frame: Any, k: int) -> Any:
    """Return a column as it is by itself; of Python's own cells where those alone tell its type."""
    with suppress(pa.ArrowException, TypeError, OverflowError):
        return pa.array(frame.iloc[:, k], from_pandas=True)
    return _typed(frame, k)


def _typed(frame: Any, k: int) -> Any:
    return _alike(frame.columns[k], frame.iloc[:, k])


def _of_array(name: str, cells: Any) -> Any:
    """Return a column of an array (n,), whatever NumPy's type."""
    with suppress(pa.ArrowException):
        if cells.dtype.kind != "O":
            return pa.array(cells)
    return _alike(name, cells)


def _alike(name: Any, cells: Any) -> Any:
    try:
        return typed_alike(cells.tolist())
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise _of_no_type(f"Column {shown_name(name)}", error) from error


def _of_no_type(which: str, error: Exception) -> BadInput:
    return BadInput(
        f"{which} of X is of no one type that Arrow has ({quoted(error)}). Make its values alike: "
        "numbers, text or dates."
    )


def _require_dense(frame: Any) -> None:
    """Refuse columns of one name, and sparse ones, which Arrow has not."""
    require_distinct([str(name) for name in frame.columns], "X")
    for name, kind in frame.dtypes.items():
        if hasattr(kind, "sp_index") or type(kind).__name__ == "SparseDtype":
            raise BadInput(
                f"Column {name!r} of X is a sparse one of pandas, which is not encoded. Make it "
                f"dense, X[{name!r}].sparse.to_dense(), or give numbers alone as a sparse matrix."
            )


def require_readable(table: Any) -> None:
    """Refuse columns that become no numbers, by name; BadInput."""
    for field in table.schema:
        if not is_readable(field.type):
            raise BadInput(
                f"Column {field.name!r} holds {field.type} values, which become no numbers. "
                "Leave it out of X, or turn it into numbers, text or dates."
            )


def require_rows(X: Any) -> None:
    """Refuse what is a query, a stream or a single column in place of rows; BadInput."""
    if type(X).__name__ == "LazyFrame":
        raise BadInput(
            "X is a lazy frame of polars, a query and no rows yet. Give X.collect(), or the files "
            "it reads."
        )
    if isinstance(X, pa.RecordBatchReader):
        raise BadInput("X is a stream of Arrow, which is read once only. Give X.read_all().")
    if getattr(X, "ndim", 2) == 1 or isinstance(X, pa.Array | pa.ChunkedArray):
        raise BadInput(
            "X is a single column, and a table was expected. Reshape your data, or give a frame of "
            "it."
        )


def first_rows(frame: Any, count: int) -> tuple[Any, bool]:
    """Return the first rows of a Dask dataframe, whole partitions, and whether these are all."""
    tables, n, parts = [], 0, frame.to_delayed()
    for part in parts:
        tables.append(as_table(part.compute()))
        n += tables[-1].num_rows
        if n >= count:
            break
    try:
        rows = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise BadInput(
            f"The partitions of X have columns of different types ({quoted(error)}). Give every "
            "column one type (astype)."
        ) from error
    return rows, len(tables) == len(parts)
