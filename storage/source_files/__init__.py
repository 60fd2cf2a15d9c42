"""Source files at any address, read completely or with an error."""

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
