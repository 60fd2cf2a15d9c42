"""Errors of the pipeline; storage has its own (storage/folder.py), solvers have Diverged."""

from fewpass.solvers.bad_input import BadInput, did_you_mean

__all__ = [
    "BadInput",
    "NoRowLeft",
    "NoRowMeant",
    "NoWorkers",
    "PlanMismatch",
    "TooLittleMemory",
    "did_you_mean",
]


class BusyPlace(BadInput):
    """A place that another process is using."""


class NoRowMeant(BadInput):
    """A condition on rows to delete that no row meets."""


class NoRowLeft(BadInput):
    """A condition on rows to delete that all rows of a data set meet."""

    def __init__(self, said: str, dataset: str) -> None:
        super().__init__(said)
        self.dataset = dataset  # its address


class TooLittleMemory(BadInput):
    """A plan whose states and rows do not fit into its memory, as it is."""


class PlanMismatch(ValueError):  # noqa: N818
    """A plan, a data set and a run that do not belong together."""


class NoWorkers(ConnectionError):  # noqa: N818
    """A Dask scheduler without workers."""
