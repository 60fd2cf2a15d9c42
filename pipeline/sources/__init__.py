"""Text, columns and arrays, read in bounded pieces and turned into tables."""

from pipeline.sources.opening import open_source
from pipeline.sources.options import Column, Format, SourceOptions
from pipeline.sources.source import BadRow, Parsed, Piece, Source, SourceFile

__all__ = [
    "BadRow",
    "Column",
    "Format",
    "Parsed",
    "Piece",
    "Source",
    "SourceFile",
    "SourceOptions",
    "open_source",
]
