"""What a night's rows are to the nights before, what is learnt from, and which model is published.

A night's rows are scored before they are learnt.  Where the published model's loss is far above its
usual loss the night waits: nothing is learnt of it until a later night confirms it, or sets it
apart.  Models are learnt from several windows of nights, and the window whose models had the least
loss on the newest nights is published.  docs/nights.md has the rule in words, and what it comes to.

Nothing here reads rows or trains: nights are whole numbers, and scores are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.past_nights import (
    HALF,
    PUBLISHED,
    SINCE,
    WHOLE,
    Nights,
    Past,
)  # fmt: skip

__all__ = [
    "HALF", "PUBLISHED", "NightVerdict", "Past", "Rule", "Scores", "Window", "WindowChoice",
    "candidates", "chosen", "first", "judged", "learnt_from",
]  # fmt: skip

Window = int | Literal["all"]
Kind = Literal["usual", "waits", "confirms", "sets apart", "takes", "as a week ago"]

TURNED, WEEK = "turned-", "week"  # candidates: with the nights that wait, and of a week ago
FEW_NIGHTS = 4  # losses that do not yet show how far nights differ
LEAST_SPREAD = 0.04  # of the usual loss, while nights are few
WIDER = 5.0  # the spread of k nights is widened by 1 + 5/k
BETTER = 2.0  # standard errors by which a candidate is better
ENOUGH_SCORES = 3  # nights after which a new window competes


class Rule(NamedTuple):
    """The settings."""

    windows: tuple[Window, ...] = (1, 4, 14, "all")
    judge_generations: int = 7  # newest nights whose scores choose the window
    odd: float | None = 4.0  # deviations above the usual loss; None: no night waits
    most_waiting: int = 3
    after_turn: Literal["wait", "publish"] = "wait"
    most_nights: int | None = None  # newest nights that "all" means

    @property
    def by_length(self) -> list[str]:
        """The names of the windows, the longest first."""
        return [str(window) for window in sorted(self.windows, key=_length, reverse=True)]


class NightVerdict(NamedTuple):
    """What a night's rows are to the nights before."""

    kind: Kind
    nights: Nights  # that wait, are confirmed, set apart or taken
    deviations: float  # by which the published model's loss is above the usual one
    usual: float  # mean loss
    usual_error: float  # one deviation
    past: Past  # after the night
    by: str | None = None  # the model that decided: a candidate, or of a half of the night
    explained: bool | None = None  # whether a model of an odd night alone explains it


class WindowChoice(NamedTuple):
    """The window whose model is published."""

    window: str
    difference: float  # mean of its loss less that of the longest window
    error: float  # standard error of this
    nights: Nights  # over which it was scored
    changed: bool  # from last night's


class _Usual(NamedTuple):
    """The usual loss of the published model, and how far nights differ."""

    mean: float
    spread: float

    @classmethod
    def of(cls, past: Past, tonight: float) -> _Usual:
        """Return what the nights before say; tonight is as usual where there are none."""
        losses = np.array([loss for _, loss in past.usual] or [tonight])
        k, mean = len(losses), float(losses.mean())
        spread = float(losses.std(ddof=1)) * (1.0 + WIDER / k) if k > 1 else 0.0
        return cls(mean, max(spread, LEAST_SPREAD * abs(mean)) if k < FEW_NIGHTS else spread)

    def deviation(self, error: float) -> float:
        """Return how far a night's loss usually is from the mean."""
        return math.hypot(error, self.spread)

    def deviations(self, loss: float, error: float) -> float:
        """Return by how many deviations a night's loss is above the mean."""
        above, deviation = loss - self.mean, self.deviation(error)
        return above / deviation if deviation else math.copysign(math.inf, above) if above else 0.0


def first(past: Past, night: int, loss: float) -> Past:
    """Return the past after a night that nothing judges; `loss` is that of its own model on it."""
    return past._replace(usual=(), scores=()).learnt(night, loss, None, 1)


def learnt_from(rule: Rule, past: Past) -> dict[str, Nights]:
    """Return the nights that each window learns from, oldest first.

    No window has more nights than the longest of the settings.
    """
    most = min(max(map(_length, rule.windows)), rule.most_nights or math.inf)
    stored = _newest(past.used, most)
    made = {str(window): _newest(stored, _length(window)) for window in rule.windows}
    if since := past.since_turn(stored):
        made[SINCE] = since
    if past.apart:
        made[WHOLE] = _newest(past.in_order((*past.used, *past.apart)), most)
    return made


def candidates(rule: Rule, past: Past, tonight: int) -> dict[str, Nights]:
    """Return the models that tonight's rows score besides those of last night, and their nights."""
    made: dict[str, Nights] = {}
    if past.waiting:
        windows = learnt_from(rule, past.turned())
        made = {TURNED + name: nights for name, nights in windows.items()}
    before = past.week_before(tonight)
    return made if before is None else made | {WEEK: (before,)}


