"""The only reading of a source: what a training on it has beyond one on a data set.

Its position, which is part of a snapshot; warnings where buffers of rows differ; held-out rows,
which are complete when all rows were read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from fewpass.pipeline.passes.span import Job, SpanReport
from fewpass.pipeline.rows.from_source import SourceRows
from fewpass.pipeline.rows.source_order import LossDrift, drift_sentence, sorted_sentence
from fewpass.pipeline.rows.source_position import SourcePosition
from fewpass.pipeline.runs.events import Skipped, Warned
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Saved, require_array, unfit
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.training.against_constant import FirstRowsLoss
from fewpass.pipeline.training.engine import Training
from fewpass.solvers.protocol import Solver, State, Weights
from fewpass.solvers.registry import method_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.snapshot import Snapshot


class OneReading:
    """Follows the only reading of a source.

    Attributes
    ----------
    position : SourcePosition
        After the rows that were learnt from.
    """

    def __init__(self, training: Training, rows: SourceRows, solver: Solver) -> None:
        self._training, self.rows = training, rows
        self._counts = method_class(solver.kind).uses_moments
        self.position = SourcePosition(n_features=rows.source.dataset.n_features)
        self._warned = set[str]()
        self._first = FirstRowsLoss.of(rows.source.dataset)

    @property
    def n_features(self) -> int:
        """Columns that rows had so far."""
        return self.position.n_features

    @property
    def record(self) -> RunRecord:
        """The run's record, of as many columns as there are by now."""
        return self._training.run.record().model_copy(update={"n_features": self.n_features})

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Go on from another session's position; BadInput where it has none in a source."""
        if not saved.finished:
            self.rows.source.require_seekable()
        at = saved.source
        if at is None or saved.streams != 1:
            raise unfit(snapshot, "it has no position in a source")
        shape = (at.room_for, 2)
        sums = require_array(snapshot, "moments", shape) if self._counts else None
        self.position = at
        self.rows.start_at(at, sums)

    def follow(self, report: SpanReport) -> Iterator[Warned]:
        """Note the position after a span; yield warnings where buffers differ, each kind once."""
        assert report.arrival is not None, "the span had rows"
        drift, seen = self.position.drift, self.position.rows
        now = LossDrift(
            report.metrics.get("loss_sum", 0.0), int(report.metrics.get("n_monitored", 0))
        )
        self.position = report.arrival.position._replace(drift=now)
        memory = format_bytes(self._training.plan.memory)
        loss, n_monitored = now.loss - drift.loss, now.n_monitored - drift.n_monitored
        if drift.rises(loss, n_monitored) and seen > 0:
            before = drift.loss / drift.n_monitored
            yield from self._once("harder", drift_sentence(before, loss / n_monitored, memory))
        if (group_sums := self.position.of_windows).sorted:
            yield from self._once("sorted", sorted_sentence(group_sums, memory))

    def _once(self, what: str, sentence: str) -> Iterator[Warned]:
        if what not in self._warned:
            self._warned.add(what)
            yield Warned(what, sentence)

    def finish(self) -> Skipped | None:
        """Read to the end; return the facts of rows that were left out, None of none."""
        left_out = self.rows.finish()
        self.position = self.position._replace(left_out=left_out)  # no rows may come after them
        if not left_out.rows:
            return None
        return Skipped(left_out.rows, list(left_out.listed))

    def worse_than_constant(self, job: Job, weights: Weights) -> Warned | None:
        """Warn of a model that is worse on the first rows than the best constant."""
        return self._first.worse(job.problem, job.rule, weights)

    def held_out(self) -> Dataset | None:
        """Return the rows of the source that nothing was learnt from, if there are any."""
        return self.rows.source.held_out(self.n_features)

    def narrowed(self, weights: Weights) -> Weights:
        """Return weights of the columns that there are: states have more."""
        return weights._replace(coef=weights.coef[..., : self.n_features])

    def head(self, solver: Solver, state: Any) -> Any:
        """Return a handle on the weights of a state given by a handle."""
        read = partial(narrowed_weights, solver, self.n_features)
        return self._training.executor.submit_small("weights", read, state)


def narrowed_weights(solver: Solver, n_features: int, state: State) -> Weights:
    """Return a state's weights of the columns that there are."""
    weights = solver.weights(state)
    return weights._replace(coef=weights.coef[..., :n_features])
