"""A flow run that is suspended: its training comes to rest; a worker takes it up again later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.context import FlowRunContext
from prefect.exceptions import Pause

from fewpass.flows.orchestration.session import Session


def is_suspended() -> bool:
    """Whether somebody suspended this flow run; of a deployment's run Prefect is told of it."""
    context = FlowRunContext.get()
    return context is not None and context.flow_run_suspension_request.is_requested()


@contextmanager
def at_rest_if_suspended(session: Session) -> Iterator[None]:
    """Take a snapshot before a suspended flow run ends, which Prefect has it do before a task.

    Where the block ends before a next task, the flow run ends here.
    """
    context = FlowRunContext.get()
    try:
        yield
        if context is not None and not session.finished:
            context.flow_run_suspension_request.raise_if_requested()
    except Pause:
        session.stop()
        session.drain()
        raise
