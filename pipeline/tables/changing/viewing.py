"""A view: one data set of the rows of several, which stay where they are.

What a manifest says of all rows is joined from what those of the parts say; no row is read, and a
view takes the room of its columns' statistics.  Parts are ingested `like` one of them, so that a
value means the same in all.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, Final

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.row_summary import RowSummary, joined_bad_rows, joined_columns
from fewpass.pipeline.tables.ingest.target import IngestTarget
from fewpass.storage.chunk_table import ChunkTable
from fewpass.storage.column_file import COLUMN_ORDER, makers_of, write_columns
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.locations import Location
from fewpass.storage.manifest import (
    KEY,
    Labels,
    Manifest,
    PartRecord,
    Shuffle,
    norms,
    read_manifest,
)
from fewpass.storage.objects import StoredObject, get, put
from fewpass.storage.part_chunks import FORM, differing

#: What lies beside the manifest of a view.
_OWN: Final = (COLUMNS, "by-column", SCHEMA, NAMES)
#: Arrays by column that say what a value means, and so are the same in all parts.
_SCALING: Final = ("scale", "shift")


def make_view(
    url: str, parts: Sequence[str], storage_options: dict[str, Any] | None = None
) -> Dataset:
    """Make a data set of the chunks of other data sets, in this order; nothing if it is there.

    Parameters
    ----------
    url
        Where: an empty folder, or a view, which is replaced.
    parts
        Addresses of the data sets.  Where they and the view have a folder in common, it may be
        moved or copied whole.
    storage_options
        For the object store, of the view and of all parts.

    Raises
    ------
    BadInput
        Parts that do not fit together, or a place that holds something else.
    NotADataset, Damaged, OSError
        As for `Dataset.open`.
    """
    folder = Folder(url, storage_options)
    sets = [Dataset.open(part, storage_options) for part in parts]
    _require_several(folder, sets)
    for one in sets[1:]:
        _require_alike(sets[0], one)
    records = tuple(_record(folder, one) for one in sets)
    IngestTarget(folder, "").require_separate(parts)
    there = _view_at(folder)
    if there is None or there.parts != records:
        folder.require_writable()
        _clear(folder)
        _write(folder, sets, records)
    return Dataset.open(folder)


def _require_several(folder: Folder, sets: Sequence[Dataset]) -> None:
    """Refuse no parts, rows that would be there twice, and views of views."""
    if not sets:
        raise BadInput(f"{folder.url} is to be a view of no data set. Name one or more.")
    seen = dict[str, str]()
    for one in sets:
        place, fingerprint = one.folder.url, one.manifest.fingerprint
        if one.manifest.is_view:
            raise BadInput(f"{place} is a view. Name the data sets that it is of.")
        if fingerprint in seen:
            raise BadInput(
                f"{place} is the data set of {seen[fingerprint]}, whose rows would be there twice. "
                "Name each data set once."
            )
        seen[fingerprint] = place


def _require_alike(first: Dataset, one: Dataset) -> None:
    """Refuse a part in which a value, or a target, means something else than in the first."""
    same_words = _without_nulls(one.schema) == _without_nulls(first.schema)
    said = next(_differences(one.manifest, first.manifest, same_schema=same_words), None)
    if said is not None:
        raise BadInput(
            f"{one.folder.url} has {said} as {first.folder.url}. The parts of a view are read "
            f"alike: ingest it anew with `like={first.folder.url}`."
        )


def _without_nulls(schema: Schema | None) -> Any:
    """Return a schema without members that are null."""

    def said(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: said(own) for name, own in value.items() if own is not None}
        return [said(own) for own in value] if isinstance(value, list) else value

    return None if schema is None else said(schema.model_dump(mode="json"))


def _differences(one: Manifest, first: Manifest, *, same_schema: bool) -> Iterator[str]:
    """Yield the differences of a part from the first, columns first: others follow of these."""
    own, asked = _shared(one), _shared(first)
    different = sorted(key for key in own.keys() | asked.keys() if own.get(key) != asked.get(key))
    if SCHEMA in different and same_schema:
        different.remove(SCHEMA)
    elif SCHEMA in different:
        yield f"not the same columns or recipe ({SCHEMA})"
    if (name := differing(one, first)) is not None:
        yield f"{name} {getattr(one, name)} and not {getattr(first, name)}"
    a, b = (_meaning(each) for each in (one, first))
    if a != b:
        yield f"targets {a} and not {b}"
    if one.scaling != first.scaling:
        a, b = (f"{each.scaling.kind} {each.scaling.digest}".strip() for each in (one, first))
        yield f"scaling {a} and not {b}"
    for key in different:
        yield f"not the same columns ({key})"


def _meaning(manifest: Manifest) -> str:
    """Return the meaning of stored targets."""
    if isinstance(manifest.targets, Labels):
        return f"of labels ({', '.join(map(str, manifest.targets.labels))})"
    return "of numbers"


def _shared(manifest: Manifest) -> Mapping[str, Any]:
    """Return the records of what is the same in all parts, by key or name."""
    objects, columns = manifest.objects, manifest.columns
    said = {key: objects[key] for key in (SCHEMA, NAMES) if key in objects}
    return said | {name: columns[name] for name in (*_SCALING, COLUMN_ORDER) if name in columns}


def _view_at(folder: Folder) -> Manifest | None:
    """Return the manifest of the view that is there; refuse anything else.

    A view that could not be written to its end has no manifest.
    """
    if folder.exists(KEY):
        with suppress(ValueError):
            there = read_manifest(folder.read(KEY))
            if there.is_view:
                return there
    elif all(key.partition("/")[0] in _OWN for key in folder.list()):
        return None
    raise BadInput(f"{folder.url} holds something that is no view. Choose an empty folder.")


def _clear(folder: Folder) -> None:
    """Remove the view that is there, its manifest first, whole or not."""
    folder.delete(KEY)
    folder.delete_partials()
    for name in _OWN:
        folder.delete_tree(name)
        folder.delete(name)


def _record(folder: Folder, part: Dataset) -> PartRecord:
    return PartRecord(
        way=_way(Location.of(folder.url), Location.of(part.folder.url)),
        fingerprint=part.manifest.fingerprint,
        n_chunks=part.n_chunks,
    )


def _way(view: Location, part: Location) -> str:
    """Return the way from a view to a part, or of the part alone where they share no folder."""
    if view.store != part.store:
        return part.resolved
    one, two = (f"/{each.resolved.rpartition('://')[2].lstrip('/')}" for each in (view, part))
    return part.resolved if posixpath.commonpath([one, two]) == "/" else part.way_from(view)


def _write(folder: Folder, sets: Sequence[Dataset], parts: tuple[PartRecord, ...]) -> None:
    """Write columns and manifest, which is the last."""
    first, last = sets[0].manifest, sets[-1].manifest
    chunks = ChunkTable.joined([one.manifest.chunks for one in sets])
    rows = reduce(RowSummary.joined, (RowSummary.of_manifest(one.manifest) for one in sets))
    objects = dict[str, StoredObject]()
    for key in (SCHEMA, NAMES):
        if key in first.objects:
            raw = get(sets[0].generation_folder, key, first.objects[key])
            objects[key] = put(folder, key, raw)
    numbers = joined_columns(sets)
    numbers |= {name: sets[0].column(name) for name in _SCALING if name in first.columns}
    objects[COLUMNS], columns = write_columns(
        folder, makers_of(numbers), sets[0].column_order, first.n_features
    )
    common = {name: getattr(first, name) for name in (*FORM, "scaling") if name != "has_offset"}
    seeds = [one.manifest.shuffle.seed for one in sets]
    manifest = Manifest(
        **common,
        n_rows=rows.n_rows,
        targets=rows.targets(first.targets),
        norms=norms(chunks),
        weights=rows.weights,
        offsets=rows.offsets,
        bad_rows=joined_bad_rows([one.manifest for one in sets]),
        nnz=sum(one.manifest.nnz for one in sets),
        chunk_rows=int(chunks.rows.max()),
        shuffle=Shuffle(seed=None if None in seeds else seeds[0]),
        sources=tuple(source for one in sets for source in one.manifest.sources),
        versions=last.versions,
        columns=columns,
        objects=objects,
        chunks=chunks,
        parts=parts,
    )
    folder.sync([*objects])
    folder.write(KEY, manifest.sealed())
