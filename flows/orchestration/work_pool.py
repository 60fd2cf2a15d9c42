"""Makes the work pool of `make deploy`: `python -m fewpass.flows.orchestration.work_pool`.

`prefect work-pool create` would do, but has the server ask the outside which kinds of pools there
are.
"""

from __future__ import annotations

import sys

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.workers.process import ProcessWorker

from fewpass.flows.orchestration.server import run_for_make

NAME = "fewpass"
#: Ours is for the terminal.  In the process that Prefect starts for a cancelled or crashed run's
#: hooks, plug-ins fail with a traceback in the worker's log.
WITHOUT_PLUGINS = {"PREFECT_PLUGINS_ENABLED": "false"}


def make_work_pool() -> int:
    """Create the process work pool, or bring the one that is there up to date."""
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["env"]["default"] = WITHOUT_PLUGINS
    pool = WorkPoolCreate(name=NAME, type=ProcessWorker.type, base_job_template=template)
    with get_client(sync_client=True) as client:
        client.create_work_pool(pool, overwrite=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_for_make(make_work_pool))
