"""Text, columns and arrays, read in bounded pieces and turned into tables."""

from fewpass.pipeline.settings.formats import Format
from fewpass.pipeline.settings.source_options import Column, SourceOptions
from fewpass.pipeline.tables.readers.opening import open_source
from fewpass.pipeline.tables.readers.source import (
    BadRow,
    Expected,
    ParsedRows,
    Piece,
    Source,
    SourceFile,
)

__all__ = [
    "BadRow",
    "Column",
    "Expected",
    "Format",
    "ParsedRows",
    "Piece",
    "Source",
    "SourceFile",
    "SourceOptions",
    "open_source",
]
