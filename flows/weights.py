"""`fewpass weights`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table

from fewpass.flows.display.console import Terminal
from fewpass.flows.display.printing import printable
from fewpass.flows.errors import UsageError
from fewpass.flows.options import Output
from fewpass.pipeline.models.refresh.publications import run_at
from fewpass.pipeline.reporting.largest_weights import (
    NO_NAMES,
    NamedWeight,
    classes_of,
    largest_weights,
)
from fewpass.pipeline.runs.model import Model, load_model


def run_weights(
    run: str, top: int, label: str | None, as_csv: bool, names: str | None, output: Output
) -> int:
    """Tell the largest weights of a run's newest model: of each class, or of one."""
    terminal = Terminal(output)
    model = load_model(run_at(run))
    labels = (label,) if label is not None else classes_of(model) or (None,)
    known = _names(model, names)
    found = [(of, weight) for of in labels for weight in largest_weights(model, top, of, known)]
    facts = {
        "run": model.run.url,
        "intercept": np.asarray(model.weights.intercept).tolist(),
        "weights": [{"label": of} | weight._asdict() for of, weight in found],
    }
    shown = _as_csv(found) if as_csv else weights_table(found)
    terminal.result(facts, shown)
    return 0


def _names(model: Model, source: str | None) -> Mapping[int, str]:
    """Return names of hashed columns by more of the text than the model remembers."""
    if source is None:
        return NO_NAMES
    if model.record.columns is not None:
        raise UsageError("--names is for Vowpal Wabbit text, but this model knows its columns.")
    from fewpass.pipeline.tables.readers.vw_names import names_in  # noqa: PLC0415 - Arrow, for this alone

    return names_in(source, model.record.n_features)


def weights_table(found: Sequence[tuple[str | None, NamedWeight]]) -> Table:
    """Lay weights out, one below the other, each with its class where there are several."""
    table = Table(title="Largest weights", title_justify="left", title_style="bold", box=None)
    several = any(of is not None for of, _ in found)
    for name in ["class"] * several + ["feature"]:
        table.add_column(name, style="cyan", overflow="fold")
    table.add_column("weight", justify="right")
    units = any(weight.per_unit not in (None, weight.weight) for _, weight in found)
    if units:
        table.add_column("per unit of the source", justify="right")
    for of, weight in found:
        per_unit = "" if weight.per_unit is None else f"{weight.per_unit:.6g}"
        cells = [printable(weight.feature), f"{weight.weight:+.6g}", *([per_unit] * units)]
        table.add_row(*([printable(of or "")] * several), *cells)
    return table


def _as_csv(found: Sequence[tuple[str | None, NamedWeight]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("class", "feature", "weight", "per_unit"))
    for of, weight in found:
        writer.writerow((of or "", *weight))
    return text.getvalue().rstrip("\n")
