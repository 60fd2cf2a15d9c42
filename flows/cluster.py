"""Reaching a Dask cluster, or saying why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flows.errors import BadPlace
from pipeline.streaming.executor import Execution, Executor, open_executor

_ADDRESS = re.compile(r"\w+://\S+|[^\s/:]+:\d+")


@contextmanager
def cluster(place: Execution) -> Iterator[Executor]:
    """Open the executor that `place` names; BadPlace or ConnectionError when it cannot be."""
    scheduler = place.scheduler
    if scheduler not in (None, "none") and not _ADDRESS.fullmatch(str(scheduler)):
        raise BadPlace(
            f'--scheduler is "{scheduler}", which is no address. Give one like '
            'tcp://10.0.0.5:8786, or "none" to do without Dask.'
        )
    files = (place.tls_ca, place.tls_cert, place.tls_key)
    if any(files) != all(files) or (str(scheduler).startswith("tls://") and not any(files)):
        raise BadPlace(
            "A cluster that talks over TLS takes three files: give --tls-ca, --tls-cert and "
            "--tls-key."
        )
    with ExitStack() as stack:
        try:
            executor = stack.enter_context(open_executor(place))
        except OSError as error:
            if scheduler is None:
                raise
            raise ConnectionError(
                f"No Dask scheduler answers at {scheduler} ({error}). Start one there, or leave "
                "--scheduler out for a cluster in this process."
            ) from error
        yield executor
