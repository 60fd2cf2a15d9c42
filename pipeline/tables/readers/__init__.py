"""Text, columns and arrays, read in bounded pieces and turned into tables."""

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.opening import open_source
from fewpass.pipeline.tables.readers.source import Expected, Source

__all__ = ["Expected", "Source", "SourceOptions", "open_source"]
