"""The manifest of a data set; `docs/format.md` describes every field and every statistic."""

from __future__ import annotations

import itertools
import math
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from fewpass.storage import column_schema
from fewpass.storage.chunk_places import PLACE, ChunkPlace, read_places
from fewpass.storage.chunk_table import (
    ChunkTable,
    Digest,
    ManifestPart,
    Natural,
    Packed,
    Positive,
)
from fewpass.storage.column_file import COLUMN_ORDER, StoredColumns
from fewpass.storage.objects import StoredObject
from fewpass.storage.seal import seal, unseal
from fewpass.storage.table import index_dtype

FORMAT: Final = "fewpass-dataset"
#: Of the arrays, and of the manifest of a set whose chunks all lie in one group.
FORMAT_VERSION: Final = 1
#: Of the manifest of a set whose chunks lie in the groups of several generations (`places`).
PLACED_VERSION: Final = 2
#: Folder of the objects of all generations but the first.
GENERATIONS: Final = "generations"
#: Bytes of a kept column in a row: UTF-8, then zeros.
RETAINED_BYTES: Final = 64
KEY = "manifest.json"

Layout = Literal["dense", "sparse"]


class Labels(ManifestPart):
    """Targets that are classes: a row's stored target is the position of its label."""

    kind: Literal["labels"] = "labels"
    labels: tuple[str, ...] | tuple[float, ...]
    counts: tuple[Natural, ...]  # rows with each label
    weights: tuple[float, ...] | None = None  # of the rows with each label; None: rows have none

    @property
    def heft(self) -> tuple[float, ...]:
        """Weight of the rows with each label: their number where rows have no weights."""
        return self.counts if self.weights is None else self.weights

    @model_validator(mode="after")
    def _distinct(self) -> Labels:
        if len(set(self.labels)) != len(self.labels) or len(self.counts) != len(self.labels):
            raise ValueError("its labels are not distinct, or have not one count each")
        if len(self.heft) != len(self.labels):
            raise ValueError("its labels have not one weight each")
        return self


class Values(ManifestPart):
    """Targets that are numbers, stored unchanged."""

    kind: Literal["values"] = "values"
    mean: float
    variance: float  # divided by n
    minimum: float
    maximum: float
    weighted_mean: float | None = None  # by row weights; of rows with weights or offsets


Targets = Annotated[Labels | Values, Field(discriminator="kind")]


class Norms(ManifestPart):
    """Moments of the rows' norms, without row weights."""

    mean_square: float  # mean of ||x||^2
    max_square: float
    mean_fourth: float  # mean of ||x||^4


class WeightStats(ManifestPart):
    """Sum and maximum of the row weights."""

    total: float
    maximum: float


class OffsetStats(ManifestPart):
    """Means of the rows' offsets, by row weights."""

    mean: float
    mean_exp: float  # of exp(offset): of the exposures


def row_parts(*, has_weight: bool, has_offset: bool) -> tuple[str, ...]:
    """Return the names of the arrays with a number per row."""
    return ("target", *(["weight"] if has_weight else []), *(["offset"] if has_offset else []))


class Scaling(ManifestPart):
    """Scaling of the features before they were stored."""

    kind: Literal["none", "maxabs", "rms", "unit-rows", "standard"] = "none"
    digest: str = ""  # of the columns' scale and shift; empty for none and unit-rows


class Shuffle(ManifestPart):
    """The order of the rows: random, by a seed, or that of the source."""

    seed: int | None = None  # None: the order of the source


class SourceRecord(ManifestPart):
    """A source file."""

    name: str
    bytes: Natural | None = None


class TakenFile(ManifestPart):
    """A file whose rows were taken, by what it was then and not by what it is called."""

    place: str  # store and path without links; of a table its id, of a query the query as well
    bytes: Natural | None = None  # as stored; None: unknown
    version: str | None = None  # time of change, or what a store or a table says; None: unknown


class ChangeRecord(ManifestPart):
    """The change that made a generation of the one before it."""

    change: Literal["append", "forget"]
    parent: str  # fingerprint of the generation before
    rows: Natural  # that came, or went
    digest: str = ""  # of the files that came and how they were read
    files: tuple[TakenFile, ...] = ()  # that came
    #: Of test rows that came with rows of a training set: its generation that had not these yet.
    training: str = ""


