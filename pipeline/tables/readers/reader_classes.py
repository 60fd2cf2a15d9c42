"""The reader of a format by its word, imported only where files are of that format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fewpass.pipeline.settings.formats import FORMATS, PLACES, TABLES
from fewpass.pipeline.tables.readers.source import Source, TableReader


def source_class(word: str) -> type[Source]:
    """Return the reader of the format of that word; KeyError where there is none."""
    reader: type[Source] = _named(FORMATS[word])
    return reader


def rows_class(word: str) -> type[TableReader]:
    """Return the reader of a format of tables as they are written."""
    reader: type[TableReader] = _named((TABLES | PLACES)[word])
    return reader


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
