"""Logs of a flow run's process, and their form."""

from __future__ import annotations

import logging

import dask.config
from prefect.exceptions import CancelledRun
from prefect.logging.configuration import setup_logging
from prefect.logging.handlers import PrefectConsoleHandler

from fewpass.flows.display.log_lines import JsonLines

ENGINE_LOGGERS = ("prefect.flow_runs", "prefect.engine")  # both log what ends a flow run's process
PREFECT_LOGGERS = ("prefect.extra", "prefect.flow_runs", "prefect.task_runs")


class InStates(logging.Filter):
    """Leaves out of the log what a flow run's state tells in a sentence.

    In a worker's process Prefect raises the error of a state that is not completed, and logs its
    traceback twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[BaseException] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log it."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, CancelledRun) and not any(
            error is one for one in self.reported
        )


IN_STATES = InStates()


def quiet_dask() -> None:
    """Have Dask log warnings alone: it tells of every worker and every comm, forty lines a run."""
    quiet = dict.fromkeys(("distributed", "distributed.scheduler", "distributed.nanny"), "warning")
    dask.config.set({"logging": quiet})  # what it reads when it is imported
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)  # where it was


def log_in_json() -> None:
    """Have what Prefect would print in this process be JSON lines on standard error."""
    setup_logging()
    for name in ("prefect", *PREFECT_LOGGERS, None):
        logger = logging.getLogger(name)
        if any(isinstance(handler, PrefectConsoleHandler) for handler in logger.handlers):
            lines = logging.StreamHandler()
            lines.setFormatter(JsonLines())
            others = [h for h in logger.handlers if not isinstance(h, PrefectConsoleHandler)]
            logger.handlers = [*others, lines]
