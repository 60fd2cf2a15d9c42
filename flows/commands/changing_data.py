"""`fewpass head`, `append` and `forget`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import (
    OUTPUT,
    READING,
    WHERE,
    Output,
    Reading,
    Where,
    given,
    named,
    whole,
)
from fewpass.flows.refusals import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.pipeline.tables.changing.appending import AppendResult
    from fewpass.pipeline.tables.changing.forgetting import ForgetResult
    from fewpass.pipeline.tables.showing.original_values import ShownColumn

#: Letters of a cell that a terminal shows.
WIDEST = 40


def head(
    dataset: str,
    /,
    *,
    rows: Annotated[int, whole(0)] = 20,
    output: Output = OUTPUT,
) -> int:
    """Show the first rows of a data set: names, values where they are known, label and weight.

    Rows are in stored order, which is random in a shuffled set. Numbers and categories are as they
    came, numbers clipped as they are stored; of other columns the features are shown that they
    became.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    rows
        How many rows [default: 20].
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.tables.showing.dataset_table import DatasetTable

    table = DatasetTable(dataset)
    first = table.head(rows).to_pylist()
    facts = {
        "dataset": table.dataset,
        "rows": table.shape[0],
        "generation": table.generation,
        "columns": [column._asdict() for column in table.columns],
        "head": [{name: _plain(cell) for name, cell in row.items()} for row in first],
    }
    Terminal(output).result(facts, _rows_shown(table.columns, first))
    return 0


def append(
    dataset: str,
    /,
    *sources: Annotated[str, named("SOURCE")],
    again: bool = False,
    memory: str = "1GiB",
    threads: Annotated[int, whole(1)] | None = None,
    reading: Reading = READING,
    output: Output = OUTPUT,
) -> int:
    """Append the rows of files to a data set: a new generation of it, by the same recipe.

    New rows are shuffled among themselves and dealt among the others. Files whose columns, types or
    labels differ are refused. If it is killed, run the same command again to finish; files that
    were appended before are not appended twice.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    sources
        Files, globs or addresses with the columns of the data set.
    again
        Append files that were appended before, in the same state, once more.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB].
    threads
        Threads that parse and compress [default: one per core].
    """
    if not sources:
        raise UsageError("append needs a data set and, behind it, the files to append.")
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.settings.change_plans import AppendPlan
    from fewpass.pipeline.tables.changing.appending import append as appended

    terminal = Terminal(output)
    places = {"dataset": dataset, "sources": sources, "again": again}
    words = given(reading) | places | {"memory": memory, "threads": threads}
    plan = checked(AppendPlan, words)
    with work_display(terminal, "Appending") as show:
        result = appended(plan, progress=show)
    for row in result.skipped_rows[:10]:
        terminal.say(f"Skipped {row}", style="yellow")
    terminal.result(result.model_dump(mode="json"), facts_table("Data set", _appended(result)))
    return 0


