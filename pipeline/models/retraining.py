"""Models trained anew, each after the one that it begins at."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, NamedTuple

from fewpass.pipeline.models.refresh.work import ShowShare, trained_to_the_end
from fewpass.pipeline.runs.learnt_from import LearntRun
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, NotADataset

_AGAIN = re.compile(r"-g(\d+)$")  # of a run that was trained anew


class Retrained(NamedTuple):
    """Models that were trained anew, by the names of the old ones, and why others were not."""

    results: dict[str, TrainingResult]
    notes: list[str]


def original(run: str) -> str:
    """Return the run that another one is, trained anew once or several times."""
    return _AGAIN.sub("", run)


class Retraining:
    """Trains models anew, each after the one that it begins at."""

    def __init__(
        self, execution: Execution, options: dict[str, Any], *, warm: bool, progress: ShowShare
    ) -> None:
        self._execution, self._options, self._warm = execution, options, warm
        self._progress = progress

    def of(self, learnt: Sequence[LearntRun], had: Collection[str]) -> Retrained:
        """Train runs anew, each next to the old one.

        `had` are the fingerprints of data sets that had the rows: none is learnt from again.
        """
        waiting: dict[str, list[LearntRun]] = {}
        for one in sorted(learnt, key=lambda one: _number(one.run)):
            waiting.setdefault(original(one.run), []).append(one)
        every, made = set(waiting), Retrained({}, [])
        while ready := [base for base, runs in waiting.items() if _start(runs) not in waiting]:
            for base in ready:
                runs = waiting.pop(base)
                reason = self._reason_not_to(runs, every, made, had)
                if reason is None:
                    made.results[base] = self._trained(runs, made)
                else:
                    made.notes.append(f"{runs[-1].run} was not trained anew: {reason}.")
        return made

    def _reason_not_to(
        self, runs: list[LearntRun], learnt: Collection[str], made: Retrained, had: Collection[str]
    ) -> str | None:
        start = _start(runs)
        if runs[-1].plan.source is not None:
            return "it learnt from files, which are not stored"
        try:
            now = Dataset.open(runs[-1].plan.dataset, self._options).manifest
        except (Damaged, NotADataset) as error:  # a view, of which a part has changed
            return f"its rows cannot be read ({error})"
        if not {now.fingerprint, *(part.fingerprint for part in now.parts)}.isdisjoint(had):
            return f"{runs[-1].plan.dataset}, which it learnt from, has the rows still"
        if start is None or start in made.results:
            return None
        if start in learnt or not RunFolder(str(runs[0].plan.start_from), self._options).exists():
            return f"it began at {runs[0].plan.start_from}, which was not, or is gone"
        return None

    def _trained(self, runs: list[LearntRun], made: Retrained) -> TrainingResult:
        """Train the newest of some runs of a name, beginning where the first of them began."""
        newest, start = runs[-1], _start(runs)
        begins = None if start is None else runs[0].plan.start_from
        if start in made.results:
            begins = made.results[start].run
        elif self._warm and newest.itself:
            begins = newest.run
        plan = newest.plan.model_copy(update={"start_from": begins})
        return self.train(plan, self._next_to(newest.run, plan))

    def train(self, plan: TrainingPlan, run: str) -> TrainingResult:
        """Train a model, or go on with it."""
        self._progress(0.0, f"training {run}")
        return trained_to_the_end(plan, run, self._execution, self._options)

    def _next_to(self, run: str, plan: TrainingPlan) -> str:
        """Return the address next to a run for its plan: a free one, or that of this training."""
        now = Dataset.open(plan.dataset, self._options).manifest
        for number in count(now.generation):
            url = f"{original(run)}-g{number}"
            folder = RunFolder(url, self._options)
            if not folder.exists():
                return url
            record = folder.record()
            is_same = record.dataset_fingerprint == now.fingerprint
            if is_same and record.plan.start_from == plan.start_from:
                return url
        raise AssertionError("numbers do not end")


def _number(run: str) -> int:
    match = _AGAIN.search(run)
    return int(match[1]) if match else 0


def _start(runs: Sequence[LearntRun]) -> str | None:
    """Return the name of what the first of some runs began at; None for zero, and for itself."""
    start = runs[0].plan.start_from
    name = None if start is None else original(start)
    return None if name == original(runs[0].run) else name
