"""The run that an address names: that of a folder, or the published one of a store."""

from __future__ import annotations

from fewpass.pipeline.runs.run_folder import RunFolder


def run_at(url: str) -> RunFolder:
    """Return the run at an address, or the published run of a store at that address."""
    folder = RunFolder(url)
    if folder.exists():
        return folder
    # With the events of stores, which a run of its own does without.
    from fewpass.pipeline.models.refresh.store_state import published, run_of  # noqa: PLC0415

    current = published(url)
    return RunFolder(run_of(url, current)) if current else folder
