"""The start of every flow, and the rule by which tasks are tried again."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import prefect.runtime
from prefect import Flow, Task, flow, get_client, task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger
from prefect.states import Failed

from fewpass.flows.display.log_lines import wants_json
from fewpass.flows.display.printing import log_printable, printable_errors
from fewpass.flows.orchestration.artifacts import last_word
from fewpass.flows.orchestration.ends import DONE, STOPPED, cancelled, stopped
from fewpass.flows.orchestration.parameters import require_no_secrets_in, validated
from fewpass.flows.orchestration.requests import (
    Request,
    docstring_of,
    flow_name,
    signature_of,
)
from fewpass.flows.orchestration.run_logs import (
    ENGINE_LOGGERS,
    IN_STATES,
    log_in_json,
    quiet_dask,
)
from fewpass.flows.orchestration.scheduled_dates import named
from fewpass.flows.orchestration.watching import CancelWatch, was_cancelled
from fewpass.flows.refusals import BAD_REQUEST, FAILED, ToleranceMissed, exit_status, sentence
from fewpass.pipeline.errors import NoRowMeant
from fewpass.storage.folder import Damaged

P = ParamSpec("P")
R = TypeVar("R")

#: Names of states, in addition to Prefect's own.
REFUSED, MISSED, UNCHANGED = "Refused", "ToleranceMissed", "Unchanged"
KEPT_BACK, WAITS = "KeptBack", "Waits"

RETRIES = 3
DELAYS_S = [2.0, 10.0, 30.0]  # a Dask scheduler or a store that is restarted needs some seconds


def worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """Say whether what failed may go well the next time: a lost connection may, bad data not."""
    error = state.result(raise_on_failure=False)
    return (
        isinstance(error, Exception)
        and not isinstance(error, ArithmeticError | Damaged | NoRowMeant)
        and exit_status(error) == FAILED
    )


def durable_task(name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a Prefect task whose truth lies in a folder: retried where that can help, not cached."""
    made: Callable[[Callable[P, R]], Task[P, R]] = task(
        name=name,
        task_run_name=name,
        retries=RETRIES,
        retry_delay_seconds=DELAYS_S,
        retry_condition_fn=worth_retrying,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    return lambda function: made(printable_errors(function))


def is_tried_again() -> bool:
    """Return whether the task or its flow run began before: what it is to do may be done."""
    counts = prefect.runtime.task_run.run_count, prefect.runtime.flow_run.run_count
    return any((count or 1) > 1 for count in counts)


def made_flow(request: Request, names_it: str) -> Callable[[Callable[..., Any]], Flow[..., Any]]:
    """Make a Prefect flow of a function; parameters, defaults and words are the request's.

    Parameters
    ----------
    request
        One of `fewpass.flows.orchestration.requests`.
    names_it
        Path of the parameter that its runs are named by, such as `plan.store`.
    """
    what = flow_name(request)
    make = flow(name=what, flow_run_name=named(what, names_it), validate_parameters=False)
    return lambda function: make(reported_by_state(function, request))


def reported_by_state(function: Callable[..., Any], request: Request) -> Callable[..., Any]:
    """Have a flow run that asks for what cannot be end as Refused, not with a traceback.

    That is also said of parameters: Prefect itself would let the run fail on them, with pydantic's
    own words.

    One that is cancelled ends as Cancelled, one that a signal ended as Interrupted, also where a
    snapshot was taken first.  A missed tolerance that is required ends as ToleranceMissed; all else
    as Prefect has it.
    """
    signature = signature_of(request)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            begin_flow()
            given = validated(request, signature.bind(*args, **kwargs).arguments)
            with CancelWatch(has_worker=prefect.runtime.deployment.id is not None):
                made = function(**given)
            state = was_cancelled(patience_s=0.0)
            return cancelled(state, DONE) if state is not None else made
        except STOPPED as error:
            return stopped(error)
        except Exception as error:
            name = _state_name(error)
            if name is None:
                raise
            said = sentence(error)
            get_run_logger().error(said)
            IN_STATES.reported.append(error)
            return Failed(name=name, message=said, data=error)
        finally:
            last_word()

    # Prefect reads the parameters' types where the function is, and would look for them here.
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__doc__ = docstring_of(request)
    return run


def _state_name(error: Exception) -> str | None:
    if isinstance(error, ToleranceMissed):
        return MISSED
    is_refused = exit_status(error) == BAD_REQUEST or isinstance(error, NoRowMeant)
    return REFUSED if is_refused else None


def begin_flow() -> None:
    """Tell Prefect which process this flow run is, so that `fewpass check` can look for it.

    Prefect keeps parameters and shows them: BadAddress where an address among them has a secret.
    """
    quiet_dask()
    if wants_json(()):
        log_in_json()
    log_printable()
    for name in ENGINE_LOGGERS:
        logging.getLogger(name).addFilter(IN_STATES)  # the same one again changes nothing
    require_no_secrets_in(prefect.runtime.flow_run.parameters)
    with get_client(sync_client=True) as client:
        client.update_flow_run(
            prefect.runtime.flow_run.id, infrastructure_pid=f"{socket.gethostname()}:{os.getpid()}"
        )
