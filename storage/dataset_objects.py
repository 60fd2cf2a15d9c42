"""All objects of a data set: whether the manifest names each, and whether each is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fewpass.storage.array_layout import SPARSE_PARTS, chunk_templates, root_keys
from fewpass.storage.chunk_pages import ChunkPages
from fewpass.storage.chunk_table import ChunkTable, PartIndex
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Manifest
from fewpass.storage.objects import StoredObject, fault, require_keys

#: Objects of a chunk that it has only if it has values.
MAY_LACK = (SPARSE_PARTS["data"], SPARSE_PARTS["indices"])


def require_objects(manifest: Manifest) -> None:
    """Require every array of every chunk, except values of rows without any."""
    columns = {f"columns/{name}": layout for name, layout in manifest.columns.items()}
    require_keys(columns, manifest.objects)
    inside = tuple(f"{prefix}/" for prefix in columns)
    outside = {key for key in manifest.objects if not key.startswith(inside)}
    templates = chunk_templates(
        manifest.layout, manifest.row_parts, coded=manifest.coded, retained=bool(manifest.retained)
    )
    if outside != set(root_keys(manifest)) or manifest.chunks.templates != templates:
        raise ValueError("it names other objects than its layout has")
    if not isinstance(manifest.chunks, ChunkTable):
        return  # a page is checked when it is read, and a part when it is opened
    for key, column in manifest.chunks.objects.items():
        may_lack = key in MAY_LACK
        for stored, nnz in zip(column, manifest.chunks.nnz, strict=True):
            if (stored is None) != (may_lack and nnz == 0):
                raise ValueError("it has chunks without the objects they need")


def chunks_of(folder: Folder, manifest: Manifest) -> ChunkTable | ChunkPages:
    """Return the records of a data set's chunks, or what reads them as they are needed."""
    chunks = manifest.chunks
    assert not isinstance(chunks, PartIndex), "a view has none of its own"
    if isinstance(chunks, ChunkTable):
        return chunks
    may_lack = [key in MAY_LACK for key in chunks.templates]
    return ChunkPages(folder, chunks, may_lack)


def faults_of_chunks(
    folder: Folder,
    manifest: Manifest,
    chunks: ChunkTable | ChunkPages,
    on_read: Callable[[int], None],
) -> Iterator[str]:
    """Read every object of a chunk and yield a sentence for each damaged one; as `faults_of`."""
    for numbers, problem in _pages(chunks, manifest):
        if problem is not None:
            yield problem
            continue
        for k in numbers:
            yield from faults_of(folder, chunks.facts_of(k).named(k), on_read)


def _pages(
    chunks: ChunkTable | ChunkPages, manifest: Manifest
) -> Iterable[tuple[range, str | None]]:
    """Yield chunks, and what is wrong with their page of the chunk table, if anything."""
    if isinstance(chunks, ChunkPages):
        return chunks.faults()
    return [(range(manifest.n_chunks), None)]


def faults_of(
    folder: Folder, objects: Mapping[str, StoredObject], on_read: Callable[[int], None]
) -> Iterator[str]:
    """Read objects and yield a sentence for each damaged one.

    `on_read` is called with the bytes of each after it was read.
    """
    for key, stored in objects.items():
        problem = fault(folder, key, stored)
        on_read(stored.length)
        if problem is not None:
            yield problem
