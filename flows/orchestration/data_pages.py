"""Prefect's pages of an ingest or an append: columns, files, rows left out, notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from fewpass.flows.orchestration.artifacts import show_table, show_text
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.matching import left_out_sentence
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.appending import AppendResult
from fewpass.pipeline.tables.encoding.schema import columns_in_words, recipe_in
from fewpass.pipeline.tables.ingest.progress import FileRows, IngestResult
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

MOST_LINES = 100  # of a table
MOST_NAMED = 10
MISSING = " is missing"  # how such features' names end


def show_rows(result: IngestResult | AppendResult) -> None:
    """Show what became of files and of their columns, and what somebody should look at."""
    data = Dataset.open(result.dataset)
    test = [Dataset.open(result.test_dataset)] if result.test_dataset else []
    columns = column_rows(data, *test)
    if columns and result.files:
        about = f"what became of the columns of {result.dataset}"
        show_table(result.dataset, "columns", _first(columns, "column"), about)
    if result.files:
        about = f"files read into {result.dataset}"
        show_table(result.dataset, "files", _first(file_rows(result.files), "file"), about)
    said = _read(result, data) if isinstance(result, IngestResult) else _appended(result)
    sentences = [*said, *_left_out(result), *result.notes]
    text = "\n".join(f"- {as_markdown(one)}" for one in sentences)
    show_text(result.dataset, "rows", text, f"rows of {result.dataset}")


def column_rows(data: Dataset, *test: Dataset) -> list[dict[str, str]]:
    """Say of every column what became of it, and how many rows lack it; none without names."""
    missing = missing_rows(data)
    for one in test:
        missing.update(missing_rows(one))
    as_written = dict.fromkeys(data.manifest.retained, "kept as written")
    columns = (columns_in_words(data.schema) or {}) | as_written
    return [
        {"column": name}
        | {"missing": counted(missing[name], "row") if name in missing else "-"}
        | {"became": said}
        for name, said in columns.items()
    ]


def missing_rows(data: Dataset) -> Counter[str]:
    """Return how many rows of a data set lack a column, of those that may be missing."""
    recipe = recipe_in(data.schema)
    if recipe is None:
        return Counter()
    nonzero, names = data.column("count"), recipe.outputs
    ends = accumulate(part.width for part in recipe.parts)
    missing = Counter[str]()
    for part, end in zip(recipe.parts, ends, strict=True):
        for k in range(end - part.width, end):
            if names[k] == f"{part.name}{MISSING}":
                missing[part.name] = int(nonzero[k])
    return missing


def file_rows(files: Sequence[FileRows]) -> list[dict[str, str]]:
    """Lay out how many rows came of each file."""
    return [
        {"file": one.file, "rows": f"{one.rows:,}", "skipped": f"{one.skipped:,}"} for one in files
    ]


def _first(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    """Return the first rows of a table, and a line that says how many more there are."""
    more = len(rows) - MOST_LINES
    if more <= 0:
        return rows
    return [*rows[:MOST_LINES], dict.fromkeys(rows[0], "-") | {name: f"{more:,} more"}]


def _read(result: IngestResult, data: Dataset) -> Iterator[str]:
    test = f", {counted(result.test_rows, 'row')} held out in {result.test_dataset}"
    yield (
        f"{counted(result.rows, 'row')} to learn from{test if result.test_dataset else ''}, "
        f"of {counted(result.features, 'feature')}."
    )
    targets = data.manifest.targets
    if not isinstance(targets, Labels):
        deviation = targets.variance**0.5
        yield f"The targets are numbers: mean {targets.mean:.6g}, deviation {deviation:.6g}."
    elif len(targets.labels) <= MOST_NAMED:
        counts = zip(map(label_text, targets.labels), targets.counts, strict=True)
        yield f"Labels: {', '.join(f'{name} {n:,}' for name, n in counts)}."
    else:
        yield f"There are {counted(len(targets.labels), 'label')}."
    if result.beyond:
        features = counted(result.features, "feature")
        yield f"Left out {counted(result.beyond, 'value')} beyond the {features}."
    if result.merged:
        yield f"Added up {counted(result.merged, 'value')} whose index stood in their row before."
    if result.partitioned_again:
        yield f"{result.partitioned_again} All rows were read anew."


def _appended(result: AppendResult) -> Iterator[str]:
    if result.already:
        yield "Nothing was appended: all rows of these files were taken before."
    else:
        yield f"{counted(result.appended, 'row')} appended, there are {result.rows:,} now."
    if result.test_dataset and not result.already:
        rows = counted(result.test_appended, "row")
        yield f"{rows} more held out in {result.test_dataset}, which has {result.test_rows:,}."
    taken = result.taken_before
    if taken:
        more = f" and {len(taken) - MOST_NAMED:,} more" * (len(taken) > MOST_NAMED)
        yield f"Taken before: {', '.join(taken[:MOST_NAMED])}{more}."


def _left_out(result: IngestResult | AppendResult) -> Iterator[str]:
    if result.left_out:
        yield f"{left_out_sentence(result.left_out)}."
    if result.skipped:
        yield f"{counted(result.skipped, 'bad row was', 'bad rows were')} skipped."
        yield from (f"Skipped {one}" for one in result.skipped_rows[:MOST_NAMED])
