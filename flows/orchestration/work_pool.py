"""The work pool of `make deploy`.

`prefect work-pool create` would do, but has the server ask the outside which kinds of pools there
are.
"""

from __future__ import annotations

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.workers.process import ProcessWorker

NAME = "fewpass"
#: Ours is for the terminal.  In the process that Prefect starts for a cancelled or crashed run's
#: hooks, plug-ins fail with a traceback in the worker's log.
WITHOUT_PLUGINS = {"PREFECT_PLUGINS_ENABLED": "false"}


def make_work_pool(client: SyncPrefectClient) -> None:
    """Create the process work pool, or bring the one that is there up to date."""
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["env"]["default"] = WITHOUT_PLUGINS
    pool = WorkPoolCreate(name=NAME, type=ProcessWorker.type, base_job_template=template)
    client.create_work_pool(pool, overwrite=True)
