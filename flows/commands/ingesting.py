"""`fewpass ingest` and `fewpass column-copy`."""
# ruff: noqa: PLC0415

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.flags import in_flags
from fewpass.flows.options import (
    INGEST,
    OUTPUT,
    PLAN_SOURCE,
    WHERE,
    IngestOptions,
    Output,
    PlanSource,
    Where,
)
from fewpass.flows.outcomes import ingest_facts
from fewpass.flows.refusals import Interrupted
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import counted, format_bytes, format_seconds, parse_bytes

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.tables.ingest.progress import IngestResult

HERE = Execution()
A_WHILE_S = 2.0  # of compiling, after which people wonder
COMPILING = "Compiling kernels: once per machine."
LABELS_SHOWN = 10
SKIPPED_SHOWN = 10


def ingest(
    sources: tuple[str, ...],
    dataset: str,
    /,
    *,
    ingest: IngestOptions = INGEST,
    execution: Where = WHERE,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Show an ingest as `fewpass.ingest` makes it."""
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import as_toml, ingest_settings
    from fewpass.pipeline.settings.flat_settings import flat
    from fewpass.pipeline.tables.ingest.reading import first_look

    terminal = Terminal(output)
    plan, place = ingest_settings(sources, dataset, ingest, execution, plan_source)
    if plan_source.dry_run:
        seen = first_look(plan)
        column = {"column": seen.kinds or plan.options.column}
        plan = plan.model_copy(update={"options": plan.options.model_copy(update=column)})
        remarks = "".join(f"# {in_flags(printable(note))}\n" for note in seen.notes)
        terminal.result(flat(plan), remarks + as_toml(plan))
        return 0
    terminal.plan(as_toml(plan))
    result = ingest_shown(terminal, plan, place)
    show_columns(terminal, result)
    terminal.result(ingest_facts(result), facts_table("Data set", _shown(result)))
    return 0


def column_copy(dataset: str, /, *, memory: str = "1GiB", output: Output = OUTPUT) -> int:
    """Store a data set by column as well, for --solver simba.

    The method maps the copy instead of holding rows and columns in memory.  It lies in
    DATASET/by-column, uncompressed, by row and by column.  Killed half-way, it leaves nothing that
    looks complete.

    Parameters
    ----------
    dataset
        Data set made by ingest, on this machine.
    memory
        Memory limit, such as 256MB; in addition to what the libraries take [default: 1GiB].
    """
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.memory import peak_memory_bytes
    from fewpass.pipeline.tables.ingest.phases import copy_by_column
    from fewpass.storage.column_copy import copy_bytes, copy_folder

    terminal = Terminal(output)
    began = time.perf_counter()
    with work_display(terminal, "Column copy") as show:
        opened = copy_by_column(
            dataset, parse_bytes(memory), lambda share, rows: show(share, counted(rows, "row"))
        )
    size = copy_bytes(opened)
    facts = {
        "columns": copy_folder(opened).url,
        "bytes_out": size,
        "seconds": time.perf_counter() - began,
        "peak_memory_bytes": peak_memory_bytes(),
    }
    shown = {
        "at": facts["columns"],
        "size": format_bytes(size),
        "took": f"{format_seconds(float(str(facts['seconds'])))}, at most "
        f"{format_bytes(peak_memory_bytes())} of memory",
    }
    terminal.result(facts, facts_table("Column copy", shown))
    return 0


def ingest_shown(terminal: Terminal, plan: IngestPlan, place: Execution = HERE) -> IngestResult:
    """Ingest with a progress display, and report skipped rows."""
    from fewpass.flows.display.ingest_display import ingest_display
    from fewpass.pipeline.matching import left_out_sentence
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.tables.ingest import phases
    from fewpass.solvers.kernels.compiling import Compiling

    try:
        with (
            Compiling(lambda: terminal.say(COMPILING), A_WHILE_S),
            ingest_display(terminal) as show,
        ):
            result = phases.ingest(plan, progress=show, executor=open_cluster(place))
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted. {_progress_in_words(plan)}", signal.SIGINT) from None
    if result.left_out:
        terminal.say(left_out_sentence(result.left_out), style="yellow")
    if result.partitioned_again:
        terminal.say(f"{result.partitioned_again} All rows were read anew.", style="yellow")
    for note in result.notes:
        terminal.say(note, style="yellow")
    for row in result.skipped_rows[:SKIPPED_SHOWN]:
        terminal.say(f"Skipped {row}", style="yellow")
    return result


def _progress_in_words(plan: IngestPlan) -> str:
    from fewpass.pipeline.tables.ingest.work_dir import has_spans, is_mapped
    from fewpass.storage.folder import Folder
    from fewpass.storage.manifest import KEY

    if Folder(plan.dataset, plan.storage_options).exists(KEY):
        return f"{plan.dataset} is a whole data set; the same command again sees to the rest."
    if is_mapped(plan):
        return (
            f"The rows of {plan.dataset} are read and lie in files; "
            "the same command again goes on with storing them."
        )
    if has_spans(plan):
        return (
            f"Some rows of {plan.dataset} are read and lie in files; "
            "the same command again, on a cluster, reads the others."
        )
    return f"Nothing of {plan.dataset} is kept yet; the same command again begins at the first row."


def show_columns(terminal: Terminal, result: IngestResult) -> None:
    """Print the encoding of every column; in JSON it is among the facts."""
    from fewpass.flows.display.console import columns_table

    if result.encoded and not terminal.output.json:
        rest = f"; fewpass inspect {result.dataset} shows them"
        terminal.result({}, columns_table(dict(result.encoded), rest=rest))


def _shown(result: IngestResult) -> dict[str, Any]:

    density = result.nnz / (result.rows * result.features)
    return {
        "at": result.dataset,
        "rows": result.rows,
        "features": result.features,
        "values": f"{result.nnz:,} ({100 * density:.3g}% of all)",
        "labels": shown_labels(result.labels),
        "scaling": None if result.scale == "none" else result.scale,
        "held-out rows": f"{result.test_rows:,} in {result.test_dataset}"
        if result.test_dataset
        else None,
        "skipped rows": result.skipped or None,
        "double indices": f"{result.merged:,}, added up" if result.merged else None,
        "left out": _beyond(result) if result.beyond else None,
        "chunks": f"{result.chunks:,} of {counted(result.chunk_rows, 'row')}",
        "size": f"{format_bytes(result.bytes_in)} in, {format_bytes(result.bytes_out)} out",
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }


def _beyond(result: IngestResult) -> str:
    return f"{counted(result.beyond, 'value')} beyond the {counted(result.features, 'feature')}"


def shown_labels(labels: Sequence[str] | Sequence[float] | None) -> str:
    """Name the first few labels."""
    from fewpass.pipeline.rows.targets import label_text

    if labels is None:
        return "none: the targets are numbers"
    names = [label_text(label) for label in labels]
    return ", ".join(names[:LABELS_SHOWN]) + (", ..." if len(names) > LABELS_SHOWN else "")
