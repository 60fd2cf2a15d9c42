"""The work pool of `make deploy`.

`prefect work-pool create` would do, but has the server ask the outside which kinds of pools there
are.  What somebody changed on the pool's page stays: that it is paused, its limit, its variables.
A pool of that name and of another type is somebody's own.
"""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.workers.process import ProcessWorker

NAME = "fewpass"
#: Ours is for the terminal.  In the process that Prefect starts for a cancelled or crashed run's
#: hooks, plug-ins fail with a traceback in the worker's log.
WITHOUT_PLUGINS = {"PREFECT_PLUGINS_ENABLED": "false"}


def make_work_pool(client: SyncPrefectClient) -> None:
    """Create the process work pool, or bring the one that is there up to date."""
    ours = WorkPoolFilter(name=WorkPoolFilterName(any_=[NAME]))
    before = next(iter(client.read_work_pools(work_pool_filter=ours)), None)
    if before is None:
        pool = WorkPoolCreate(name=NAME, type=ProcessWorker.type, base_job_template=_template({}))
        client.create_work_pool(pool)
    elif before.type == ProcessWorker.type:
        wanted = WorkPoolUpdate(base_job_template=_template(before.base_job_template))
        client.update_work_pool(NAME, wanted)


def _template(before: dict[str, Any]) -> dict[str, Any]:
    """Return this Prefect's template of a job, with the values that the pool's had, and ours."""
    template = ProcessWorker.get_default_base_job_template()
    variables = template["variables"]["properties"]
    for name, one in before.get("variables", {}).get("properties", {}).items():
        if name in variables and one.get("default") is not None:
            variables[name]["default"] = one["default"]
    variables["env"]["default"] = (variables["env"].get("default") or {}) | WITHOUT_PLUGINS
    return template
