"""Results of the gates that a model must pass before it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fewpass.pipeline.models.refresh.store_events import GateFact
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.settings.publishing_gates import Gate

LEAST_ROWS = 30  # of a slice: figures of fewer rows say little


Slices = Mapping[str, Evaluation]
#: Evaluates the rows of every value of a column; of None all rows, under the name "".
Evaluated = Callable[[str | None], Slices]


def results_of(
    gates: tuple[str, ...], new: Evaluated, published: Evaluated | None
) -> tuple[GateFact, ...]:
    """Return what comes of gates.

    Parameters
    ----------
    gates
        As they were written.
    new, published
        Evaluate the new model, and the one published before, if any.
    """
    return tuple(_result(Gate.of(written), new, published) for written in gates)


def _result(gate: Gate, new: Evaluated, published: Evaluated | None) -> GateFact:
    if gate.relative and published is None:
        return GateFact(gate=gate.written, passed=True, reason="it is the first model")
    before = published(gate.column) if gate.relative and published else {}
    looks = list(_looks(gate, new(gate.column), before))
    failed = [one for one in looks if not one.passed]
    if failed:
        return failed[0].model_copy(update={"reason": "; ".join(one.reason for one in failed)})
    if not looks:
        few = f"no value of {gate.column} has {LEAST_ROWS} rows"
        return GateFact(gate=gate.written, passed=False, reason=few)
    worst = looks[0] if gate.column is None else None
    values = "the one value" if len(looks) == 1 else f"all {len(looks)} values"
    every = f"{values} of {gate.column} with at least {LEAST_ROWS} rows passed"
    return GateFact(gate=gate.written, passed=True, reason=worst.reason if worst else every)


def _looks(gate: Gate, new: Slices, before: Slices) -> Iterator[GateFact]:
    """Yield what comes of each slice that has rows enough."""
    for name, evaluation in new.items():
        if gate.column is not None and evaluation.rows < LEAST_ROWS:
            continue
        value, old = evaluation.figure(gate.figure), None
        if gate.relative and name in before:
            old = before[name].figure(gate.figure)
        where = f"{gate.figure} of {gate.column}={name}" if gate.column else gate.figure
        if value is None or (gate.relative and old is None):
            yield GateFact(gate=gate.written, passed=False, reason=f"{where} is not defined")
            continue
        passed = gate.passes(value, old)
        word = (
            ("at most" if gate.at_most else "at least")
            if passed
            else ("above" if gate.at_most else "below")
        )
        limit = _limit(gate, old)
        said = f"{where} is {value:.6g}, {word} {limit}"
        yield GateFact(gate=gate.written, passed=passed, reason=said)


def _limit(gate: Gate, old: float | None) -> str:
    if old is None:
        return f"{gate.number:g}"
    by = f" {'+' if gate.number >= 0 else '-'} {abs(gate.number):g}" if gate.number else ""
    return f"{old:.6g}{by} (the model published before)"
