"""What the pipeline refuses; storage has its own two (storage/folder.py), solvers have Diverged."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):  # noqa: N818 - users read the message, not the name
    """Rows or settings that cannot be used; the message says where, what and what to do."""


class AtWork(BadInput):
    """A place where another process is at work."""


class PlanMismatch(ValueError):  # noqa: N818
    """A plan, a data set and a run that do not belong together."""


class NoWorkers(ConnectionError):  # noqa: N818
    """A Dask scheduler that has nobody to work for it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence, after a blank, that names the nearest of what is known; "" for none."""
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
