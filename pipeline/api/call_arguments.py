"""Arguments of several of the functions: addresses, and where to work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution

Address = str | os.PathLike[str]
ANYWHERE = Execution()


def addresses(given: Address | Sequence[Address]) -> list[str]:
    """Return one address, or several, as text."""
    several = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(one) for one in several]


def require_execution(given: Any) -> None:
    """Refuse what says nothing of where to work; BadInput."""
    if not isinstance(given, Execution):
        raise BadInput(f"execution is {given!r}. Give Execution(scheduler='local'), for example.")
