"""How a source is to be read: the same words for every format."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Format = Literal["auto", "libsvm", "csv", "parquet", "npy", "npz"]
Column = str | int


class SourceOptions(BaseModel):
    """Settings of a reader.

    Attributes
    ----------
    format
        What the files are; `auto` asks the file name and then the first bytes.
    label
        The column of the targets, by name or by position (from 0; -1 is the last).  Default: in
        CSV and Parquet the only column named label, target, y or class; in NPY the last column.
        LIBSVM and NPZ have a fixed place for it and refuse the setting.
    label_required
        False: rows without a target are read too, their target is NaN.  For predictions.
    weight
        The column of the row weights (>= 0), by name or position.  Default: every row counts once.
    drop
        Columns to leave out, by name or position.
    n_features
        The width of the rows.  Default: as wide as the data.  A wider row is refused.
    zero_based
        LIBSVM indices start at 0 instead of 1.
    on_bad_row
        `refuse` stops at the first bad row, `skip` drops it, counts it and says why.
    missing
        What an empty cell, NA, NaN, null, none or ? among the features is: a bad row or a zero.
        Targets and weights may never be missing.
    dtype
        Of the features in memory.  float32 is the float64 value rounded once more.
    delimiter
        Between CSV cells, one character.  Default: tab for .tsv, else the commonest of , ; | and
        tab in the first line.
    header
        Whether the first CSV line names the columns.  Default: it does when no cell is a number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Format = "auto"
    label: Column | None = None
    label_required: bool = True
    weight: Column | None = None
    drop: tuple[Column, ...] = ()
    n_features: int | None = Field(default=None, ge=1)
    zero_based: bool = False
    on_bad_row: Literal["refuse", "skip"] = "refuse"
    missing: Literal["refuse", "zero"] = "refuse"
    dtype: Literal["float32", "float64"] = "float32"
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    header: bool | None = None
