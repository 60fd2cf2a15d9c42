"""File formats of exported models, by suffix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.hashed_words import hashed_words
from fewpass.pipeline.models.export.model_form import form_of
from fewpass.pipeline.models.export.onnx_graph import onnx_model
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.export.sql_select import NO_WORDS, as_select
from fewpass.pipeline.outputs import OutputFile
from fewpass.solvers.registry import L1, loss_class

SAFETENSORS_FORMAT = 1


def export(
    model: PlainModel,
    path: Any,
    *,
    overwrite: bool = False,
    dialect: str | None = None,
    table: str | None = None,
    words: Sequence[str] = (),
) -> int:
    """Write a model in the format of the path's suffix, atomically; return the number of bytes.

    Parameters
    ----------
    dialect, table
        Of .sql alone: duckdb (default) or postgres, and what the rows to score are in (default:
        input).
    words
        Of .sql alone: files whose words hashed columns are joined by.

    Raises
    ------
    BadInput
        The suffix is unknown, the model does not suit the format, a library is missing, or the
        file must not be replaced: see `fewpass.pipeline.outputs`.
    OSError
        The file cannot be written.
    """
    place = Path(path)
    write = FORMATS.get(place.suffix.lower())
    if place.suffix.lower() == ".sql":
        of = dialect or "duckdb", table or "input"
        write = partial(as_sql, dialect=of[0], table=of[1], files=words)
    else:
        refuse_sql_options(place, dialect, table, words)
    if write is None:
        raise BadInput(
            f"{place}: no format has the suffix {place.suffix!r}. Choose one of "
            f"{', '.join([*FORMATS, '.sql', OF_MLFLOW])}."
        )
    if model.recipe is not None and place.suffix.lower() not in OF_TABLES:
        raise BadInput(
            f"{place}: the model takes the columns of a table, which it encodes, and no such file "
            f"can hold that. Choose one of {', '.join(OF_TABLES)}."
        )
    output = OutputFile(os.fspath(path), overwrite, record=model.record)
    output.require_free()
    content = write(model)
    with output.written() as file:
        file.write(content)
    return len(content)


def refuse_sql_options(
    place: str | Path, dialect: str | None, table: str | None, words: Sequence[str]
) -> None:
    """Refuse what says how SQL is written for another format; BadInput."""
    if dialect or table or words:
        raise BadInput(f"{place}: a dialect, a table and words are for .sql. Leave them out.")


def as_onnx(model: PlainModel) -> bytes:
    """Return a model as ONNX: rows in, labels and probabilities or numbers out, as of skl2onnx."""
    with _needed("onnx"):
        content: bytes = onnx_model(model).SerializeToString()
    return content


def as_safetensors(model: PlainModel) -> bytes:
    """Return the tensors coef (K, d) and intercept (K,), with everything else as JSON metadata."""
    classes = None if model.classes is None else model.classes.tolist()
    metadata = {
        "format": SAFETENSORS_FORMAT, "loss": model.loss, "classes": classes, "lam": model.lam,
        "certificate": model.certificate, "feature_names": model.feature_names,
        "calibration": model.calibration._asdict() if model.calibration else None,
        "clip": model.bounds,
    }  # fmt: skip
    tensors = {"coef": np.ascontiguousarray(model.coef), "intercept": model.intercept}
    with _needed("safetensors"):
        from safetensors.numpy import save  # noqa: PLC0415 - an extra

        content: bytes = save(tensors, {"fewpass": json.dumps(metadata)})
    return content


def as_json(model: PlainModel) -> bytes:
    """Return a model as the document that `docs/exporting.md` describes, with its recipe."""
    return f"{form_of(model).model_dump_json(indent=1)}\n".encode()


def as_sql(model: PlainModel, dialect: str, table: str, files: Sequence[str] = ()) -> bytes:
    """Return a model as one SELECT: see `fewpass.pipeline.models.export.sql_select`.

    The words of its hashed columns are those of some files.
    """
    words = NO_WORDS
    if files and model.recipe is not None and model.record is not None:
        words = hashed_words(model.recipe, model.record, files)
    return as_select(model, dialect, table, words).encode()


def as_liblinear(model: PlainModel) -> bytes:
    """Return a model as LIBLINEAR's text; its first label of two is the positive one.

    Labels must be integers.
    """
    model.require_no_calibration("LIBLINEAR's text")
    model.require_no_offset("LIBLINEAR")
    classes, coef = model.classes, np.column_stack([model.coef, model.intercept])
    loss = loss_class(model.loss)
    solver = (loss.liblinear_l1 if model.penalty == L1 else None) or loss.liblinear
    if solver is None or (loss.takes_numbers and classes is not None):
        of_labels = "" if classes is None else " for labels"
        raise BadInput(
            f"LIBLINEAR has no loss like {model.loss!r}{of_labels}. Choose another format."
        )
    head = [f"solver_type {solver}"]
    if classes is None:
        head.append("nr_class 2")
    elif classes.dtype.kind not in "iu":
        raise BadInput(
            f"LIBLINEAR's labels are integers, but the classes are {list(classes[:8])}. Choose "
            "another format, or train on integers."
        )
    else:
        coef = -coef if len(classes) == 2 else coef
        head += [f"nr_class {len(classes)}", f"label {' '.join(map(str, classes.tolist()))}"]
    head += [f"nr_feature {model.coef.shape[1]}", "bias 1", "w"]
    rows = [" ".join(f"{number:.17g}" for number in row) + " " for row in coef.T.tolist()]
    return ("\n".join([*head, *rows]) + "\n").encode("ascii")


def as_skops(model: PlainModel) -> bytes:
    """Return a scikit-learn model in skops' format, without untrusted types."""
    if model.has_response:
        raise BadInput(
            f"skops trusts no type of the {model.loss} loss. Choose .onnx or .safetensors, or "
            "`to_sklearn`."
        )
    with _needed("skops"):
        from skops.io import dumps  # noqa: PLC0415 - an extra

        content: bytes = dumps(to_sklearn(model))
    return content