def judged(
    rule: Rule, past: Past, tonight: int, scores: Scores, halves: Scores | None = None,
    *, drifted: bool = False,
) -> NightVerdict:  # fmt: skip
    """Return what tonight's rows are, by what models made of them before they were learnt.

    `scores` are those of the published model, of last night's model of each window, and of the
    candidates; `halves`, of an odd night, those of the published model and of a model of one half
    on the other half; a night that has `drifted` waits as an odd one does.
    """
    missing = {PUBLISHED, *candidates(rule, past, tonight)} - {*scores.names}
    if missing:
        raise ValueError(f"No scores of {', '.join(sorted(missing))} on night {tonight}.")
    loss, error = scores.of(PUBLISHED)
    usual = _Usual.of(past, loss)
    odd = rule.odd is not None and (drifted or not _explains(rule, usual, scores, PUBLISHED))
    explained = _explains(rule, usual, halves, HALF) if odd and halves is not None else None
    kind, by = _kind(rule, past, scores, usual, odd=odd, explained=explained)
    nights, after = _outcome(rule, past, tonight, scores, halves, kind, by)
    return NightVerdict(
        kind, nights, usual.deviations(loss, error), usual.mean, usual.deviation(error), after,
        by, explained,
    )  # fmt: skip


def _kind(
    rule: Rule, past: Past, scores: Scores, usual: _Usual, *, odd: bool, explained: bool | None
) -> tuple[Kind, str | None]:
    """Return what a night is, and the model that decides it."""
    by = _confirming(rule, past, scores, usual)
    if by is not None:
        return "confirms", by
    if not odd:
        return ("sets apart" if past.waiting else "usual"), None
    if WEEK in scores.names and _better(scores, WEEK):
        return "as a week ago", WEEK
    if rule.after_turn == "publish" and explained:
        return "takes", HALF
    if len(past.waiting) < rule.most_waiting:
        return "waits", None
    return ("takes" if past.waiting else "usual"), None


def _confirming(rule: Rule, past: Past, scores: Scores, usual: _Usual) -> str | None:
    """Return the best of the models with the nights that wait that are better and explain tonight.

    Of two broken nights the first one's model is better on the second, and does not explain it.
    """
    able = [
        name for name in scores.names
        if past.waiting and name.startswith(TURNED)
        and _better(scores, name) and _explains(rule, usual, scores, name)
    ]  # fmt: skip
    return min(able, key=lambda name: scores.of(name)[0], default=None)


def _better(scores: Scores, name: str) -> bool:
    """Whether a model is better than the published one on the same rows."""
    mean, error = scores.difference(name, PUBLISHED)
    return mean < -BETTER * error


def _explains(rule: Rule, usual: _Usual, scores: Scores, name: str) -> bool:
    """Whether a model's loss on a night is not odd; one that is no number is."""
    return rule.odd is None or usual.deviations(*scores.of(name)) <= rule.odd


def _outcome(
    rule: Rule, past: Past, tonight: int, scores: Scores, halves: Scores | None,
    kind: Kind, by: str | None,
) -> tuple[Nights, Past]:  # fmt: skip
    """Return the nights that a verdict is about, and what is remembered after it.

    What decides of tonight alone leaves those that wait waiting.
    """
    with_tonight = past.moved((tonight,), "waiting")
    if kind == "waits":
        return with_tonight.waiting, with_tonight
    if by == HALF:
        return (tonight,), with_tonight.taken(tonight, halves)
    if kind in ("confirms", "takes"):
        turned = past.turned()
        windows = {name: TURNED + name for name in learnt_from(rule, turned)}
        made = scores.renamed(windows)
        return past.waiting, turned.learnt(tonight, min(made.loss), made, rule.judge_generations)
    nights = past.waiting if kind == "sets apart" else ()
    after = past.moved(nights, "apart")
    if kind == "as a week ago":
        nights = tuple(night for night in (past.week_before(tonight),) if night is not None)
        after = past.moved(nights, "used")
    own = _of_windows(rule, past, scores)
    return nights, after.learnt(tonight, scores.of(PUBLISHED)[0], own, rule.judge_generations)


def _of_windows(rule: Rule, past: Past, scores: Scores) -> Scores | None:
    """Return the scores of last night's windows; None where the longest is not among them."""
    names = [name for name in learnt_from(rule, past) if name in scores.names]
    return scores.renamed({name: name for name in names}) if rule.by_length[0] in names else None


def chosen(rule: Rule, past: Past, last: str | None) -> WindowChoice:
    """Return the window with the least mean loss on the newest nights; of equal ones the longest.

    `last` is last night's window.
    """
    longest, scored = rule.by_length[0], past.scores[-rule.judge_generations :]
    best = WindowChoice(longest, 0.0, 0.0, tuple(night for night, _ in scored), changed=False)
    for name in dict.fromkeys((*rule.by_length, *learnt_from(rule, past))):
        one = _compared(name, longest, scored)
        if one is not None and one.difference < best.difference:
            best = one
    return best._replace(changed=last is not None and best.window != last)


def _compared(name: str, longest: str, scored: Sequence[tuple[int, Scores]]) -> WindowChoice | None:
    """Compare a window with the longest on nights that scored both, if these are enough."""
    pairs = [
        (night, scores.difference(name, longest if longest in scores.names else PUBLISHED))
        for night, scores in scored
        if name in scores.names
    ]
    if len(pairs) < max(min(len(scored), ENOUGH_SCORES), 1):
        return None
    mean = sum(mean for _, (mean, _) in pairs) / len(pairs)
    error = math.hypot(*(error for _, (_, error) in pairs)) / len(pairs)
    return WindowChoice(name, mean, error, tuple(night for night, _ in pairs), changed=False)


def _length(window: Window) -> float:
    return math.inf if window == "all" else window


def _newest(nights: Nights, count: float) -> Nights:
    return nights if count >= len(nights) else nights[-int(count) :]
