"""Settings of a training that reads a source directly, without a data set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.flat_settings import settings
from fewpass.pipeline.settings.ingest_plan import ScalingKind, SourceAddress, require_fraction
from fewpass.pipeline.settings.model_config import ADDRESSED
from fewpass.pipeline.settings.source_options import Column, SourceOptions
from fewpass.solvers.described import Described


class SourceReading(Described):
    """Files that a training reads once, without a data set, and how."""

    model_config = ADDRESSED

    sources: tuple[SourceAddress, ...] = Field(min_length=1)
    """Files, folders, globs or addresses; - is standard input."""
    options: SourceOptions = SourceOptions.usual()
    """How to read them."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """What the targets are; auto: labels if the first rows have words, or few whole numbers."""
    scale: ScalingKind | Literal["auto"] = "auto"
    """Scaling of the features, measured on the first rows; auto: as for an ingest."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of the rows that is not learnt from, the same rows as in an ingest with this seed; the
    model is evaluated on as many as fit into an eighth of the memory."""
    test_by: Column | None = None
    """Column of dates or numbers, by name or position: the last rows by it are held out, a
    `test_fraction` of all, in place of rows drawn at random.  Tables are encoded then."""
    test_group: Column | None = None
    """Column, by name or position, whose values stay together: all rows of one are held out, or
    none.  Tables are encoded then."""
    expected_rows: int | None = Field(None, ge=2)
    """About how many rows there are; needed if lam is a multiple of 1/n and the source does not
    tell, as standard input does not."""

    @model_validator(mode="after")
    def _has_targets(self) -> SourceReading:
        require_fraction(self.test_fraction, self.test_by, self.test_group)
        if not self.options.label_required:
            raise ValueError("Training needs targets. Leave label_required as it is.")
        return self


def refuse_reading(names: Iterable[str], place: str) -> None:
    """Refuse settings that say how files are read, where rows come from a data set; BadInput."""
    for name in sorted({"ingest_into", *settings(SourceReading)} & set(names)):  # the command's own
        raise BadInput(
            f"`{name}` says how files are read, but {place} is no source of rows: name a file, or "
            f"leave `{name}` out."
        )
