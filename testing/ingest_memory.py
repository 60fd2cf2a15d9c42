"""The memory that an ingest takes, in a process of its own, which begins with all imports done."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


def measured(small, large, **settings):
    """Ingest a small file, then a large one: its rows or why it is refused, and the bytes it took.

    What libraries and kernels take is counted once the small one, of the same kind, was read.
    """
    with ProcessPoolExecutor(1, mp_context=_PROCESSES) as pool:
        return pool.submit(_measured, small, large, settings).result()


def _measured(small, large, settings):
    _rows(small, settings)
    before = peak_memory_bytes()
    try:
        told = {"rows": _rows(large, settings)}
    except BadInput as error:
        told = {"refused": str(error)}
    return told | {"taken": peak_memory_bytes() - before}


def _rows(source, settings):
    return ingest(IngestPlan(sources=(source,), overwrite=True, **settings)).rows
