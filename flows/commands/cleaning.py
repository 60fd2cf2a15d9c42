"""`fewpass store clean`: old generations, old runs of a schedule, old artifacts of Prefect."""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.sizes import format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.pipeline.runs.run_series import Removed


def clean(
    store: str,
    /,
    *,
    keep_generations: Annotated[int | None, whole(1)] = None,
    keep_runs: Annotated[int | None, whole(1)] = None,
    keep_artifacts: Annotated[int | None, whole(1)] = None,
    dry_run: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Remove old generations, runs of a schedule, or artifacts.

    What is in use stays: the published model and the one before it, and what is not finished.
    Records of what was decided stay, too.

    Parameters
    ----------
    store
        Folder or address that refreshes write to; with {date} in it, that of a schedule's runs.
    keep_generations
        Newest nights of the store to keep, of those learnt from.
    keep_runs
        Newest finished runs of the schedule to keep.
    keep_artifacts
        Versions of each artifact to keep. They are on the Prefect server in PREFECT_API_URL.
    dry_run
        Only print what would be removed. Without a number to keep that is the most that could be.
    """
    from fewpass.flows.display.console import Terminal

    if dry_run and keep_generations is keep_runs is keep_artifacts is None:
        keep_generations, keep_runs = (None, 1) if "{date}" in store else (1, None)
    _require_something(store, keep_generations, keep_runs, keep_artifacts)
    removed: list[Removed] = []
    if keep_generations is not None:
        from fewpass.pipeline.models.refresh.old_generations import clean_store

        removed += clean_store(store, keep_generations, dry_run=dry_run)
    if keep_runs is not None:
        from fewpass.pipeline.runs.run_series import remove_old_runs

        removed += remove_old_runs(store, keep_runs, dry_run=dry_run)
    if keep_artifacts is not None:
        from fewpass.flows.orchestration.old_artifacts import remove_old_artifacts

        removed += remove_old_artifacts(keep_artifacts, dry_run=dry_run)
    facts = {
        "store": store,
        "dry_run": dry_run,
        "removed": [one._asdict() for one in removed],
    }
    Terminal(output).result(facts, _table(removed, dry_run=dry_run))
    return 0


def _require_something(
    store: str, generations: int | None, runs: int | None, artifacts: int | None
) -> None:
    if generations is runs is artifacts is None:
        raise UsageError(
            "Nothing was removed: say how much is to stay, with --keep-generations, --keep-runs or "
            "--keep-artifacts."
        )
    if generations is not None and "{date}" in store:
        raise UsageError("--keep-generations is for a store, and {date} for a schedule's runs.")
    if artifacts is not None and not os.environ.get("PREFECT_API_URL"):
        raise UsageError("--keep-artifacts needs a Prefect server. Set PREFECT_API_URL.")


def _table(removed: Sequence[Removed], *, dry_run: bool) -> Table | str:
    from fewpass.flows.display.console import rows_table

    if not removed:
        return "There is nothing to remove."
    rows = [
        {
            "what": one.what,
            "objects": f"{one.objects:,}",
            "size": "-" if one.bytes is None else format_bytes(one.bytes),
            "where": one.address,
        }
        for one in removed
    ]
    return rows_table("Would be removed" if dry_run else "Removed", rows, text=("where",))
