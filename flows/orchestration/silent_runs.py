"""Flow runs that a Prefect server believes alive: whether their processes live, and what if not."""

from __future__ import annotations

import socket
from typing import Any

import psutil  # type: ignore[import-untyped]
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

from fewpass.flows.checked_runs import (
    WHEN_STALLED,
    Finding,
    examine_run,
    stalled,
    what_resumes,
)
from fewpass.flows.orchestration.requests import REQUESTS
from fewpass.flows.orchestration.server import answering
from fewpass.pipeline.models.refresh.store_state import runs_in
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.folder import Folder

#: A process that began later than its run by more than this is another one, clocks corrected.
SLACK_S = 60.0
PAGE = 200


def examine_server(*, free: bool) -> list[Finding]:
    """Look at every flow run of ours that the server believes alive; mark the dead crashed."""
    with answering(), get_client(sync_client=True) as client:
        return [_examine(client, run, free=free) for run in _believed_alive(client)]


def _believed_alive(client: SyncPrefectClient) -> list[FlowRun]:
    states = [StateType.RUNNING, StateType.CANCELLING, StateType.PENDING]
    ours = FlowFilter(name=FlowFilterName(any_=list(REQUESTS)))
    alive = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states)))
    runs: list[FlowRun] = []
    while len(runs) % PAGE == 0:  # a server gives no more at once
        page = client.read_flow_runs(
            flow_filter=ours, flow_run_filter=alive, limit=PAGE, offset=len(runs)
        )
        runs += page
        if not page:
            break
    return runs


def _examine(client: SyncPrefectClient, run: FlowRun, *, free: bool) -> Finding:
    what = f"flow run {run.name} ({run.state_name})"
    url = run_folder_of(run)
    folder = Folder(url).url if url else None
    alive, why = process_state(run)
    lease = examine_run(folder, free=False) if folder else None
    if alive is None and lease is not None and lease.alive is False:
        alive, why = False, f"its lease says that {lease.why}"
    resume = what_resumes(RunFolder(folder)) if folder else "the same command begins anew"
    finding = Finding(what, True, why, "flow run", alive, folder=folder)
    if alive is not False:
        stuck = stalled(RunFolder(folder)) if folder and alive else None
        if stuck is None:
            return finding
        return finding._replace(ok=False, why=f"{why}: {stuck}", stalled=True, advice=WHEN_STALLED)
    done: list[str] = []
    if free:
        client.set_flow_run_state(run.id, Crashed(message=f"fewpass check: {why}"), force=True)
        done.append("marked it crashed, which frees its concurrency slot")
        if folder:
            done += examine_run(folder, free=True).done
    return finding._replace(ok=free, done=tuple(done), advice=resume)


def process_state(run: FlowRun) -> tuple[bool | None, str]:
    """Say whether a flow run's process lives; None when that cannot be seen from this machine."""
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if not pid.isdecimal():
        return None, "no process is known for it yet"
    if not host:  # a worker writes no more than that before the flow has begun
        return None, f"its worker started process {pid}, on a machine that it did not name"
    if host != socket.gethostname():
        return None, f"it runs as process {pid} on {host}: run fewpass check there"
    who = f"process {pid} on this machine"
    try:
        process = psutil.Process(int(pid))
        zombie = process.status() == psutil.STATUS_ZOMBIE
        # A run that is tried again has a newer process, and became "Running" after that began.
        latest = run.state.timestamp if run.state else run.start_time
        other = latest is not None and process.create_time() > latest.timestamp() + SLACK_S
    except psutil.NoSuchProcess:
        return False, f"{who} is gone"
    if zombie or other:
        return False, f"{who} is {'dead' if zombie else 'another program now'}"
    return True, f"{who} runs"


def run_folder_of(run: FlowRun) -> str | None:
    """Return the run folder that a flow run trains into, if it is one that trains.

    That of an evaluation or a prediction is somebody else's: it only reads the model there.
    """
    parameters: dict[str, Any] = run.parameters
    plan = parameters.get("plan")
    if not isinstance(plan, dict):
        return None
    if isinstance(parameters.get("run"), str):
        chosen = "{" not in parameters["run"]  # else it died before it chose a folder
        return parameters["run"] if chosen else None
    return next(iter(runs_in(plan["store"])), None) if isinstance(plan.get("store"), str) else None
