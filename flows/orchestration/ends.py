"""Ends of a flow run that a signal stops: cancelled, or interrupted and scheduled anew.

An interrupted run of a deployment waits for the next free worker as the same run: with the
parameters that it chose, and no second run whoever else would try it again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import prefect.runtime
from prefect import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import Pause, TerminationSignal
from prefect.states import Cancelled
from prefect.utilities.engine import propose_state_sync

from fewpass.flows.checked_runs import what_resumes
from fewpass.flows.orchestration.watching import was_cancelled
from fewpass.flows.refusals import Interrupted
from fewpass.pipeline.runs.run_folder import RunFolder

STOPPED = (TerminationSignal, KeyboardInterrupt, Interrupted)  # by a signal
INTERRUPTED = "Interrupted"  # the name of the state
CANCELLED = "Cancelled; the same parameters go on with what was made."
DONE = "Cancelled, but it was done by then."
GOES_ON = "Interrupted; the same parameters go on with what is there."
ANEW = "It is scheduled anew: the next free worker goes on by itself."


@contextmanager
def telling_of_snapshots(run: RunFolder) -> Iterator[None]:
    """Have a signal that ends a training say what there is to go on from."""
    try:
        yield
    except (TerminationSignal, KeyboardInterrupt) as stop:
        raise Interrupted(f"Interrupted: {what_resumes(run)}.", _number(stop)) from stop


def cancelled(state: State[Any], what: str) -> State[Any]:
    """Return the end of a run that somebody cancels, with what that person wrote."""
    return Cancelled(message=f"{state.message} ({what})" if state.message else what)


def stopped(by: BaseException) -> State[Any]:
    """Return the state of a run that a signal ended; raises Pause where it goes on by itself."""
    state = was_cancelled()
    if state is not None:
        return cancelled(state, CANCELLED)
    error = by if isinstance(by, Interrupted) else Interrupted(GOES_ON, _number(by))
    if prefect.runtime.deployment.id is not None:
        raise Pause(state=_schedule_anew(f"{error} {ANEW}"))
    # Neither failed nor crashed: Prefect's own retries would begin again in this process.
    return State(type=StateType.CANCELLED, name=INTERRUPTED, message=str(error), data=error)


def _number(stop: BaseException) -> int:
    return int(getattr(stop, "signal", signal.SIGINT))


def _schedule_anew(message: str) -> State[Any]:
    """Hand this flow run back to the workers; the state that it is in then."""
    run = prefect.runtime.flow_run.id
    with get_client(sync_client=True) as client:
        # Else who cancels it before it goes on would wait for a process that is gone.
        nobody = {"infrastructure_pid": None}
        client.request("PATCH", "/flow_runs/{id}", path_params={"id": run}, json=nobody)
        scheduled: State[Any] = State(type=StateType.SCHEDULED, name=INTERRUPTED, message=message)
        return propose_state_sync(client, scheduled, flow_run_id=run)