def forget(
    dataset: str,
    /,
    *,
    where: str,
    runs: str | None = None,
    retrain: bool = False,
    warm: bool = False,
    memory: str = "1GiB",
    execution: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Delete rows of a data set for good, and name the models that have learnt from them.

    Rows are found by columns that the data set keeps: ingest with --keep COLUMN. Nothing of them is
    left in the data set, nor in its test rows; sources and models are yours to delete. If it is
    killed, run the same command again to finish.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    where
        Which rows: "id in FILE" (a line of FILE for each value), 'city == "north"', 'age < 18',
        joined by and.
    runs
        Folder to look for models in, three deep [default: the one that the data set lies in].
    retrain
        Train these models anew, without the rows, each into a new run next to the old one.
    warm
        Begin at the old weights: faster, and free of the rows as far as the certificate says.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB].
    """
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.retraining import forgotten_everywhere
    from fewpass.pipeline.settings.change_plans import ForgetPlan
    from fewpass.pipeline.settings.execution import Execution

    terminal = Terminal(output)
    if warm and not retrain:
        raise UsageError("--warm says how models are trained anew. Give --retrain, too.")
    place = checked(Execution, given(execution))
    words = {"dataset": dataset, "where": where, "memory": memory, "threads": place.threads}
    plan = checked(ForgetPlan, words)
    with work_display(terminal, "Forgetting") as show:
        result = forgotten_everywhere(
            plan, runs=runs, retrain=retrain, warm=warm, execution=place, progress=show
        )
    if len(result.models) > len(result.retrained):
        terminal.say(
            "These models have learnt from rows that are gone: retrain them (--retrain), and "
            f"delete them where they must go: {', '.join(result.models)}.",
            style="yellow",
        )
    terminal.result(result.model_dump(mode="json"), facts_table("Data set", _forgotten(result)))
    return 0


def _test_rows(result: AppendResult | ForgetResult, changed: str) -> str | None:
    if not result.test_dataset:
        return None
    return f"{result.test_rows:,} in {result.test_dataset}, {changed}"


def _appended(result: AppendResult) -> dict[str, Any]:
    return {
        "at": result.dataset,
        "generation": result.generation,
        "rows": result.rows,
        "appended": "nothing: these files were appended before"
        if result.already
        else result.appended,
        "test rows": _test_rows(result, f"{result.test_appended:,} of them new"),
        "skipped rows": result.skipped or None,
        "columns left out": ", ".join(result.left_out) or None,
        "took": _took(result),
    }


def _forgotten(result: ForgetResult) -> dict[str, Any]:
    return {
        "at": result.dataset,
        "generation": result.generation,
        "rows": result.rows,
        "forgotten": result.forgotten,
        "test rows": _test_rows(result, f"{result.test_forgotten:,} forgotten"),
        "values not found": result.unmatched or None,
        "models": ", ".join(result.models) or None,
        "trained anew": ", ".join(result.retrained) or None,
        "took": _took(result),
    }


def _took(result: AppendResult | ForgetResult) -> str:
    from fewpass.flows.display.console import format_seconds
    from fewpass.pipeline.sizes import format_bytes

    memory = format_bytes(result.peak_memory_bytes)
    return f"{format_seconds(result.seconds)}, at most {memory} of memory"


def _rows_shown(columns: tuple[ShownColumn, ...], rows: list[dict[str, Any]]) -> Table:
    """Lay rows out; features that one column became are together in one, those that are not 0."""
    from fewpass.flows.display.console import titled_table

    table = titled_table()
    groups = _groups(columns)
    for name, members in groups:
        origin = members[0].origin
        said = f"\n({origin})" if origin in ("encoded", "kept") else ""
        table.add_column(f"{printable(name)}{said}", overflow="fold", max_width=WIDEST)
    for row in rows:
        cells = ([(one.name, row[one.name]) for one in members] for _, members in groups)
        table.add_row(*(_cell(own[0][1]) if len(own) == 1 else _features(own) for own in cells))
    return table


def _groups(columns: tuple[ShownColumn, ...]) -> list[tuple[str, list[ShownColumn]]]:
    """Return columns with a title: each of its own, but features of one column together."""
    groups: list[tuple[str, list[ShownColumn]]] = []
    for column in columns:
        last = groups[-1][1] if groups else []
        if column.origin == "encoded" and last and last[-1][1:] == column[1:]:
            last.append(column)
            first = _beginning([one.name for one in last]).strip()
            groups[-1] = (first or last[0].name, last)
        else:
            groups.append((column.name.removesuffix(" (encoded)"), [column]))
    return groups


def _features(named: list[tuple[str, Any]]) -> str:
    prefix = _beginning([name for name, _ in named])
    return _listed((name.removeprefix(prefix) or name, value) for name, value in named if value)


def _beginning(names: list[str]) -> str:
    """Return what all names begin with."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    return "".join(letter for letter, _ in pairs)


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.7g}"
    if isinstance(cell, list):
        return _listed((entry["feature"], entry["value"]) for entry in cell)
    return printable(str(cell))


def _listed(entries: Iterable[tuple[str, float]]) -> str:
    said = " ".join(f"{name}:{value:.4g}" for name, value in entries)
    return printable(said if len(said) <= 3 * WIDEST else f"{said[: 3 * WIDEST]}...")


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it: a number that is none is null."""
    return None if isinstance(cell, float) and cell != cell else cell  # noqa: PLR0124 - NaN
