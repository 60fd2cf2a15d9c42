"""The events of a store's log."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.night_rule import WindowChoice
from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.past_nights import Past

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
RunName = Annotated[str, Field(pattern=r"^run(-\w+)*$")]  # it leads nowhere out of the store


class StoreEvent(BaseModel):
    """One thing that happened.

    Attributes
    ----------
    number
        In the log, from 1.
    at, by
        UTC, and who: user@machine.
    generation
        Number of what it is about; 0: the whole store.
    why
        A reason, in words.
    past
        What the rule remembers from then on (night_rule.Past); None: what it did before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    number: Natural = 0
    at: str = ""
    by: str = ""
    generation: Natural = 0
    why: str = ""
    past: Past | None = None


class Begun(StoreEvent):
    """A generation began, with these files; `night` is the one whose rows it has."""

    what: Literal["begun"] = "begun"
    files: tuple[FileState, ...]
    night: Positive


class RefusedFile(StoreEvent):
    """A file was not taken, and will not be before it changes, or is read otherwise."""

    what: Literal["refused"] = "refused"
    file: FileState
    reading: str = ""  # digest of the settings of reading


class Cleared(StoreEvent):
    """A refused file is no longer there."""

    what: Literal["cleared"] = "cleared"
    file: str


class FileMoved(StoreEvent):
    """A file of a generation has another name by now."""

    what: Literal["moved"] = "moved"
    then: FileState
    now: FileState


class Dropped(StoreEvent):
    """A generation that had begun was dropped before it had rows; its number is free again."""

    what: Literal["dropped"] = "dropped"


class DriftReported(StoreEvent):
    """Columns moved further than they usually do; `refused`: too far to learn from."""

    what: Literal["drift"] = "drift"
    refused: bool = False


class RowsEvaluated(StoreEvent):
    """The verdict on a night, before its rows are learnt."""

    what: Literal["evaluated"] = "evaluated"
    verdict: str
    files: tuple[str, ...] | None = None  # names of those whose rows these are
    nights: tuple[int, ...] = ()  # that were confirmed, quarantined or taken by it
    scores: Scores | None = None
    deviations: float | None = None  # of the published model's loss from its usual one
    usual: float | None = None
    usual_error: float | None = None
    explained: bool | None = None  # of an odd night, whether a model of its own explains it
    notes: tuple[str, ...] = ()  # on its rows: what somebody should look at


class GateFact(BaseModel):
    """Result of a gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gate: str
    passed: bool
    reason: str


class ModelLearnt(StoreEvent):
    """A generation's models were trained, and one of them chosen."""

    run: RunName  # folder below that of the generation
    runs: dict[str, RunName] = {}  # of the models of all windows, by their names
    weights_sha256: str = ""
    nights: tuple[int, ...] = ()  # that it has learnt from
    rows: Natural = 0
    recipe: str = ""  # digest of the settings of the training
    window: str = ""
    choice: WindowChoice | None = None  # why this window
    objective: float | None = None
    certificate: float | None = None  # at most this far above the optimum
    converged: bool | None = None
    gates: tuple[GateFact, ...] = ()


class Published(ModelLearnt):
    """A model is the one to use from now on."""

    what: Literal["published"] = "published"

    def sentence(self) -> str:
        """Say who published it, and why."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.by} published generation {self.generation:06d} at {self.at}{why}"


class NotPublished(ModelLearnt):
    """A model is not published; its rows are learnt from all the same."""

    what: Literal["kept back"] = "kept back"


class Settled(StoreEvent):
    """Nothing is to be learnt of a generation now: its night waits, or is quarantined."""

    what: Literal["settled"] = "settled"


class Abandoned(StoreEvent):
    """A generation was given up: its files are new again."""

    what: Literal["abandoned"] = "abandoned"


class Taken(StoreEvent):
    """Somebody says that a night that waits, or is quarantined, is right."""

    what: Literal["taken"] = "taken"


class RowsForgotten(StoreEvent):
    """Rows were deleted."""

    what: Literal["forgotten"] = "forgotten"
    rows: Natural


class GenerationRemoved(StoreEvent):
    """Rows or models of an old generation were removed."""

    what: Literal["removed"] = "removed"
    had: tuple[str, ...] = ()  # fingerprints of its rows, where all were forgotten


Event = (
    Begun | RefusedFile | Cleared | FileMoved | Dropped | DriftReported | RowsEvaluated | Published
    | NotPublished | Settled | Abandoned | Taken | RowsForgotten | GenerationRemoved
)  # fmt: skip
EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="what")])
