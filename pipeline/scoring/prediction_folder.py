"""Predictions of a folder of files, one after the other; what is done is not repeated.

The folder that is written holds a record of what it was made of.  Each file appears whole, and is
put on record after that: a process that is killed between the two makes that file again, to the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.runs.saved import weights_digest
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

#: Predicts one file into another.
PredictFile = Callable[[str, str, Callable[[PredictionProgress], None]], PredictionResult]


class _Partition(NamedTuple):
    """A file of the input, and the one that is made of it."""

    spec: str  # its path or address
    made: str  # below the output's folder
    version: list[Any]  # what changes with its content
    size: int


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
    on_progress: Callable[[PredictionProgress], None],
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

    Raises
    ------
    BadInput
        The folder holds predictions of another model or of other settings; two files would be made
        of one name; the output is inside the input.
    """
    partitions = _partitions(inputs, output)
    folder = Folder(output.rstrip("/"))
    made_by = {"weights": weights_digest(model.weights), "settings": settings}
    done = _done(folder, made_by, overwrite=overwrite)
    _remove_partial(folder, {*done, *(part.made for part in partitions)})
    whole = sum(part.size for part in partitions) or 1
    results, before, rows = list[PredictionResult](), 0, 0
    for part in partitions:
        if not _is_done(folder, part, done):
            results.append(_one(predict_file, folder, part, (rows, before, whole), on_progress))
            done[part.made] = {
                "version": part.version,
                "rows": results[-1].rows,
                "columns": results[-1].columns,
                "bytes": folder.size(part.made),
            }
            folder.write(KEY, seal({"format": _FORMAT, "of": made_by, "files": done}, indent=1))
        before, rows = before + part.size, rows + done[part.made]["rows"]
        on_progress(PredictionProgress(rows, before / whole))
    columns = tuple(done[partitions[-1].made]["columns"])
    return _summary(results, output, columns, rows, len(partitions))


def _remove_partial(folder: Folder, made: Iterable[str]) -> None:
    """Remove what a killed call has left of files, those among them that are done by now."""
    names: dict[Path, set[str]] = {}
    for path in (Path(folder.url) / name for name in made if folder.is_local):
        names.setdefault(path.parent, set()).add(path.name)
    for place, own in names.items():
        if place.is_dir():
            remove_abandoned(place, own)


def _one(
    predict_file: PredictFile,
    folder: Folder,
    part: _Partition,
    so_far: tuple[int, int, int],
    on_progress: Callable[[PredictionProgress], None],
) -> PredictionResult:
    rows, before, whole = so_far

    def tell(now: PredictionProgress) -> None:
        share = (before + now.fraction * part.size) / whole
        on_progress(PredictionProgress(rows + now.rows, share))

    if folder.is_local:
        (Path(folder.url) / part.made).parent.mkdir(parents=True, exist_ok=True)
    return predict_file(part.spec, folder.address(part.made), tell)


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
    )  # fmt: skip


def _done(folder: Folder, made_by: dict[str, Any], *, overwrite: bool) -> dict[str, Any]:
    """Return what is on record of files that are done."""
    if overwrite or not folder.exists(KEY):
        return {}
    try:
        record = unseal(folder.read(KEY))
        same, files = record["of"] == json.loads(json.dumps(made_by)), dict(record["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder.address(KEY)} is damaged ({error}). Say `overwrite=true` to make all files "
            "again."
        ) from error
    if not same:
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


def _partitions(inputs: Sequence[str], output: str) -> list[_Partition]:
    """Return the files of the inputs, and what is made of each."""
    partitions: list[_Partition] = []
    for spec in inputs:
        base = _base(spec)
        if _reads_below(spec) and Location.of(output.rstrip("/")).is_in(Location.of(base)):
            raise BadInput(
                f"{output} is inside the input {base}, whose files would be read again. Name "
                "another folder."
            )
        addresses = find([spec])
        if table := next((address for address in addresses if address.format), None):
            raise BadInput(
                f"{table.name} is a table, and {output} is to be a folder with a file for each of "
                "the input. Name a file (without a slash at its end)."
            )
        partitions += [_partition(address, base) for address in addresses]
    names = [part.made for part in partitions]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise BadInput(
            f"Two files of the input would become {double}. Predict them into folders of their own."
        )
    return partitions


def _base(spec: str) -> str:
    """Return the folder that the names of files are below: of a glob the one before its marks."""
    parts = spec.rstrip("/").split("/")
    marked = [k for k, part in enumerate(parts) if any(mark in part for mark in "*?[")]
    here = local_path(spec)
    if marked:
        return "/".join(parts[: marked[0]]) or "."
    return spec if here is None or here.is_dir() else str(here.parent)


def _reads_below(spec: str) -> bool:
    """Say whether files in new folders next to the files of a source would be among these."""
    if any(mark in spec for mark in "*?["):
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
    return _Partition(spec, stem + ending, json.loads(json.dumps(version)), address.size or 0)
