"""What somebody should look at after an ingest: columns and targets that look like others."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.ingestion.target_map import FEW_LABELS
from pipeline.sources.encoded import EncodedSource
from pipeline.sources.source import Source
from storage.manifest import Labels, Values


def notes_on(source: Source, targets: Labels | Values, *, guessed: bool) -> Iterator[str]:
    """Yield sentences; `guessed`: nobody said whether targets are labels."""
    if isinstance(source, EncodedSource):
        yield from source.notes
    if not guessed or not isinstance(targets, Labels) or len(targets.labels) <= FEW_LABELS:
        return
    n = len(targets.labels)
    if isinstance(targets.labels[0], float):
        yield (
            f"The targets are {n} different whole numbers and were taken for labels. "
            "If they are amounts, say `task=regression`."
        )
    elif sum(targets.counts) < 2 * n:
        yield (
            f"The labels are {n} different words, most of them of a single row. "
            "Check `label`, and the delimiter of a CSV file (`delimiter`)."
        )
