"""Makes the work pool of `make deploy`: `python -m fewpass.flows.orchestration.work_pool`.

`prefect work-pool create` would do, but has the server ask the outside which kinds of pools there
are.
"""

from __future__ import annotations

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.workers.process import ProcessWorker

NAME = "fewpass"


def make_work_pool() -> None:
    """Create the process work pool, or bring the one that is there up to date."""
    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(name=NAME, type=ProcessWorker.type, base_job_template=template)
    with get_client(sync_client=True) as client:
        client.create_work_pool(pool, overwrite=True)


if __name__ == "__main__":
    make_work_pool()
