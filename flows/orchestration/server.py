"""The sentence for a Prefect server that does not answer."""
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fewpass.flows.refusals import exit_status, sentence

UNREACHED = "Failed to reach API"  # how Prefect's flows begin to say it
START_S = 120  # to the start of a server of our own: the first on a machine makes a database


@contextmanager
def answering() -> Iterator[None]:
    """Turn the failure to reach a server into a ConnectionError that says which, and what to do.

    Where none is named, one is started for the while, which may take longer than Prefect waits.
    """
    import httpx
    from prefect.settings import (
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
        get_current_settings,
        temporary_settings,
    )

    patience = {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: START_S}
    try:
        with temporary_settings(set_defaults=patience):
            yield
    except (httpx.TransportError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith(UNREACHED):
            raise
        where = get_current_settings().api.url or "an address of its own"
        raise ConnectionError(
            f"No Prefect server answers at {where}. Start it, or set PREFECT_API_URL."
        ) from error


def run_for_make(work: Callable[[], int]) -> int:
    """Do what a target of make asks a server for; returns the exit status, with a sentence."""
    try:
        with answering():
            return work()
    except (ValueError, ConnectionError) as error:
        sys.stderr.write(f"{sentence(error)}\n")
        return exit_status(error)
