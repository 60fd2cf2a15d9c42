"""`fewpass demo`: the whole job on data made on the spot, explained on the way."""
# ruff: noqa: PLC0415

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.pipeline.sizes import parse_bytes


def demo(
    folder: str = "demo-output",
    /,
    *,
    size: str = "600MB",
    memory: str = "256MB",
    seed: Annotated[int, whole(0)] = 0,
    output: Output = OUTPUT,
) -> int:
    """Go through a whole job on data larger than the memory limit.

    Parameters
    ----------
    folder
        Folder for everything that is made [default: demo-output].
    size
        Size of the text to make and ingest [default: 600MB].
    memory
        Memory limit, such as 256MB; in addition to what the libraries take [default: 256MB].
    seed
        Seed of all randomness [default: 0].
    """
    n_bytes = parse_bytes(size)
    from fewpass.flows.commands.demo_steps import Demo, ending, plan_of_ingest
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.clicks import require_size
    from fewpass.pipeline.memory import peak_memory_bytes

    terminal = Terminal(output)
    began = time.perf_counter()
    job = Demo(terminal, Path(folder), n_bytes, memory, seed)
    require_size(job.size)  # before it takes time, and before an earlier demo is removed
    plan_of_ingest(job.ingest_words(job.columns))
    job.clear()
    made = job.write()
    ingested = job.ingest(made)
    trained = job.train()
    evaluated = job.evaluate()
    page = job.report()
    job.raw_table()
    files = job.files(made)
    facts = {
        "folder": str(job.folder.absolute()),
        "text_bytes": made.bytes,
        "clicked": made.clicks / made.rows,
        "dataset": ingested.dataset,
        "test_dataset": ingested.test_dataset,
        "rows": ingested.rows,
        "test_rows": ingested.test_rows,
        "features": ingested.features,
        "run": trained.run,
        "weights_sha256": trained.weights_sha256,
        "loss": evaluated.loss,
        "error": evaluated.error,
        "auc": evaluated.auc,
        "page": page,
        "files": [*map(str, files)],
        "seconds": time.perf_counter() - began,
        "peak_memory_bytes": peak_memory_bytes(),
    }
    terminal.say()
    terminal.result(facts, ending(job, facts))
    return 0
