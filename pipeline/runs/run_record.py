"""The subject of a run: its plan, its data, the versions that it was begun with."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fewpass.pipeline.planning.forecast import Forecast
from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.planning.problem import loss_of, problem_of
from fewpass.pipeline.rows.targets import label_text, target_rule
from fewpass.pipeline.runs.grid import LamOrigin
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.losses import Problem
from fewpass.storage.column_schema import Groups, Schema
from fewpass.storage.hashed_names import HashedNames, require_columns
from fewpass.storage.kinds import RUN_FORMAT
from fewpass.storage.manifest import Labels, Manifest, OffsetStats, Scaling, Values

FORMAT_VERSION: Final = 1
#: Fields that are those of the data set.
OF_DATA_SET = ("layout", "dtype", "n_rows", "n_features", "targets", "scaling", "offsets")


class RunRecord(BaseModel):
    """The record of a run: written once, before the first row is read."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    format: Literal["fewpass-run"] = RUN_FORMAT
    version: Literal[1] = FORMAT_VERSION
    plan: TrainingPlan
    dataset_fingerprint: str
    """Of the data set that the run reads."""
    layout: str
    n_rows: int
    n_features: int
    targets: Labels | Values
    scaling: Scaling
    offsets: OffsetStats | None = None
    """Means of the rows' offsets; None where they have none."""
    columns: Schema | None = None
    """The columns of that data set's source; None where nothing is known of them."""
    hashed_names: HashedNames = Field(default_factory=dict)
    """Names of columns that names were hashed to, as far as that data set knows them."""
    versions: dict[str, str]
    forecast: Forecast | None = None
    """The forecast of what the training takes; None where nothing was foreseen."""
    warnings: tuple[str, ...] = ()
    """Why the training was not expected to come to its end, in sentences."""
    dtype: Literal["float32", "float64"] = "float32"
    """Of the features of that data set, which rows to predict are read as."""
    methods: MethodChoice | None = None
    """The methods in place of `auto`; None where the plan names one."""
    lam_origin: LamOrigin | None = None
    """The origin of the plan's lam; None where it was given."""
    parts: tuple[str, ...] = ()
    """Fingerprints of the data sets that its data set is a view of."""
    learnt_before: tuple[str, ...] = ()
    """Fingerprints of the data sets that the model it starts from has learnt from."""
    held_out_fingerprint: str | None = None
    """Of the held-out data set, which the model was chosen or measured by."""
    seen: tuple[float, float] | None = None
    """The lowest and the highest target of the data set, and of those that the model it starts from
    has seen: predictions are clipped to it.  None where nothing is clipped."""

    level: float | tuple[float, ...] = 0.0
    """The score that the intercept is charged from, about the best constant: of each class's model
    or score if there are several."""

    @model_validator(mode="after")
    def _fits_together(self) -> RunRecord:
        if self.columns is not None and self.columns.n_features != self.n_features:
            raise ValueError("its columns are not as many as its features")
        require_columns(self.hashed_names, self.n_features)
        return self

    @property
    def feature_groups(self) -> Groups | None:
        """The group of every feature (d,); None where no column became several."""
        return self.columns.feature_groups if self.columns is not None else None

    @property
    def positive(self) -> str | None:
        """The label that counts as +1; None of several classes, and of numbers."""
        code = target_rule(self, loss_of(self.plan, self), self.plan.positive).positive
        if code < 0 or not isinstance(self.targets, Labels):
            return None
        return label_text(self.targets.labels[code])

    def problem(self, lam: float | None = None) -> Problem:
        """Return the problem that was trained, with that lam, or the hardest of several."""
        return problem_of(self.plan, self, lam)._replace(level=self.level)

    def method(self, number: int = 0) -> str:
        """Tell the method; of those that `auto` chose the first, or that and the one after it."""
        if self.methods is None:
            return self.plan.solver.kind
        return ", then ".join(m.kind for m in self.methods.methods[: number + 1])

    @property
    def rows_of(self) -> tuple[str, ...]:
        """Fingerprints of the data sets whose rows it learns from: its own, or a view's parts."""
        return self.parts or (self.dataset_fingerprint,)

    @property
    def learnt(self) -> tuple[str, ...]:
        """Fingerprints of all data sets that the model has learnt from."""
        return tuple(dict.fromkeys((*self.learnt_before, *self.rows_of)))

    @classmethod
    def of(cls, plan: TrainingPlan, manifest: Manifest, **others: Any) -> RunRecord:
        """Return the record of a run that is about to begin on a data set; `others` are fields."""
        own = {name: getattr(manifest, name) for name in OF_DATA_SET}
        return cls(
            plan=plan,
            dataset_fingerprint=manifest.fingerprint,
            parts=tuple(part.fingerprint for part in manifest.parts),
            versions=dict(recorded_versions()),
            **own,
            **others,
        )


@cache
def recorded_versions() -> dict[str, str]:
    """Return what a model's bits depend on; finding a version reads files for milliseconds."""
    return {name: version(name) for name in ("fewpass", "numpy", "numba")}
