"""All objects of a data set: whether the manifest names each, and whether each is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fewpass.storage.array_layout import SPARSE_PARTS, chunk_templates, root_keys
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_file import require_fitting
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Manifest
from fewpass.storage.objects import StoredObject, fault

#: Objects of a chunk that it has only if it has values.
MAY_LACK = (SPARSE_PARTS["data"], SPARSE_PARTS["indices"])


def require_objects(manifest: Manifest) -> None:
    """Require every array of every chunk, except values of rows without any."""
    templates = chunk_templates(
        manifest.layout, manifest.row_parts, coded=manifest.coded, retained=bool(manifest.retained)
    )
    if (
        manifest.objects.keys() != set(root_keys(manifest))
        or [*manifest.chunks.objects] != templates
    ):
        raise ValueError("it names other objects than its layout has")
    if manifest.columns:
        file_bytes = manifest.objects[COLUMNS].length
        require_fitting(manifest.columns, manifest.n_features, file_bytes)
    if not manifest.chunks.lack_only(MAY_LACK):
        raise ValueError("it has chunks without the objects they need")


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
