"""A training set and the data set of its test rows: each names the other, and where it is from it.

Both say so in their `ingest.json`, by the fingerprint of the other's first generation, which stays
what it is.  Neither a copy of one of them nor a stranger's set that names another is half of a
pair, so a change of it leaves all others alone; two that were moved or copied together are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.target import MARKER, IngestTarget
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.locations import Location
from fewpass.storage.manifest import KEY, TakenFile
from fewpass.storage.seal import unseal


class OtherHalf(BaseModel):
    """The other one of two sets."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fingerprint: str  # of its first generation
    way: str  # to it, from here
    at: str  # where this one was made


class IngestRecord(BaseModel):
    """The record of an ingest, as far as a change needs it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    plan: IngestPlan
    rows: str  # training or test
    threshold: float | None
    files: tuple[TakenFile, ...]
    pair: OtherHalf | None = None


class SetPair(NamedTuple):
    """The places for training rows, and for test rows if an ingest holds any out."""

    training: IngestTarget
    test: IngestTarget | None = None

    def require_own_test(self) -> None:
        """Refuse to replace a data set that has the name of the test rows and is another's."""
        if self.test is None or not self.test.folder.exists(KEY):
            return
        said = self.test.marker()
        half = said.get("pair")
        one, two = (Location.of(target.folder.url) for target in self[:2] if target is not None)
        led_here = half is None or Location.along(two, half["way"]).is_same(one)
        if said.get("rows") != "test" or not led_here:
            raise BadInput(
                f"{two.url} is where the test rows are to be, and holds a data set that is none of "
                f"{one.url}'s. Say where they are to be (`test_dataset`), or remove it."
            )

    def facts(self) -> dict[str, Any]:
        """Return the facts of the training set on its test rows, which are there already."""
        if self.test is None:
            return {}
        fingerprint = Dataset.open(self.test.folder).manifest.first_fingerprint
        return _half(self.training, self.test, fingerprint)

    def name_training(self, fingerprint: str) -> None:
        """Have the test rows say which training set they are of."""
        if self.test is not None:
            half = _half(self.test, self.training, fingerprint)
            self.test.mark(self.test.marker() | half)


def _half(here: IngestTarget, there: IngestTarget, fingerprint: str) -> dict[str, Any]:
    one, two = (Location.of(target.folder.url) for target in (here, there))
    half = OtherHalf(fingerprint=fingerprint, way=two.way_from(one), at=one.resolved)
    return {"pair": half.model_dump()}


def record_of(dataset: Dataset) -> IngestRecord:
    """Return the record of the ingest of a data set; BadInput where it is gone or was changed."""
    place = dataset.folder.address(MARKER)
    try:
        return IngestRecord.model_validate(unseal(dataset.folder.read(MARKER)))
    except FileNotFoundError:
        fact = "is not there"
    except ValidationError:
        fact = "is no record of this version"
    except ValueError as error:
        fact = f"is not as it was written ({error})"
    raise BadInput(
        f"{place} {fact}, and without it nobody knows what {dataset.folder.url} was made of, nor "
        "where its test rows are. Put it back from a copy, or ingest all files anew."
    )


def test_rows_of(training: Dataset) -> tuple[Dataset | None, str | None]:
    """Return the data set of the test rows that were held out of this one, and a note on it.

    Raises
    ------
    BadInput
        They are not where the ingest put them, or are another's.
    """
    record = record_of(training)
    if record.pair is None or record.rows == "test":
        return None, None
    here = Location.of(training.folder.url)
    named, renamed = Location.along(here, record.pair.way), Location.of(f"{here.resolved}-test")
    for there in (named, renamed):
        test = _named_by(training, record.pair, there.url)
        if test is not None and _is_way_back(here, there, record.pair, record_of(test).pair):
            return test, None
    made = Location.of(record.pair.at)
    if not here.is_same(made):
        return None, (
            f"{training.folder.url} was made at {made.url} and has no test rows of its own: those "
            f"at {Location.along(made, record.pair.way).url} are not of this copy, and stay as "
            "they are."
        )
    raise BadInput(
        f"{training.folder.url} was ingested with test rows, and {named.url}, where they are to "
        "be, is not the data set that was made with it. Put it back, or ingest all files anew."
    )


def training_set_of(test: Dataset) -> Dataset | None:
    """Return the data set that test rows were held out of; None where it is not where it was."""
    half = record_of(test).pair
    if half is None:
        return None
    folder = Folder(
        Location.along(Location.of(test.folder.url), half.way).url, test.folder.storage_options
    )
    training = Dataset.open(folder) if folder.exists(KEY) else None
    is_it = training is not None and training.manifest.first_fingerprint == half.fingerprint
    return training if is_it else None


def _named_by(training: Dataset, half: OtherHalf, url: str) -> Dataset | None:
    """Return the data set at an address if both name each other."""
    folder = Folder(url, training.folder.storage_options)
    if not folder.exists(KEY):
        return None
    test = Dataset.open(folder)
    if test.manifest.first_fingerprint != half.fingerprint:
        return None
    record = record_of(test)
    back = record.pair.fingerprint if record.pair is not None and record.rows == "test" else None
    return test if back == training.manifest.first_fingerprint else None


def _is_way_back(here: Location, there: Location, half: OtherHalf, back: OtherHalf | None) -> bool:
    """Return whether test rows lead back here, or have the name that such rows have by default."""
    if back is None:
        return False
    usual = half.way == f"{back.way}-test" and there.resolved == f"{here.resolved}-test"
    return usual or Location.along(there, back.way).is_same(here)
