"""What the pipeline refuses; storage has its own two (storage/folder.py), solvers have Diverged."""


class BadInput(ValueError):  # noqa: N818 - users read the message, not the name
    """Rows or settings that cannot be used; the message says where, what and what to do."""


class PlanMismatch(ValueError):  # noqa: N818
    """A plan, a data set and a run that do not belong together."""


class NoWorkers(ConnectionError):  # noqa: N818
    """A Dask scheduler that has nobody to work for it."""
