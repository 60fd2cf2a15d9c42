"""The chunks of a view: those of other data sets, its parts, each read as its own set reads it.

A part is opened when one of its chunks is first asked for, at its way from the view and by its
fingerprint.  A part that has changed is opened as it was, as long as that is there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.folder import Damaged, Folder, NotADataset
from fewpass.storage.locations import Location
from fewpass.storage.manifest import Manifest
from fewpass.storage.table import DenseTable
from fewpass.storage.table_buffer import ChunkBuffer

if TYPE_CHECKING:
    from fewpass.storage.dataset import Dataset

#: What rows have in common that are read as those of one set, as the manifest calls it.
FORM: Final = ("layout", "dtype", "n_features", "codes", "has_weight", "has_offset", "retained")
OPENED_AT_ONCE: Final = 8  # of an object store, where each takes a request


class OpensPart(Protocol):
    """Opens the data set of a fingerprint; of an earlier generation unless `present`."""

    def __call__(self, folder: Folder, fingerprint: str, *, present: bool = False) -> Dataset:
        """Return it; NotADataset or Damaged where it is not there."""


class PartChunks:
    """Chunk after chunk of the parts of a view.

    Parameters
    ----------
    folder, manifest
        Of the view.
    open_part
        Opens a part.
    """

    def __init__(self, folder: Folder, manifest: Manifest, open_part: OpensPart) -> None:
        self._folder, self._manifest, self._open_part = folder, manifest, open_part
        self._here = Location.of(folder.url)
        self._opened: dict[int, Dataset] = {}

    def open_all(self) -> None:
        """Open all parts; refuse one that is not what it was when the view was made."""
        numbers = range(len(self._manifest.parts))
        with ThreadPoolExecutor(1 if self._folder.is_local else OPENED_AT_ONCE, "open") as pool:
            for number, part in zip(numbers, pool.map(self._present, numbers), strict=True):
                self._opened[number] = part

    def read_into(self, k: int, buffer: ChunkBuffer) -> int:
        """Append the rows of chunk `k` to a buffer; return the bytes that were read."""
        with self._at(k) as (part, own):
            return part.read_into(own, buffer)

    def retained(self, k: int) -> NDArray[np.uint8]:
        """Return the kept columns of chunk `k` as (rows, bytes)."""
        with self._at(k) as (part, own):
            return part.read_retained(own)

    def codes(self, k: int) -> DenseTable:
        """Return the rows of chunk `k` as codes, X (rows, codes)."""
        with self._at(k) as (part, own):
            return part.read_codes(own)

    def prefetch(self, k: int) -> None:
        """Announce that chunk `k` will be read."""
        with self._at(k) as (part, own):
            part.prefetch(own)

    def are_copied(self, chunks: Sequence[int]) -> bool:
        """Return whether reading these chunks only copies their rows."""
        return all(self._is_copied(k) for k in chunks)

    def _is_copied(self, k: int) -> bool:
        with self._at(k) as (part, own):
            return part.are_copied([own])

    def faults(self, on_read: Callable[[int], None]) -> Iterator[str]:
        """Read every object of a chunk and yield a sentence for each damaged one."""
        for number in range(len(self._manifest.parts)):
            yield from self._part(number).chunk_faults(on_read)

    @contextmanager
    def _at(self, k: int) -> Iterator[tuple[Dataset, int]]:
        """Give the part that chunk `k` is of, and its number there; errors say that it is one."""
        starts = self._manifest.starts
        number = bisect_right(starts, k) - 1
        with self._naming(number):
            yield self._part(number), k - starts[number]

    def _part(self, number: int) -> Dataset:
        if number not in self._opened:
            self._opened[number] = self._checked(number, present=False)
        return self._opened[number]

    def _present(self, number: int) -> Dataset:
        return self._checked(number, present=True)

    def _checked(self, number: int, *, present: bool) -> Dataset:
        record = self._manifest.parts[number]
        way = Location.along(self._here, record.way)
        folder = Folder(way.url, self._folder.storage_options)
        with self._naming(number):
            part = self._open_part(folder, record.fingerprint, present=present)
            own = part.manifest
            chunks = self._manifest.chunks.between(*self._manifest.starts[number : number + 2])
            if own.is_view or differing(own, self._manifest) or own.chunks != chunks:
                raise Damaged(f"{part.folder.url} has other chunks than the view says.")
        return part

    @contextmanager
    def _naming(self, number: int) -> Iterator[None]:
        """Have errors say which part of which view it is, and what to do."""
        try:
            yield
        except (Damaged, NotADataset) as error:
            raise type(error)(
                f"{self._folder.url} is a view, and its part {number + 1} of "
                f"{len(self._manifest.parts)} is not as it was. {error} Where that is to stay so, "
                "make the view anew."
            ) from error


def differing(one: Any, other: Any) -> str | None:
    """Return what rows of two sets have not in common, so that they cannot be those of one.

    `one` and `other` have what is named in `FORM`, as manifests do.
    """
    return next((name for name in FORM if getattr(one, name) != getattr(other, name)), None)
