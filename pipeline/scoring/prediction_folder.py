"""Predictions of files, one after the other; what is done is not repeated.

A folder that is written holds a record of what it was made of.  Each file appears whole, and is
put on record after that: a process that is killed between the two makes that file again, to the
same bytes.  A table has its record in its rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.runs.saved import weights_digest
from fewpass.pipeline.scoring.output_table import OutputTable, source_version
from fewpass.pipeline.scoring.scored_file import PredictionProgress, PredictionResult
from fewpass.pipeline.tables.readers.finding import Address, find
from fewpass.storage.addresses import local_path
from fewpass.storage.folder import Folder
from fewpass.storage.locations import Location
from fewpass.storage.seal import seal, unseal
from fewpass.storage.whole_file import remove_abandoned

#: What begins with _ is no data to whoever reads a folder of files.
KEY = "_predictions.json"
_FORMAT = "fewpass-predictions"
_TEXT = (".csv", ".tsv")
_SEVERAL = "several models"
_GLOB = "*?["

TellProgress = Callable[[PredictionProgress], None]
#: Predicts one file into another, or into a table.
PredictFile = Callable[[str, str, TellProgress], PredictionResult]


class _Partition(NamedTuple):
    """A file of the input, and the one that is made of it."""

    spec: str  # its path or address
    made: str  # below the output's folder
    version: list[Any]  # what changes with its content
    size: int
    name: str  # without secrets


def is_folder(output: str) -> bool:
    """Say whether predictions are to be files of a folder, by a slash at its end."""
    return output.endswith("/")


def predict_folder(
    predict_file: PredictFile,
    model: Model,
    inputs: Sequence[str],
    output: str,
    settings: dict[str, Any],
    *,
    overwrite: bool,
    only_new: bool,
    on_progress: TellProgress,
) -> PredictionResult:
    """Predict every file of `inputs` into a file of its own below `output`.

    Parameters
    ----------
    predict_file
        Called with a file, the file to make, and what progress is reported to.
    settings
        What predictions depend on, besides model and rows: those of other settings are no part of
        the same folder.
    overwrite
        Make all files again.
    only_new
        Leave files as they are that another model has predicted.

    Raises
    ------
    BadInput
        The folder holds predictions of another model or of other settings; two files would be made
        of one name; the output is inside the input; a file cannot be predicted, by then all others
        are.
    """
    partitions = _partitions(inputs, output, only_new=only_new)
    folder = Folder(output.rstrip("/"))
    made_by = {"weights": weights_digest(model.weights), "settings": settings}
    done = _done(folder, made_by, overwrite=overwrite, only_new=only_new)
    _remove_partial(folder, {*done, *(part.made for part in partitions)})

    def predict_one(part: _Partition, tell: TellProgress) -> PredictionResult:
        if folder.is_local:
            (Path(folder.url) / part.made).parent.mkdir(parents=True, exist_ok=True)
        result = predict_file(part.spec, folder.address(part.made), tell)
        done[part.made] = {
            "version": part.version,
            "rows": result.rows,
            "columns": result.columns,
            "bytes": folder.size(part.made),
        }
        folder.write(KEY, seal({"format": _FORMAT, "of": made_by, "files": done}, indent=1))
        return result

    results = _each(partitions, lambda part: _is_done(folder, part, done), predict_one, on_progress)
    columns = tuple(done[partitions[-1].made]["columns"]) if partitions else ()
    rows = sum(done[part.made]["rows"] for part in partitions)
    return _summary(results, output, columns, rows, len(partitions))


def predict_new(
    predict_file: PredictFile,
    table: OutputTable,
    inputs: Sequence[str],
    on_progress: TellProgress,
) -> PredictionResult:
    """Predict those files of `inputs` into a table of which it has no rows, as the files are now.

    Each is put there by a transaction of its own.  For errors see `predict_folder`.
    """
    partitions = _partitions(inputs, None, only_new=True)
    scored = table.scored() if partitions else set()
    results = _each(
        partitions,
        lambda part: (part.name, source_version(*part.version)) in scored,
        lambda part, tell: predict_file(part.spec, table.url, tell),
        on_progress,
    )
    rows, columns = sum(one.rows for one in results), results[-1].columns if results else ()
    made = _summary(results, table.shown, columns, rows, len(partitions))
    return made._replace(table=table.name)


def are_there(inputs: Sequence[str]) -> bool:
    """Say whether there are files by now, of inputs that come one by one."""
    return bool(_partitions(inputs, None, only_new=True))


def _each(
    partitions: Sequence[_Partition],
    is_done: Callable[[_Partition], bool],
    predict_one: Callable[[_Partition, TellProgress], PredictionResult],
    on_progress: TellProgress,
) -> list[PredictionResult]:
    """Predict what is not done; BadInput of the first file that cannot be, after all others."""
    whole = sum(part.size for part in partitions) or 1
    results, refused, before, rows = list[PredictionResult](), list[BadInput](), 0, 0

    def tell(now: PredictionProgress) -> None:
        share = (before + now.fraction * part.size) / whole
        on_progress(PredictionProgress(rows + now.rows, share))

    for part in partitions:
        if not is_done(part):
            try:
                results.append(predict_one(part, tell))
            except BadInput as error:
                refused.append(error)
            else:
                rows += results[-1].rows
        before += part.size
        on_progress(PredictionProgress(rows, before / whole))
    if refused:
        others = f" {len(refused) - 1} more are refused;" if len(refused) > 1 else ""
        done = len(partitions) - len(refused)
        raise BadInput(
            f"{refused[0]}{others} {done:,} of {len(partitions):,} files are predicted."
        ) from refused[0]
    return results


def _remove_partial(folder: Folder, made: Iterable[str]) -> None:
    """Remove what a killed call has left of files, those among them that are done by now."""
    names: dict[Path, set[str]] = {}
    for path in (Path(folder.url) / name for name in made if folder.is_local):
        names.setdefault(path.parent, set()).add(path.name)
    for place, own in names.items():
        if place.is_dir():
            remove_abandoned(place, own)


def _summary(
    results: Sequence[PredictionResult],
    output: str,
    columns: tuple[str, ...],
    rows: int,
    n_files: int,
) -> PredictionResult:
    left_out = tuple(dict.fromkeys(name for one in results for name in one.left_out))
    return PredictionResult(
        output, rows, columns, sum(one.seconds for one in results),
        max((one.peak_memory_bytes for one in results), default=0), left_out,
        sum(one.beyond for one in results), n_files, n_files - len(results),
        notes=tuple(dict.fromkeys(note for one in results for note in one.notes)),
    )  # fmt: skip


def _done(
    folder: Folder, made_by: dict[str, Any], *, overwrite: bool, only_new: bool
) -> dict[str, Any]:
    """Return what is on record of files that are done.

    Where another model has made some that stay, the folder is of neither from now on.
    """
    if overwrite or not folder.exists(KEY):
        return {}
    try:
        record = unseal(folder.read(KEY))
        of, files = dict(record["of"]), dict(record["files"])
        wanted = json.loads(json.dumps(made_by))
        if only_new and of["weights"] != wanted["weights"]:
            made_by["weights"], of["weights"] = _SEVERAL, wanted["weights"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder.address(KEY)} is damaged ({error}). Say `overwrite=true` to make all files "
            "again."
        ) from error
    if of != wanted:
        raise BadInput(
            f"{folder.url} holds predictions of another model, or with other settings. Name "
            "another folder, or say `overwrite=true` to make all files again."
        )
    return files


def _is_done(folder: Folder, part: _Partition, done: dict[str, Any]) -> bool:
    """Say whether a file was made of what the input is now, and is there as it was made."""
    record = done.get(part.made)
    if record is None or record["version"] != part.version or not folder.exists(part.made):
        return False
    return bool(folder.size(part.made) == record["bytes"])


def _partitions(inputs: Sequence[str], output: str | None, *, only_new: bool) -> list[_Partition]:
    """Return the files of the inputs, and what is made of each below a folder (None: in a table).

    Of files that come one by one there may be none yet, and empty ones are not written yet.
    """
    partitions: list[_Partition] = []
    for spec in inputs:
        base = _base(spec)
        if output is not None and _reads_below(spec):
            _require_outside(output, base)
        try:
            addresses = find([spec], inbox=only_new)
        except FileNotFoundError:
            if only_new and _is_glob(spec):
                continue
            raise
        if table := next((address for address in addresses if address.format), None):
            raise BadInput(
                f"{table.name} is a table, and its files are no parts to predict one by one. Name "
                "a file as the output, or a table without `only_new`."
            )
        parts = (_partition(address, base) for address in addresses)
        partitions += [part for part in parts if part.size or not only_new]
    names = [part.made if output is not None else part.name for part in partitions]
    double = next((name for name, times in Counter(names).items() if times > 1), None)
    if double is not None:
        raise BadInput(
            f"Two files of the input would become {double}. Predict them into folders of their own."
        )
    return partitions


def _require_outside(output: str, base: str) -> None:
    if Location.of(output.rstrip("/")).is_in(Location.of(base)):
        raise BadInput(
            f"{output} is inside the input {base}, whose files would be read again. Name another "
            "folder."
        )


def _is_glob(spec: str) -> bool:
    return any(mark in spec for mark in _GLOB)


def _base(spec: str) -> str:
    """Return the folder that the names of files are below: of a glob the one before its marks."""
    parts = spec.rstrip("/").split("/")
    marked = [k for k, part in enumerate(parts) if _is_glob(part)]
    here = local_path(spec)
    if marked:
        return "/".join(parts[: marked[0]]) or "."
    return spec if here is None or here.is_dir() else str(here.parent)


def _reads_below(spec: str) -> bool:
    """Say whether files in new folders next to the files of a source would be among these."""
    if _is_glob(spec):
        return "**" in spec
    here = local_path(spec)
    return here is None or here.is_dir()


def _partition(address: Address, base: str) -> _Partition:
    here = local_path(base)
    if address.is_local and here is not None:
        spec, name = address.path, str(Path(address.path).relative_to(here))
    else:
        spec = str(address.store.unstrip_protocol(address.path))
        below = spec.removeprefix(base.rstrip("/"))
        name = below.lstrip("/") if below != spec else PurePosixPath(spec).name
    stem = name[: name.rindex(address.extension)] if address.extension else name
    ending = ".csv" if address.extension in _TEXT else ".parquet"
    version = [address.size, address.file.version if address.file else None]
    size = address.size or 0
    return _Partition(spec, stem + ending, json.loads(json.dumps(version)), size, address.name)
