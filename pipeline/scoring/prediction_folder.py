"""Predictions of files into a folder or a table, file by file; what is done is not repeated.

A folder holds a record of what it was made of (`folder_record`).  A table has it in its rows.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.saved import weights_digest
from fewpass.pipeline.scoring.folder_record import FolderRecord
from fewpass.pipeline.scoring.input_files import input_files
from fewpass.pipeline.scoring.output_table import OutputTable, source_version
from fewpass.pipeline.scoring.predicted_parts import FolderPrediction, PartPredictor, Tell
from fewpass.pipeline.scoring.scored_file import PredictionProgress, PredictionResult
from fewpass.pipeline.tables.readers.source import LISTED
from fewpass.storage.folder import Folder

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster


#: What predictions depend on, besides model, rows and how these are read.
MADE_BY = {"probability", "defuse", "keep", "threshold", "clip"}


def is_folder(output: str) -> bool:
    """Say whether predictions are to be files of a folder, by a slash at its end."""
    return output.endswith("/")


def predict_folder(
    predictor: PartPredictor,
    inputs: Sequence[str],
    output: str,
    *,
    cluster: Cluster,
    on_progress: Tell,
) -> PredictionResult:
    """Predict every file of `inputs` into a file of its own, or one for each span, below `output`.

    Parameters
    ----------
    predictor
        Predicts a part, by a plan: predictions with other settings are no part of the same folder;
        with `only_new` files stay as they are that another model has predicted.
    cluster
        Opened where there is something to predict.

    Raises
    ------
    BadInput
        The folder holds predictions of another model or of other settings; two files would be made
        of one name; the output is inside the input; a file cannot be predicted, by then all others
        are.
    """
    began, plan = time.perf_counter(), predictor.plan
    files = input_files(inputs, output, only_new=plan.only_new)
    settings = plan.model_dump(mode="json", include=MADE_BY) | {
        "reading": plan.options.model_dump(mode="json")
    }
    made_by = {"weights": _model_digest(predictor), "settings": settings}
    folder = Folder(output.rstrip("/"))
    record = FolderRecord(folder, made_by, overwrite=plan.overwrite, only_new=plan.only_new)
    todo = [file for file in files if not record.is_done(file)]
    results, notes = [], []
    if todo:
        with cluster() as executor:
            one = predictor if executor is None else predictor.on(executor)
            prediction = FolderPrediction(one, record, executor, on_progress)
            prediction.run(todo, sum(file.size for file in files))
        _require_all(prediction.refused, len(files))
        results, notes = prediction.results, prediction.notes
    made = [record.files[file.made] for file in files]
    rows, columns = sum(one.rows for one in made), tuple(made[-1].columns) if made else ()
    summary = _summary(results, output, columns, rows, len(files), len(files) - len(todo), notes)
    return summary._replace(seconds=time.perf_counter() - began)


def _model_digest(predictor: PartPredictor) -> str:
    """Return a digest of the model, with its calibration where predictions depend on that."""
    model, plan = predictor.model, predictor.plan
    digest = weights_digest(model.weights)
    if model.calibration is None or not (plan.probability or plan.threshold is not None):
        return digest
    return hashlib.sha256(json.dumps([digest, model.calibration]).encode()).hexdigest()


def predict_new(
    predict_file: Callable[[str, Tell], PredictionResult],
    table: OutputTable,
    inputs: Sequence[str],
    on_progress: Tell,
) -> PredictionResult:
    """Predict those files of `inputs` into a table of which it has no rows, as the files are now.

    Each is put there by a transaction of its own.  For errors see `predict_folder`.

    Parameters
    ----------
    predict_file
        Called with a file, and with what progress is reported to.
    """
    began = time.perf_counter()
    files = input_files(inputs, None, only_new=True)
    scored = table.scored() if files else set()
    whole = sum(file.size for file in files) or 1
    results, refused = list[PredictionResult](), dict[str, BadInput]()
    before, rows = 0, 0

    def tell(now: PredictionProgress) -> None:
        share = (before + now.fraction * file.size) / whole
        on_progress(PredictionProgress(rows + now.rows, share))

    for file in files:
        if (file.name, source_version(*file.version)) not in scored:
            try:
                results.append(predict_file(file.spec, tell))
            except BadInput as error:
                refused[file.spec] = error
            else:
                rows += results[-1].rows
        before += file.size
        on_progress(PredictionProgress(rows, before / whole))
    _require_all(refused, len(files))
    columns = results[-1].columns if results else ()
    notes = [note for one in results for note in one.notes]
    n = len(files)
    made = _summary(results, table.shown, columns, rows, n, n - len(results), notes)
    return made._replace(table=table.name, seconds=time.perf_counter() - began)


def _require_all(refused: dict[str, BadInput], n_files: int) -> None:
    """Raise BadInput of the first file that could not be predicted."""
    if refused:
        first, *more = refused.values()
        others = f" {len(more)} more are refused;" if more else ""
        raise BadInput(
            f"{first}{others} {n_files - len(refused):,} of {n_files:,} files are predicted."
        ) from first


def _summary(
    results: Sequence[PredictionResult],
    output: str,
    columns: tuple[str, ...],
    rows: int,
    n_files: int,
    done_before: int,
    notes: Sequence[str],
) -> PredictionResult:
    left_out = tuple(dict.fromkeys(name for one in results for name in one.left_out))
    peak = max((one.peak_memory_bytes for one in results), default=0)
    return PredictionResult(
        output, rows, columns, 0.0, peak, left_out, sum(one.beyond for one in results), n_files,
        done_before, notes=tuple(dict.fromkeys(notes)), skipped=sum(one.skipped for one in results),
        skipped_rows=tuple(row for one in results for row in one.skipped_rows)[:LISTED],
    )  # fmt: skip
