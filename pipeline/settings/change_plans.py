"""Settings of what changes a data set after its ingest: appending rows, and forgetting some."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.settings.ingest_plan import LEAST_MEMORY, SourceAddress
from fewpass.pipeline.settings.model_config import ADDRESSED, Workers
from fewpass.pipeline.settings.row_condition import CONDITION_PATTERN, as_condition
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import ByteSize, format_bytes
from fewpass.solvers.described import Described


class ChangePlan(Described):
    """A data set that is changed, and what that may take."""

    model_config = ADDRESSED

    dataset: str = Field(min_length=1)
    """Folder or address of the data set."""
    memory: ByteSize = 1 << 30
    """Memory limit, such as 256MB; in addition to what the libraries take."""
    threads: Workers | None = None
    """Threads that read and compress [default: one per core]."""
    storage_options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """For fsspec: endpoint, credentials."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.memory < LEAST_MEMORY:
            raise ValueError(
                f"memory is {format_bytes(self.memory)}, too little to rewrite chunks in. Give at "
                f"least {format_bytes(LEAST_MEMORY)}."
            )
        return self

    @property
    def budget(self) -> Budget:
        """Shares of the memory."""
        return Budget.of(self.memory)


class AppendPlan(ChangePlan):
    """Settings of appending files to a data set."""

    sources: tuple[SourceAddress, ...] = Field(min_length=1)
    """Files, globs or addresses, with the columns of the data set."""
    options: SourceOptions = SourceOptions()
    """How to read them, where it is not as the data set says."""
    again: bool = False
    """Append files whose rows were taken before once more, as they are now."""


class ForgetPlan(ChangePlan):
    """Settings of deleting rows of a data set for good."""

    where: Annotated[str, AfterValidator(as_condition)] = Field(
        min_length=1, json_schema_extra={"pattern": CONDITION_PATTERN}
    )
    """Which rows, by columns that the data set keeps (`keep`): "id in FILE", with a line of FILE
    for each value, "id in (1, 2)", 'city == "north" and age < 18'."""
    allow_none: bool = False
    """Do nothing where no row meets the condition, which is refused otherwise."""
    dry_run: bool = False
    """Only look what would be deleted."""


def require_retraining(*, retrain: bool, warm: bool) -> None:
    """Refuse a word on how models are trained anew where none is; ValueError."""
    if warm and not retrain:
        raise ValueError("warm says how models are trained anew. Give retrain, too.")
