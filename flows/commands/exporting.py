"""`fewpass export`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fewpass.flows.options import OUTPUT, Output

Dialect = Literal["duckdb", "postgres"]


def export(
    run: str,
    out: str,
    /,
    *,
    dialect: Dialect | None = None,
    table: str | None = None,
    words: list[str] | None = None,
    overwrite: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Write a run's model for other programs: ONNX, SQL, JSON, ...

    .onnx (an input for each column of a table, or float64 rows X; label and probabilities, or
    variable, out, as skl2onnx has them), .sql (one SELECT), .json (a document, with a scorer in
    plain Python in the documentation), .mlflow (a folder that mlflow.pyfunc loads), .safetensors
    (coef, intercept and what they mean), .liblinear (labels must be integers) or .skops
    (scikit-learn's own classes).
    The first four hold the encoding of a table's columns.  Scaling is undone: the model takes rows
    as the sources had them.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    out
        File, or folder of .mlflow, to write; its ending says what kind.
    dialect
        SQL dialect of .sql [default: duckdb].
    table
        Table or view whose rows .sql scores [default: input].
    words
        File of words that .sql joins hashed columns by, in place of hashing; may be repeated.
        Words that are in none weigh nothing, and are counted.
    overwrite
        Replace OUT if it exists already; never a source of the model's data set, or what lies in a
        data set or a run.
    """
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.export import export_formats
    from fewpass.pipeline.models.export.plain_model import of_run
    from fewpass.pipeline.sizes import format_bytes

    model = of_run(run)
    if Path(out).suffix == export_formats.OF_MLFLOW:
        from fewpass.flows.spared_imports import allow_frames
        from fewpass.pipeline.models.mlflow_flavour import save_model

        allow_frames()
        export_formats.refuse_sql_options(out, dialect, table, words or ())
        size = save_model(run, out, overwrite=overwrite)
    else:
        size = export_formats.export(
            model, out, overwrite=overwrite, dialect=dialect, table=table, words=words or ()
        )
    features = model.coef.shape[1]
    classes = None if model.classes is None else len(model.classes)
    facts = {
        "output": out, "loss": model.loss, "features": features, "classes": classes, "bytes": size,
    }  # fmt: skip
    shown = {
        "in": out,
        "model": f"loss {model.loss}, lam {model.lam:.6g}",
        "takes": f"{features} features",
        "gives": "numbers" if classes is None else f"one of {classes} labels",
        "size": format_bytes(size),
    }
    Terminal(output).result(facts, facts_table("Exported", shown))
    return 0