class PartRecord(ManifestPart):
    """One of the data sets that a view has the chunks of."""

    way: str  # to it: from the view, or from anywhere
    fingerprint: Digest
    n_chunks: Positive


class Manifest(ManifestPart):
    """The manifest of a data set; its presence proves that the set is complete."""

    format: Literal["fewpass-dataset"] = FORMAT
    version: Literal[1, 2] = FORMAT_VERSION
    layout: Layout
    n_rows: Positive
    n_features: Positive
    nnz: Natural  # stored values; for a dense set n_rows * n_features
    dtype: Literal["float32", "float64"]
    chunk_rows: Positive
    codes: Positive | None = None  # of a row, which is stored as these; None: as its values
    has_weight: bool
    targets: Targets
    norms: Norms
    weights: WeightStats | None
    offsets: OffsetStats | None = None  # None: rows have no offsets
    scaling: Scaling
    shuffle: Shuffle
    sources: tuple[SourceRecord, ...]
    bad_rows: dict[str, Natural]  # rows skipped at ingest, by source
    versions: dict[str, str]
    columns: dict[str, StoredColumns]  # statistics and order of the columns, as they are stored
    objects: dict[str, StoredObject]  # all objects outside chunks, except this manifest
    chunks: ChunkTable
    parts: tuple[PartRecord, ...] = ()  # the sets whose chunks a view has
    retained: tuple[str, ...] = ()  # columns that are kept as they were written, by name
    changes: tuple[ChangeRecord, ...] = ()  # since the ingest
    places: Packed = b""  # of the chunks of a changed set; none: all lie in its own group
    fingerprint: str = ""  # SHA-256 of all of the above

    @model_validator(mode="after")
    def _adds_up(self) -> Manifest:
        if not self.chunks.add_up_to(self.n_rows, self.nnz) or not self._are_full():
            raise ValueError("the chunks do not add up to the rows and values of the data set")
        if self.has_weight != (self.weights is not None):
            raise ValueError("has_weight and weights contradict each other")
        if self.coded and (self.layout == "dense" or not self.has_schema):
            raise ValueError("its rows cannot be stored as codes")
        if COLUMN_ORDER in self.columns:
            self._orders_columns(self.columns[COLUMN_ORDER])
        if (self.version == PLACED_VERSION) != bool(self.places) or not self._lie_in_groups():
            raise ValueError("its chunks lie where they cannot be")
        return self

    def _lie_in_groups(self) -> bool:
        """Return whether each chunk lies in the group of this generation or of an earlier one."""
        if not self.places:
            return True
        if not self.changes or self.is_view or len(self.places) != 8 * self.n_chunks:
            return False
        generations = read_places(self.places)["generation"]
        return bool(generations.min() >= 1 and generations.max() <= self.generation)

    def _orders_columns(self, order: StoredColumns) -> None:
        if self.layout == "dense" or self.coded or order.dtype != self.index_dtype.name:
            raise ValueError("its columns are in an order that they cannot have")

    def _are_full(self) -> bool:
        """Return whether all chunks but the last, of the set or of each part, are of one size."""
        if not self.is_view:
            return self.chunks.are_full(self.chunk_rows)
        starts = self.starts
        if starts[-1] != self.n_chunks or self.chunk_rows != self.chunks.rows.max():
            return False
        parts = (self.chunks.between(*ends) for ends in itertools.pairwise(starts))
        return all(part.are_full(int(part.rows[0])) for part in parts)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.chunks.n_chunks

    @cached_property
    def starts(self) -> list[int]:
        """First chunk of each part of a view, and the end of the last one."""
        return list(itertools.accumulate((part.n_chunks for part in self.parts), initial=0))

    def rows_of(self, k: int) -> int:
        """Return the rows of chunk `k`: of a set's own, all but the last have the same number."""
        return int(self.chunks.rows[k])

    @property
    def is_view(self) -> bool:
        """Return whether the chunks are those of other sets."""
        return bool(self.parts)

    @property
    def is_shuffled(self) -> bool:
        """Return whether rows lie in one random order; those of several parts lie part by part."""
        return self.shuffle.seed is not None and len(self.parts) < 2

    @property
    def has_offset(self) -> bool:
        """Return whether rows have offsets."""
        return self.offsets is not None

    @property
    def generation(self) -> int:
        """Number of the generation; 1 is what the ingest made."""
        return len(self.changes) + 1

    @property
    def first_fingerprint(self) -> str:
        """Fingerprint of the first generation: what the data set is known by in all later ones."""
        return self.changes[0].parent if self.changes else self.fingerprint

    @property
    def place(self) -> str:
        """Return the place of its group, below the folder of the data set; empty: there."""
        return place_of_generation(self.generation)

    @cached_property
    def chunk_places(self) -> NDArray[Any]:
        """Return the place of each chunk, (n_chunks,) of `PLACE`."""
        if self.places:
            return read_places(self.places)
        own = np.empty(self.n_chunks, PLACE)
        own["generation"], own["number"] = self.generation, np.arange(self.n_chunks)
        return own

    def place_of(self, k: int) -> ChunkPlace:
        """Return where chunk `k` lies."""
        return ChunkPlace(*self.chunk_places[k].item())

    def key_of(self, k: int, template: str) -> str:
        """Return the key of an object of chunk `k`, below the folder of the data set."""
        generation, number = self.place_of(k)
        key = template.format(chunk=number)
        return key if generation == 1 else f"{place_of_generation(generation)}/{key}"

    def objects_of(self, k: int) -> dict[str, StoredObject]:
        """Return the objects of chunk `k` by their keys below the folder of the data set."""
        objects = self.chunks.record(k).objects.items()
        return {self.key_of(k, key): stored for key, stored in objects if stored is not None}

    @property
    def row_parts(self) -> tuple[str, ...]:
        """Names of the arrays with a number per row."""
        return row_parts(has_weight=self.has_weight, has_offset=self.has_offset)

    @property
    def coded(self) -> bool:
        """Return whether rows are stored as their codes."""
        return self.codes is not None

    @property
    def has_schema(self) -> bool:
        """Return whether there is a schema of the source's columns."""
        return column_schema.KEY in self.objects

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of the column indices of a sparse set."""
        return index_dtype(self.n_features)

    def sealed(self) -> bytes:
        """Return the bytes of ``manifest.json``."""
        usual: dict[str, Any] = {"fingerprint": True}
        if not self.has_offset:
            usual["offsets"] = True
        if not self.coded:
            usual["codes"] = True
        usual |= {
            name: True
            for name in ("retained", "changes", "parts", "places")
            if not getattr(self, name)
        }
        of_weights = "weighted_mean" if isinstance(self.targets, Values) else "weights"
        if getattr(self.targets, of_weights) is None:
            usual["targets"] = {of_weights}
        return seal(self.model_dump(mode="json", exclude=usual))


def place_of_generation(number: int) -> str:
    """Return where the objects of a generation lie, below the folder of their data set."""
    return "" if number == 1 else f"{GENERATIONS}/{number:06d}"


class UnknownVersion(ValueError):  # noqa: N818  a Damaged file is something else
    """A sealed document of another kind or of an unknown format version."""


@lru_cache(maxsize=4)
def read_manifest(raw: bytes) -> Manifest:
    """Return the manifest in the bytes of ``manifest.json``; the last few are cached.

    Raises
    ------
    UnknownVersion
        The document is of another kind or version.
    ValueError
        The document has been changed.
    """
    document = unseal(raw)
    kind, version = document.get("format"), document.get("version")
    if kind != FORMAT or version not in (FORMAT_VERSION, PLACED_VERSION):
        raise UnknownVersion(
            f"it is {kind!r} version {version!r}, where {FORMAT!r} version {FORMAT_VERSION} or "
            f"{PLACED_VERSION} was expected"
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise ValueError(f"it does not follow the format ({_first(error)})") from error


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def norms(chunks: ChunkTable) -> Norms:
    """Combine the sums of the chunks, exactly rounded, hence independent of their order."""
    n = int(chunks.rows.sum())
    return Norms(
        mean_square=math.fsum(chunks.sums("sum_square")) / n,
        max_square=float(chunks.sums("max_square").max()),
        mean_fourth=math.fsum(chunks.sums("sum_fourth")) / n,
    )
