"""Text, columns and arrays, read in bounded pieces and turned into tables."""

from fewpass.pipeline.settings.formats import Format
from fewpass.pipeline.settings.source_options import Column, SourceOptions
from fewpass.pipeline.tables.readers.opening import open_source
from fewpass.pipeline.tables.readers.source import (
    BadRow,
    Expected,
    Parsed,
    Piece,
    Source,
    SourceFile,
)

__all__ = [
    "BadRow",
    "Column",
    "Expected",
    "Format",
    "Parsed",
    "Piece",
    "Source",
    "SourceFile",
    "SourceOptions",
    "open_source",
]
