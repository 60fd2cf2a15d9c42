"""Warnings about columns and targets that look like others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.matching import listed, shown_name
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.grades import are_grades
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.targets import label_text, similar_label
from fewpass.pipeline.rows.units import MOST_COLUMNS, advised_scaling, unlike_columns
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.labels_or_amounts import FEW_LABELS
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.table import Table

#: Labels of which there are many: a model each.
MANY_LABELS = 50
#: Columns that a sentence names; float32 holds every whole number below.
_NAMED, _LARGE = 5, float(1 << 24)
_MOMENTS = "mean", "variance"

Vector = NDArray[np.float64]


def notes_on(
    source: Source, targets: Labels | Values, *, guessed: bool, whole: bool = True
) -> Iterator[str]:
    """Yield sentences on columns and targets.

    Parameters
    ----------
    source, targets
        Rows, and what is known of their targets.
    guessed
        Nobody said whether targets are labels.
    whole
        The labels of all rows were counted.
    """
    yield from source.notes
    if isinstance(targets, Labels) and len(targets.labels) <= FEW_LABELS:
        yield from _of_one_row(targets) if whole else ()
        yield from _written_twice(targets)
        yield from _in_order(targets) if guessed and whole else ()
    if not guessed or not isinstance(targets, Labels) or len(targets.labels) <= FEW_LABELS:
        return
    n = len(targets.labels)
    if isinstance(targets.labels[0], float) or _are_whole(targets.labels):
        yield (
            f"The targets are {n} different whole numbers and were taken for labels"
            f"{', a model each' * (n > MANY_LABELS)}. If they are amounts, say `task=regression`."
        )
    elif _are_dates(targets.labels):
        yield (
            f"The labels are {n} different dates, each a class of its own. To predict when, make "
            "them numbers: days since the first one."
        )
    elif sum(targets.counts) < 2 * n:
        yield (
            f"The labels are {n} different words, most of them of a single row. "
            "Check `label`, and the delimiter of a CSV file (`delimiter`)."
        )


def _in_order(targets: Labels) -> Iterator[str]:
    """Yield a sentence where numbers that were taken for labels come as often as grades do."""
    if are_grades(targets):
        yield (
            f"The targets are {len(targets.labels)} whole numbers, {min(targets.labels):g} to "
            f"{max(targets.labels):g}, each taken for a label of its own. If they are grades or "
            "counts, whose order says something, say `task=regression`, and compare the R squared "
            "that `evaluate` says of both."
        )


def _are_whole(labels: Sequence[Any]) -> bool:
    """Return whether words are whole numbers, as they are written: with zeros in front, or long."""
    return all(str(label).lstrip("+-").isdecimal() for label in labels)


def _are_dates(labels: Sequence[Any]) -> bool:
    """Return whether all words are dates."""
    import pyarrow as pa  # noqa: PLC0415 - for many words alone

    from fewpass.pipeline.tables.encoding.inference import infer  # noqa: PLC0415 - as above

    return infer("label", pa.array(labels, pa.large_string())).kind == "date"


def _of_one_row(targets: Labels) -> Iterator[str]:
    """Yield a sentence for labels that a single row has, or none but held-out rows."""
    names = [label_text(label) for label in targets.labels]
    few = [name for name, n in zip(names, targets.counts, strict=True) if n <= 1]
    what_helps = "Correct them if they are slips, or leave these rows out."
    if isinstance(targets.labels[0], float):
        what_helps = "If they are amounts, say `task=regression`."
    if few:
        yield (
            f"{listed(few)}: labels of a single row, or of none but held-out ones, of which next "
            f"to nothing can be learnt. {what_helps}"
        )


def _written_twice(targets: Labels) -> Iterator[str]:
    """Yield a sentence where two labels are one, written in two ways."""
    names = [label_text(label) for label in targets.labels]
    same = (similar_label(name, names[:k]) for k, name in enumerate(names))
    for sentence in [one for one in same if one][:1]:
        yield f"Two labels may be one. {sentence.strip()}"


def note_on_weights(weightless: int) -> Iterator[str]:
    """Yield a sentence on rows of weight 0."""
    if weightless:
        rows = counted(weightless, "row of weight 0 was", "rows of weight 0 were")
        yield f"{rows} left out, as rows that do not count."


def note_on_standardising(asked: str, kind: str) -> Iterator[str]:
    """Yield a sentence where columns were scaled unasked."""
    became = {"standard": "standardised", "rms": "divided by the root of their mean squares"}
    if kind in became and asked == "auto":
        yield (
            f"All columns were {became[kind]}; the model is for rows as they came. Say "
            "`scale=none` to leave them as they are."
        )


def notes_on_scaling(dataset: Dataset, plan: IngestPlan) -> Iterator[str]:
    """Yield what became of columns of very different sizes, or a sentence of what would help."""
    kind = dataset.manifest.scaling.kind
    yield from note_on_standardising(plan.scale, kind)
    encoded = dataset.schema is not None and dataset.schema.encoding is not None
    ratio = None if encoded or kind == "unit-rows" else unlike_columns(dataset)
    if ratio is not None:
        yield (
            f"Columns differ in size by a factor of {ratio:.2g}, and steps of one size learn from "
            f"the largest alone. Ingest with `{advised_scaling(dataset.manifest.layout)}`, or "
            "train with `solver=onepass` or `solver=newton`."
        )


def notes_on_digits(dataset: Dataset, first: Table | None = None) -> Iterator[str]:
    """Yield a sentence on columns of numbers that are next to constant as float32.

    Parameters
    ----------
    first
        The rows to measure columns of; None: the data set has been measured.
    """
    manifest, schema = dataset.manifest, dataset.schema
    encoded = schema is not None and schema.encoding is not None
    if manifest.dtype != "float32" or encoded or manifest.scaling.kind == "unit-rows":
        return
    if manifest.n_features > MOST_COLUMNS:
        return
    if first is None:
        mean, variance = dataset.column("mean"), dataset.column("variance")
    else:
        measured = ColumnStatistics(manifest.layout, manifest.n_features)
        measured.add(first)
        mean, variance = (measured.column(name, manifest.n_features) for name in _MOMENTS)
    lost = np.flatnonzero(_are_next_to_constant(Scaler.of(dataset), mean, variance)).tolist()
    if not lost:
        return
    helps = "store them with `dtype=float64`"
    if dataset.hashed_names:
        helps = "subtract from them what they have in common"
    elif schema is not None and schema.names is not None:
        helps += ", or encode the columns (`encode=always`)"
    titles = ", ".join(_title(dataset, k) for k in lost[:_NAMED])
    yield (
        f"The numbers of {titles}{', ...' * (len(lost) > _NAMED)} are next to constant as float32. "
        f"If they differ in the source, {helps}."
    )


def _are_next_to_constant(scaler: Scaler, mean: Vector, variance: Vector) -> NDArray[np.bool_]:
    """Return which columns (d,) differ by less than two neighbours of float32 that are as large."""
    scale = 1.0 if scaler.scale is None else scaler.scale
    shift = 0.0 if scaler.shift is None else scaler.shift
    size = np.abs(mean / scale + shift)
    step = np.spacing(size.astype(np.float32)).astype(np.float64)
    are_lost: NDArray[np.bool_] = np.sqrt(variance) / scale <= step
    return are_lost & (size >= _LARGE)


def _title(dataset: Dataset, k: int) -> str:
    """Return the name of a column of numbers."""
    own = dataset.schema.feature_names if dataset.schema is not None else None
    name = own[k] if own is not None else dataset.hashed_names.get(k)
    return f"column {k} (counted from 0)" if name is None else shown_name(name)