FORMATS: dict[str, Callable[[PlainModel], bytes]] = {
    ".onnx": as_onnx,
    ".json": as_json,
    ".safetensors": as_safetensors,
    ".liblinear": as_liblinear,
    ".skops": as_skops,
}

#: Formats that hold the encoding of a table's columns, too.
OF_TABLES = (".onnx", ".json", ".sql")

#: What the name of a folder ends in that `fewpass.mlflow.save_model` writes.
OF_MLFLOW = ".mlflow"


@contextmanager
def _needed(library: str) -> Iterator[None]:
    """Raise BadInput with the extra to install if a library is missing."""
    try:
        yield
    except ImportError as error:
        raise BadInput(
            f"The library {library} is not installed. Install fewpass[export]."
        ) from error


def to_sklearn(model: PlainModel) -> Any:
    """Return a scikit-learn model with the same predictions; numbers are not clipped."""
    from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    model = model.ascending()
    model.require_no_calibration("scikit-learn's LinearSVC or LogisticRegression")
    model.require_no_offset("scikit-learn's predict")
    if model.has_response:
        return _of_response(model)
    if model.classes is None:
        made: Any = LinearRegression()
        made.coef_, made.intercept_ = model.coef[0], float(model.intercept[0])
        return _named(made, model)
    if model.has_link and len(model.classes) > 2 and not model.is_multinomial:
        return _one_versus_rest(model)
    made = LogisticRegression() if model.has_link else LinearSVC()
    made.coef_, made.intercept_, made.classes_ = model.coef, model.intercept, model.classes
    made.n_iter_ = np.array([1], np.int32)
    return _named(made, model)


def _of_response(model: PlainModel) -> Any:
    """Return one of the generalised linear models with a log link."""
    from sklearn.linear_model import GammaRegressor, PoissonRegressor  # noqa: PLC0415

    has_zeros = loss_class(model.loss).least_target == 0.0
    made: Any = PoissonRegressor() if has_zeros else GammaRegressor()
    made.coef_, made.intercept_ = model.coef[0], float(model.intercept[0])
    made._base_loss, made.n_iter_ = made._get_loss(), 1  # noqa: SLF001 - which `predict` asks
    return _named(made, model)


def _one_versus_rest(model: PlainModel) -> Any:
    """Return a one-versus-rest model, with probabilities divided by their sum."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.multiclass import OneVsRestClassifier  # noqa: PLC0415
    from sklearn.preprocessing import LabelBinarizer  # noqa: PLC0415

    made: Any = OneVsRestClassifier(LogisticRegression())
    made.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(model.classes)
    made.classes_, made.estimators_ = model.classes, []
    for coef, intercept in zip(model.coef, model.intercept, strict=True):
        one: Any = LogisticRegression()
        one.coef_, one.intercept_ = coef[None], np.array([intercept])
        one.classes_, one.n_iter_ = np.array([0, 1]), np.array([1], np.int32)
        made.estimators_.append(_named(one, model))
    return _named(made, model)


def _named(made: Any, model: PlainModel) -> Any:
    made.n_features_in_ = model.coef.shape[1]
    if model.feature_names is not None:
        made.feature_names_in_ = np.asarray(model.feature_names, object)
    return made
