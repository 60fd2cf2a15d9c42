"""Functions of large frozen objects, cached by identity: comparing two would take longer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class _ByIdentity:
    """Cache key: an object compared by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.value is self.value


def cached_by_identity(function: Callable[[_Given], _Made]) -> Callable[[_Given], _Made]:
    """Return a function that keeps its results for the last eight objects."""

    @lru_cache(maxsize=8)
    def of(key: _ByIdentity) -> _Made:
        return function(key.value)

    return lambda value: of(_ByIdentity(value))
