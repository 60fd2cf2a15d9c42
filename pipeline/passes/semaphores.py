"""Semaphores, which lie in /dev/shm, for several processes of one machine."""

from __future__ import annotations

from multiprocessing import get_context

from fewpass.pipeline.errors import BadInput


def require_semaphores(otherwise: str) -> None:
    """Refuse to start processes that could not communicate.

    Parameters
    ----------
    otherwise
        Advice for doing the same without processes, as the end of a sentence.

    Raises
    ------
    BadInput
        /dev/shm is missing, full, or cannot be written to.
    """
    try:
        get_context("spawn").Lock()
    except (OSError, ImportError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            "Processes of one machine need semaphores in /dev/shm, and none can be made there "
            f"({why}). Mount it so that it can be written to, or {otherwise}."
        ) from error
