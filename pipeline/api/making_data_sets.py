"""Data sets, made of files and changed."""
# ruff: noqa: PLC0415 - what a function needs is imported when it is called

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, addresses, require_execution
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.ingest_plan import IngestPlan

if TYPE_CHECKING:
    from fewpass.pipeline.tables.changing.appending import AppendResult
    from fewpass.pipeline.tables.changing.forgetting import ForgetResult
    from fewpass.pipeline.tables.ingest.progress import IngestResult


def ingest(
    sources: Address | Sequence[Address],
    dataset: Address,
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> IngestResult:
    """Read files into a data set: rows in random order, checksummed.

    Threads, or a Dask cluster's workers, read the sources and write the data set within a memory
    limit. What was killed is finished by the same call again; a data set that it has made before is
    left alone.

    Parameters
    ----------
    sources
        File, folder, glob or address, or several: CSV, Parquet, JSON lines, Arrow, LIBSVM, Vowpal
        Wabbit, NPY or NPZ, plain or compressed.
    dataset
        Folder or address of the data set to make.
    execution
        Where it runs: by default on threads of this process; with a scheduler or workers each of
        these reads spans of the sources and writes chunks, in `memory` bytes.
    **settings
        Fields of `IngestPlan` (test_fraction, scale, memory, ...) and of `SourceOptions` (label,
        weight, drop, missing, ...).

    Returns
    -------
    IngestResult
        dataset, rows, features, labels, test_dataset, test_rows, encoded (what became of each
        column), notes, seconds, ...: what `fewpass ingest --json` prints.

    Raises
    ------
    BadInput
        Settings or rows that cannot be used.  A ValueError.
    FileNotFoundError, PermissionError, OSError
        A source that does not exist, a target that cannot be written, a full disk.
    """
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.tables.ingest import phases

    places = {"sources": addresses(sources), "dataset": os.fspath(dataset)}
    require_execution(execution)
    plan = execution.threads_for(plan_of(IngestPlan, settings | places))
    return phases.ingest(plan, executor=open_cluster(execution))


def append(
    dataset: Address,
    sources: Address | Sequence[Address],
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> AppendResult:
    """Append the rows of files to a data set, by its recipe.

    It becomes a new generation of itself. New rows are shuffled among themselves and dealt among
    the others. Files whose columns, types or labels differ are refused. What was killed is finished
    by the same call again. No file is taken twice, whatever it is called; one that has grown is
    refused. Of a table of Delta Lake or Iceberg come the rows that are new.

    Parameters
    ----------
    dataset
        Data set made by `ingest`.
    sources
        File, folder, glob or address, or several, with the columns of the data set.
    execution
        Where it runs: by default on threads of this process; with a scheduler or workers each of
        these reads spans of the sources and writes chunks, in `memory` bytes.
    **settings
        Fields of `AppendPlan` (memory, threads, again, storage_options) and of `SourceOptions`.

    Returns
    -------
    AppendResult
        dataset, generation, rows, appended, test_dataset, test_rows, test_appended, already,
        parent, fingerprint, ...: what `fewpass append --json` prints.

    Raises
    ------
    BadInput
        Files with other columns, types or labels; bad rows.  A ValueError.
    NotADataset, FileNotFoundError, PermissionError, OSError
        No data set, no file, a folder that cannot be written, a full disk.
    """
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.tables.changing import appending

    places = {"sources": addresses(sources), "dataset": os.fspath(dataset)}
    require_execution(execution)
    plan = execution.threads_for(plan_of(AppendPlan, settings | places))
    return appending.append(plan, executor=open_cluster(execution))


def forget(
    dataset: Address,
    where: str,
    *,
    runs: Address | None = None,
    retrain: bool = False,
    warm: bool = False,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> ForgetResult:
    """Delete rows of a data set for good; name the models to retrain.

    Rows are found by columns that the data set keeps (`keep` of its ingest). Nothing of them is
    left in the data set, nor in its test rows; sources and models are yours to delete. What was
    killed is finished by the same call again, with `allow_none`. Of a store that refreshes write,
    the rows of all generations are deleted.

    Parameters
    ----------
    dataset
        Data set made by `ingest`, or a store.
    where
        Which rows, by kept columns: "id in FILE" (a line of the file for each value), "id in (1,
        2)", 'city == "north" and age < 18'.  docs/data-sets.md has the grammar.
    runs
        Folder to look for models in, three deep [default: the one that the data set lies in].
    retrain
        Train these models anew. Each becomes a new run next to the old one; of a store, those that
        the published one comes of, and the last becomes a generation, published.
    warm
        Begin at the old weights. That is faster, and free of the rows as far as the certificate
        says.
    execution
        Where it runs: threads of this process, or Dask.
    **settings
        Fields of `ForgetPlan`: dry_run (only look), allow_none, memory, threads, storage_options.

    Returns
    -------
    ForgetResult
        dataset, generation, rows, forgotten, test_dataset, test_rows, test_forgotten, unmatched,
        examples (kept cells of five rows, of a dry run), models, chosen, published, retrained,
        notes, fingerprint, ...: what `fewpass forget --json` prints.

    Raises
    ------
    BadInput
        A condition that cannot be read, on a column that is not kept, or of numbers on text; one
        that no row meets, without `allow_none`; no row would be left.  A ValueError.
    NotADataset, FileNotFoundError, PermissionError, OSError
        No data set, no list of values, a folder that cannot be written, a full disk.
    """
    from fewpass.pipeline.models import forgotten_rows

    require_execution(execution)
    plan = plan_of(ForgetPlan, settings | {"dataset": os.fspath(dataset), "where": where})
    place = None if runs is None else os.fspath(runs)
    return forgotten_rows.forgotten_everywhere(
        execution.threads_for(plan), runs=place, retrain=retrain, warm=warm, execution=execution
    )
