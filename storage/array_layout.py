"""Layout of a data set's arrays: the keys of their objects and their Zarr metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fewpass.storage import column_file, column_schema, hashed_names
from fewpass.storage.manifest import FORMAT, FORMAT_VERSION, RETAINED_BYTES, Layout, Manifest
from fewpass.storage.table import index_dtype
from fewpass.storage.zarr_documents import array_document, group_document, vector_content

FLOAT64 = np.dtype(np.float64)
INDPTR = np.dtype(np.int64)
BYTES = np.dtype(np.uint8)
ROWS = "rows-{chunk:06d}"
ROWS_DOCUMENT = f"{ROWS}/zarr.json"
RETAINED_KEY = "retained/c.{chunk}.0"

DENSE_PARTS = {"X": "X/c.{chunk}.0"}
CODE_PARTS = {"codes": "codes/c.0.{chunk}"}
SPARSE_PARTS = {
    "data": ROWS + "/data/c.0",
    "indices": ROWS + "/indices/c.0",
    "indptr": ROWS + "/indptr/c.0",
}


def chunk_parts(layout: Layout, row_parts: Sequence[str], *, coded: bool = False) -> dict[str, str]:
    """Return the arrays of a chunk with their keys, the chunk number left open.

    `row_parts` are those with a number per row: target, and maybe weight and offset.  `coded`:
    sparse rows are stored as their codes.
    """
    rows = {name: name + "/c.{chunk}" for name in row_parts}
    if coded:
        return CODE_PARTS | rows
    return (DENSE_PARTS if layout == "dense" else SPARSE_PARTS) | rows


def chunk_templates(
    layout: Layout, row_parts: Sequence[str], *, coded: bool = False, retained: bool = False
) -> list[str]:
    """Return the keys of all objects of a chunk, the chunk number left open."""
    documents = [ROWS_DOCUMENT] if layout == "sparse" and not coded else []
    parts = chunk_parts(layout, row_parts, coded=coded).values()
    return [*documents, *parts, *([RETAINED_KEY] if retained else [])]


def chunk_document(shape: tuple[int, int], nnz: int, dtype: np.dtype[Any]) -> bytes:
    """Return the Zarr metadata of a chunk of a sparse set: one matrix as in anndata."""
    rows, n_features = shape
    encoding = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(shape)}
    arrays = {
        "data": vector_content(nnz, dtype),
        "indices": vector_content(nnz, index_dtype(n_features)),
        "indptr": vector_content(rows + 1, INDPTR),
    }
    return group_document(encoding, arrays)


def root_keys(manifest: Manifest) -> list[str]:
    """Return the keys of `root_documents`, and of columns, schema and names, if there are any.

    A view, which has no rows of its own, is no Zarr group.
    """
    names = [key for key in (column_schema.KEY, hashed_names.KEY) if key in manifest.objects]
    names += [column_file.KEY] if manifest.columns else []
    if manifest.is_view:
        return names
    rows = ["X"] if manifest.layout == "dense" else ["codes"] if manifest.coded else []
    nodes = [*rows, *manifest.row_parts, *(["retained"] if manifest.retained else [])]
    return ["zarr.json", *(f"{node}/zarr.json" for node in nodes), *names]


def root_documents(
    layout: Layout,
    shape: tuple[int, int],
    chunk_rows: int,
    dtype: np.dtype[Any],
    row_parts: Sequence[str],
    codes: int | None = None,
    n_retained: int = 0,
) -> dict[str, bytes]:
    """Return the Zarr metadata of everything outside chunks."""
    n_rows, n_features = shape
    documents = {
        "zarr.json": group_document({"format": FORMAT, "version": FORMAT_VERSION}),
    }
    if layout == "dense":
        documents["X/zarr.json"] = array_document(shape, (chunk_rows, n_features), dtype)
    elif codes is not None:
        document = array_document((codes, n_rows), (codes, chunk_rows), FLOAT64)
        documents["codes/zarr.json"] = document
    for name in row_parts:
        documents[f"{name}/zarr.json"] = array_document((n_rows,), (chunk_rows,), FLOAT64)
    if n_retained:
        width = n_retained * RETAINED_BYTES
        documents["retained/zarr.json"] = array_document(
            (n_rows, width), (chunk_rows, width), BYTES
        )
    return documents
