"""Files of rows wherever they are, read so that nothing of them is lost without a word."""

from fewpass.storage.source_files.checked import (
    Checked,
    CutShort,
    OpenableFile,
    SourceChanged,
    is_page,
)
from fewpass.storage.source_files.local import LocalSource
from fewpass.storage.source_files.stores import StoreSource
from fewpass.storage.source_files.web import WebSource

__all__ = [
    "Checked",
    "CutShort",
    "LocalSource",
    "OpenableFile",
    "SourceChanged",
    "StoreSource",
    "WebSource",
    "is_page",
]
