"""The events of a training: what displays hear while it runs, and what its log keeps.

An event has a kind, where the training stood (a cursor), and the facts of its kind: a class each.
A line of `log.jsonl` has the fields of that class (docs/format.md, section 5).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from fewpass.pipeline.runs.saved import Cursor
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from fewpass.pipeline.passes.span import SpanReport

Losses = Sequence[tuple[int, float, float]]  # rows of a span, rows monitored, sum of their losses
ON_EVERY_LINE = ("passes", "rows_seen", "rows_in_sweep")  # fields of the cursor
KINDS: dict[str, type[Facts]] = {}  # every class by its kind


@dataclass(frozen=True)
class Facts:
    """The facts of an event; each kind has a class."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls


@dataclass(frozen=True)
class Start(Facts):
    """A training begins."""

    kind = "start"
    n_rows: int
    method: str
    snapshot: str | None = None  # that training continues from
    damaged: Sequence[str] = ()  # a sentence per snapshot passed over
    finished: bool = False
    engine: str = "threads"  # or dask
    why: str = ""
    dashboard: str | None = None  # address
    memory: int = 0  # bytes
    chosen: str | None = None  # why `auto` chose the method
    groups: int = 1  # of classes, trained one after the other
    models: int = 1  # in all of them
    groups_trained: int = 0
    passes_before: float = 0.0  # of those groups
    lam: str | None = None  # what lam was chosen from, a sentence


@dataclass(frozen=True)
class Resume(Start):
    """A training continues from a snapshot."""

    kind = "resume"


@dataclass(frozen=True)
class Work(Facts):
    """The time that reading rows and computing on them took, in one span."""

    rows: int
    bytes_read: int
    seconds: float
    wait_s: float  # the steps waiting for rows
    peak_memory: int  # bytes, of the process that the span ran in
    worker: str = ""  # host and process
    losses: Losses = ()  # inside the span, where the method reports them

    @classmethod
    def of(cls, report: SpanReport, **more: Any) -> Self:
        """Return what the log has of a span's report."""
        names = {each.name for each in fields(cls)}
        own = {name: value for name, value in report._asdict().items() if name in names}
        return cls(**own, **more)


@dataclass(frozen=True)
class Span(Work):
    """Windows of a walk, or steps of a method without windows."""

    kind = "span"
    stream: int = 0
    windows: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    diverged: bool = False
    arrived: bool = False  # at the number of rows that an inner loop was to visit


@dataclass(frozen=True)
class Summed(Work):
    """A part of a sum over all rows."""

    kind = "reduce"
    counts: bool = True  # as a pass


@dataclass(frozen=True)
class SweepEnd(Facts):
    """A walk or a reduction has come to its end."""

    kind = "sweep"
    name: str
    seconds: float  # since the sweep before


@dataclass(frozen=True)
class SnapshotTaken(Facts):
    """A snapshot was written."""

    kind = "snapshot"
    name: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Compiled(Facts):
    """Kernels were compiled in this process."""

    kind = "compile"
    kernels: int
    seconds: float


@dataclass(frozen=True)
class Restart(Facts):
    """The loss exploded; the method begins again with these numbers, among them a new step."""

    kind = "restart"
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Certification(Facts):
    """A bound on the distance to the optimum; of several models the mean and the largest."""

    kind = "certificate"
    objective: float
    gap: float
    relative_gap: float  # what is compared with the tolerance; of several models the largest
    left_passes: float | None = None  # to the tolerance, at the present rate
    margin: float | None = None  # of SIMBA
    margin_bound: float | None = None


@dataclass(frozen=True)
class HeldOut(Facts):
    """Loss and error of held-out rows after an epoch."""

    kind = "validation"
    loss: float
    error: float | None = None


@dataclass(frozen=True)
class Learners(Facts):
    """The learner chosen for every model, where a method runs several of them."""

    kind = "learners"
    models: Sequence[Mapping[str, Any]]  # fields of fewpass.solvers.protocol.ChosenLearner

    def sentence(self) -> str:
        """Name the learner and its lead; of several models, count the learners."""
        if len(self.models) > 1:
            counts = Counter(model["learner"] for model in self.models).most_common()
            each = [f"{learner} for {counted(count, 'model')}" for learner, count in counts]
            if len(counts) == 1:
                each = [f"{counts[0][0]} for all {len(self.models)} models"]
            return f"{', '.join(each)}, by their progressive objectives"
        (one,) = self.models
        first = f"{one['learner']}, progressive objective {one['objective']:.6g}"
        if one["runner_up"] == one["learner"]:
            return f"{first}; all others trailed too far to win, and left"
        return f"{first}; {one['runner_up']} {one['lead']:.2g} behind"


@dataclass(frozen=True)
class Switch(Facts):
    """Another method goes on."""

    kind = "switch"
    method: str
    why: str


@dataclass(frozen=True)
class GroupTrained(Facts):
    """A group of classes is trained."""

    kind = "group"
    first: int = 0
    classes: int = 0
    of: int = 0
    gap: float | None = None


@dataclass(frozen=True)
class Skipped(Facts):
    """Bad rows of a source were left out."""

    kind = "skipped"
    rows: int
    reasons: Sequence[str]


@dataclass(frozen=True)
class Warned(Facts):
    """Something about a source deserves a look."""

    kind = "warning"
    what: str
    sentence: str


@dataclass(frozen=True)
class Stop(Facts):
    """The training was interrupted."""

    kind = "stop"
    snapshot: str | None = None


@dataclass(frozen=True)
class Finish(Facts):
    """The training has come to its end."""

    kind = "finish"
    objective: float | None = None
    certificate: float | None = None
    hinge_certificate: float | None = None  # of the smoothed hinge: the same for the plain hinge
    tol: float | None = None
    relative_gap: float | None = None
    converged: bool | None = None
    left_passes: float | None = None
    weights_sha256: str = ""


@dataclass(frozen=True)
class Event:
    """Something that happened in a training.

    Attributes
    ----------
    facts : Facts
        An object of the class of its kind.
    cursor : Cursor
        Where the training stood; of a line of the log, without the fields that are not logged.
    time : float
        Seconds since 1970.
    """

    facts: Any  # one of Facts: `kind` says which
    cursor: Cursor
    time: float = field(default_factory=time.time)

    @property
    def kind(self) -> str:
        """The name of its kind in the log."""
        return str(self.facts.kind)

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Self | None:
        """Read a line of the log; None where this version does not know it."""
        if (kind := KINDS.get(line["event"])) is None:
            return None
        names = {each.name for each in fields(kind)}
        try:
            facts = kind(**{name: value for name, value in line.items() if name in names})
        except TypeError:  # a field without which there is no such event
            return None
        cursor = Cursor(**{name: line[name] for name in ON_EVERY_LINE if name in line})
        return cls(facts, cursor, datetime.fromisoformat(line["time"]).timestamp())
