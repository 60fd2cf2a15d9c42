"""A month of nights by the rule of `night_rule.py`, with models in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.pipeline.models.refresh.night_rule import (
    NightVerdict,
    Rule,
    candidates,
    chosen,
    first,
    learnt_from,
    night_verdict,
)
from fewpass.pipeline.models.refresh.night_scores import Scores, joint_losses
from fewpass.pipeline.models.refresh.past_nights import HALF, PUBLISHED, Past
from testing.night_streams import FARTHEST, WIDTH, Nights, Vector, losses

CURVATURE_ROWS = 16_000  # of which Newton's matrix is made
ENOUGH = 1e-7  # decrease of the mean objective by one more step


class Models:
    """Logistic models of sets of nights, each trained once, with lam = 1/n."""

    def __init__(self, nights: Nights) -> None:
        x, y = zip(*nights.rows, strict=True)
        self.rows, self.x, self.y = len(y[0]), np.concatenate(x), np.concatenate(y)
        self.made: dict[tuple[int, ...], Vector] = {}

    def of(self, nights: tuple[int, ...], start: Vector | None = None) -> Vector:
        """Return the weights of a set of nights."""
        if nights not in self.made:
            begun = np.zeros(WIDTH) if start is None else start
            self.made[nights] = self._trained(self._runs(nights), begun)
        return self.made[nights]

    def halves(self, published: Vector, night: int) -> Scores:
        """Return what the published model and one of a half of a night make of its other half."""
        begin, middle, end = (int(self.rows * at) for at in (night, night + 0.5, night + 1))
        half = self._trained([slice(begin, middle)], np.zeros(WIDTH))
        other = slice(middle, end)
        return scored({PUBLISHED: published, HALF: half}, self.x[other], self.y[other])

    def _runs(self, nights: tuple[int, ...]) -> list[slice]:
        """Return the rows of nights, those of neighbours together."""
        edges = [k for k, night in enumerate(nights) if k == 0 or night != nights[k - 1] + 1]
        parts = zip(edges, [*edges[1:], len(nights)], strict=True)
        return [slice(nights[a] * self.rows, (nights[b - 1] + 1) * self.rows) for a, b in parts]

    def _trained(self, runs: list[slice], w: Vector) -> Vector:
        """Newton's method; a step that makes the objective larger is halved."""
        n = sum(run.stop - run.start for run in runs)
        objective, gradient = self._objective(runs, w)
        for _ in range(30):
            step = np.linalg.solve(self._curvature(runs, w, max(1, n // CURVATURE_ROWS)), gradient)
            if step @ gradient < ENOUGH * n:
                return w
            while True:
                after = self._objective(runs, w - step)
                if after[0] <= objective or np.abs(step).max() < 1e-9:
                    break
                step = step / 2
            w, (objective, gradient) = w - step, after
        return w

    def _objective(self, runs: list[slice], w: Vector) -> tuple[float, Vector]:
        value, gradient = 0.5 * float(w @ w), w.copy()
        for run in runs:
            x, y = self.x[run], self.y[run]
            scores = np.clip(x @ w, -FARTHEST, FARTHEST)
            value += float(np.sum(np.logaddexp(0.0, scores)) - y @ scores)
            gradient += (1.0 / (1.0 + np.exp(-scores)) - y) @ x
        return value, gradient

    def _curvature(self, runs: list[slice], w: Vector, stride: int) -> Vector:
        """Return Newton's matrix, of one in `stride` rows."""
        made: Vector = np.eye(WIDTH)
        for run in runs:
            x = self.x[run][::stride]
            p = 1.0 / (1.0 + np.exp(-np.clip(x @ w, -FARTHEST, FARTHEST)))
            made += stride * (x.T @ (x * (p * (1.0 - p))[:, None]))
        return made


class Month(NamedTuple):
    """What became of the nights."""

    excess: Vector  # of the model that is published after a night, on the next night
    verdicts: list[NightVerdict]  # from the second night on
    windows: list[str]  # published, by night

    def nights(self, kind: str) -> list[int]:
        """Return the nights with a verdict."""
        return [k for k, one in enumerate(self.verdicts, 1) if one.kind == kind]


def fixed(nights: Nights, models: Models, window: float) -> Vector:
    """Return the excess of the model of the newest nights, always published."""
    weights, excess = np.zeros(WIDTH), []
    for night in range(len(nights.rows)):
        newest = tuple(range(int(max(0, night + 1 - window)), night + 1))
        weights = models.of(newest, weights)
        excess.append(nights.excess(weights, night + 1))
    return np.array(excess)


def by_rule(nights: Nights, models: Models, rule: Rule) -> Month:
    """Run the rule over all nights."""
    published = models.of((0,))
    past = first(Past(), 0, float(losses(published, *nights.rows[0]).mean()))
    last, window = dict.fromkeys(learnt_from(rule, past), published), chosen(rule, past, None)
    excess, verdicts, windows = [nights.excess(published, 1)], [], [window.window]
    for tonight in range(1, len(nights.rows)):
        verdict = _verdict(nights, models, rule, past, tonight, {PUBLISHED: published, **last})
        past = verdict.past
        if verdict.kind != "waits":
            last = {
                name: models.of(own, last.get(name))
                for name, own in learnt_from(rule, past).items()
            }
            window = chosen(rule, past, window.window)
            published = last[window.window]
        verdicts.append(verdict)
        windows.append(window.window)
        excess.append(nights.excess(published, tonight + 1))
    return Month(np.array(excess), verdicts, windows)


def _verdict(
    nights: Nights, models: Models, rule: Rule, past: Past, tonight: int, able: dict[str, Vector]
) -> NightVerdict:
    """Return the verdict on a night; one that waits once more, with the scores of its halves."""
    made = {name: models.of(own) for name, own in candidates(rule, past, tonight).items()}
    scores = scored(able | made, *nights.rows[tonight])
    verdict = night_verdict(rule, past, tonight, scores)
    if verdict.kind != "waits":
        return verdict
    return night_verdict(rule, past, tonight, scores, models.halves(able[PUBLISHED], tonight))


def scored(models: dict[str, Vector], x: Vector, y: Vector) -> Scores:
    """Return what models make of rows."""
    each = np.stack([losses(weights, x, y) for weights in models.values()])
    return Scores.of_sums(tuple(models), joint_losses(each, np.ones(len(y))))
