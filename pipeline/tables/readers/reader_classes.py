"""The reader of a format by its word, imported only where files are of that format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fewpass.pipeline.settings.formats import FORMATS, PLACES, TABLES


def reader_class(word: str) -> Any:
    """Return the class of a format, a `Source` or a `TableReader`; KeyError without one."""
    module, _, name = (FORMATS | TABLES | PLACES)[word].partition(":")
    return getattr(import_module(module), name)
