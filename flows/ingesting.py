"""`fewpass ingest`."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Any

from fewpass.flows.display.bars import work_display
from fewpass.flows.display.console import Terminal, columns_table, facts_table, format_seconds
from fewpass.flows.display.ingest_progress import ingest_display
from fewpass.flows.display.printing import printable
from fewpass.flows.errors import Interrupted
from fewpass.flows.flags import in_flags
from fewpass.flows.options import Ingest, Output, PlanSource, Reading
from fewpass.flows.settings import as_toml, as_values, ingest_settings
from fewpass.pipeline.matching import left_out_sentence
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import format_bytes, parse_bytes
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.tables.ingest.reading import first_look
from fewpass.pipeline.tables.ingest.work_dir import is_partitioned
from fewpass.solvers.kernels.compiling import Compiling
from fewpass.storage.column_copy import copy_folder
from fewpass.storage.column_copy_writer import write_columns
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY as MANIFEST

A_WHILE_S = 2.0  # of compiling, after which people wonder
COMPILING = "Compiling kernels: this is done once on a machine."
LABELS_SHOWN = 10
SKIPPED_SHOWN = 10


def run_ingest(
    sources: Sequence[str],
    dataset: str,
    options: Ingest,
    reading: Reading,
    plan_source: PlanSource,
    output: Output,
) -> int:
    """Ingest as the options say, and report."""
    terminal = Terminal(output)
    plan = ingest_settings(sources, dataset, options, reading, plan_source)
    if plan_source.dry_run:
        found = first_look(plan)
        column = {"column": found.kinds or plan.options.column}
        plan = plan.model_copy(update={"options": plan.options.model_copy(update=column)})
        remarks = "".join(f"# {in_flags(printable(note))}\n" for note in found.notes)
        terminal.result(as_values(plan), remarks + as_toml(plan))
        return 0
    terminal.plan(as_toml(plan))
    result = ingest_shown(terminal, plan)
    show_columns(terminal, result)
    terminal.result(ingest_facts(result), facts_table("Data set", _shown(result)))
    return 0


def run_columns(dataset: str, memory: str, output: Output) -> int:
    """Make a data set's column copy, and report."""
    terminal = Terminal(output)
    began = time.perf_counter()
    opened = Dataset.open(dataset)
    rows = f"{opened.n_rows:,} rows"
    with work_display(terminal, "Column copy") as show:
        size = write_columns(opened, parse_bytes(memory), lambda share: show(share, rows))
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


def ingest_shown(terminal: Terminal, plan: IngestPlan) -> IngestResult:
    """Ingest with a display of how far it is, and tell of skipped rows."""
    try:
        with (
            Compiling(lambda: terminal.say(COMPILING), A_WHILE_S),
            ingest_display(terminal) as show,
        ):
            result = ingest(plan, progress=show)
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted. {_kept(plan)}", signal.SIGINT) from None
    if result.left_out:
        terminal.say(left_out_sentence(result.left_out), style="yellow")
    if result.partitioned_again:
        terminal.say(f"{result.partitioned_again} All rows were read anew.", style="yellow")
    for note in result.notes:
        terminal.say(note, style="yellow")
    for row in result.skipped_rows[:SKIPPED_SHOWN]:
        terminal.say(f"Skipped {row}", style="yellow")
    return result


def _kept(plan: IngestPlan) -> str:
    if Folder(plan.dataset, plan.storage_options).exists(MANIFEST):
        return f"{plan.dataset} is a whole data set; the same command again sees to the rest."
    if is_partitioned(plan):
        return (
            f"The rows of {plan.dataset} are read and lie in buckets; "
            "the same command again goes on with storing them."
        )
    return f"Nothing of {plan.dataset} is kept yet; the same command again begins at the first row."


def show_columns(terminal: Terminal, result: IngestResult) -> None:
    """Tell people what became of every column; in JSON it is among the facts."""
    if result.encoded and not terminal.output.json:
        terminal.result({}, columns_table(dict(result.encoded)))


def ingest_facts(result: IngestResult) -> dict[str, Any]:
    """Return what --json prints."""
    facts = {
        "dataset": result.dataset,
        "rows": result.rows,
        "features": result.features,
        "nnz": result.nnz,
        "labels": result.labels,
        "scale": result.scale,
        "seconds": result.seconds,
        "bytes_in": result.bytes_in,
        "bytes_out": result.bytes_out,
        "peak_memory_bytes": result.peak_memory_bytes,
    }
    if result.test_dataset is not None:
        facts |= {"test_dataset": result.test_dataset, "test_rows": result.test_rows}
    if result.left_out:
        facts["left_out"] = result.left_out
    if result.partitioned_again:
        facts["partitioned_again"] = result.partitioned_again
    if result.encoded:
        facts["encoded"] = dict(result.encoded)
    if result.notes:
        facts["notes"] = result.notes
    if result.skipped:
        facts["skipped"] = result.skipped
    if result.beyond:
        facts["beyond"] = result.beyond
    if result.merged:
        facts["merged"] = result.merged
    return facts


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
        "chunks": f"{result.chunks:,} of {result.chunk_rows:,} rows",
        "size": f"{format_bytes(result.bytes_in)} in, {format_bytes(result.bytes_out)} out",
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }


def _beyond(result: IngestResult) -> str:
    return f"{result.beyond:,} values beyond the {result.features:,} features"


def shown_labels(labels: Sequence[str] | Sequence[float] | None) -> str:
    """Name the first few labels."""
    if labels is None:
        return "none: the targets are numbers"
    names = [label_text(label) for label in labels]
    return ", ".join(names[:LABELS_SHOWN]) + (", ..." if len(names) > LABELS_SHOWN else "")
