"""The rule of nights: a verdict on a night's rows, the nights to learn from, the model to publish.

A night's rows are scored before they are learnt.  Where the published model's loss is far above its
usual loss the night waits: nothing is learnt of it until a later night confirms or
quarantines it.  Models are learnt from several windows of nights, and the window whose models had
the least loss on the newest nights is published.  docs/nights.md has the rule in words, and its
results.

Nothing here reads rows or trains: nights are whole numbers, and scores are given.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.past_nights import HALF, PUBLISHED, SINCE, WHOLE, Nights, Past

Window = int | Literal["all"]
Kind = Literal[
    "usual", "waits", "confirms", "quarantines", "takes", "as a week ago", "replaces",
    "waits to replace",
]  # fmt: skip
REPLACES: Kind = "replaces"  # the verdict on files that changed, and on nights learnt anew
TO_REPLACE: Kind = "waits to replace"  # on odd ones
AFTER_TURN: tuple[Kind, ...] = ("confirms", "takes")  # the nights that waited are learnt from

TURNED, WEEK = "turned-", "week"  # candidates: with the nights that wait, and of a week ago
WEEK_NIGHTS = 7
FEW_NIGHTS = 4  # losses that do not yet show how far nights differ
LEAST_SPREAD = 0.04  # of the usual loss, while nights are few
WIDER = 5.0  # the spread of k nights is widened by 1 + 5/k
LEAST_ROWS = 30  # of a night that can be odd, or decide on those that wait
BETTER = 2.0  # standard errors by which a candidate is better
ENOUGH_SCORES = 3  # nights after which a new window competes


class Rule(NamedTuple):
    """The settings."""

    windows: tuple[Window, ...] = (1, 4, 14, "all")
    scored_generations: int = 7  # newest nights whose scores choose the window
    odd: float | None = 4.0  # deviations above the usual loss; None: no night waits
    most_waiting: int = 3
    after_turn: Literal["wait", "publish"] = "wait"
    most_nights: int | None = None  # newest nights that "all" means

    @property
    def by_length(self) -> list[str]:
        """The names of the windows, the longest first."""
        return [str(window) for window in sorted(self.windows, key=_length, reverse=True)]


class NightVerdict(NamedTuple):
    """Verdict on a night's rows, by the nights before."""

    kind: Kind
    nights: Nights  # that wait, are confirmed, quarantined or taken
    deviations: float  # by which the published model's loss is above the usual one
    usual: float  # mean loss
    usual_error: float  # one deviation
    past: Past  # after the night
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
    def of(cls, past: Past, tonight: float, least: float) -> _Usual:
        """Return what the nights before say; tonight is as usual where there are none.

        `least` is the spread of few nights at least, as a share of their loss.
        """
        losses = np.array([loss for _, loss in past.usual] or [tonight])
        k, mean = len(losses), float(losses.mean())
        spread = float(losses.std(ddof=1)) * (1.0 + WIDER / k) if k > 1 else 0.0
        return cls(mean, max(spread, least * abs(mean)) if k < FEW_NIGHTS else spread)

    def deviation(self, error: float) -> float:
        """Return how far a night's loss usually is from the mean."""
        return math.hypot(error, self.spread)

    def deviations(self, loss: float, error: float) -> float:
        """Return by how many deviations a night's loss is above the mean."""
        above, deviation = loss - self.mean, self.deviation(error)
        return above / deviation if deviation else math.copysign(math.inf, above) if above else 0.0


def first(past: Past, night: int, loss: float) -> Past:
    """Return the past after the first night; `loss` is that of its own model on it."""
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
    if past.quarantined:
        made[WHOLE] = _newest(tuple(sorted((*past.used, *past.quarantined))), most)
    return made


def candidates(rule: Rule, past: Past, tonight: int) -> dict[str, Nights]:
    """Return the models that tonight's rows score besides those of last night, and their nights."""
    made: dict[str, Nights] = {}
    if past.waiting:
        windows = learnt_from(rule, past.turned())
        made = {TURNED + name: nights for name, nights in windows.items()}
    before = tonight - WEEK_NIGHTS
    return made | {WEEK: (before,)} if before in past.quarantined and rule.odd is not None else made


def night_verdict(
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
    night = _Night(rule, past, tonight, scores, halves, drifted)
    loss, error = scores.of(PUBLISHED)
    kind, by = night.kind()
    nights, after = night.outcome(kind, by)
    if scores.rows < LEAST_ROWS:  # they are learnt from, and say no more
        kind, nights, after = "usual", (), past.moved((tonight,), "used")
    return NightVerdict(
        kind, nights, night.usual.deviations(loss, error), night.usual.mean,
        night.usual.deviation(error), after, night.explained,
    )  # fmt: skip


def replacement_verdict(
    rule: Rule, past: Past, night: int, scores: Scores, halves: Scores | None = None,
    *, waiting: int = 0, drifted: bool = False,
) -> NightVerdict:  # fmt: skip
    """Return what the rows of a night are whose files have changed.

    Odd ones wait, and those that the night had stay, until as many versions wait as nights may.
    Where the night itself waits they take its place anyway, and it is learnt from if they are not
    odd.  A published model that has learnt from the old rows makes less of the new ones than of
    others: a fault in them has to be larger by that.
    """
    one = _Night(rule, past, night, scores, halves, drifted)
    loss, error = scores.of(PUBLISHED)
    kind, after = REPLACES, past
    odd = one.odd and scores.rows >= LEAST_ROWS
    if odd and night in past.used and waiting < rule.most_waiting and not one.goes_out_at_once:
        kind = TO_REPLACE
    elif night in past.waiting and not odd:
        after = past.learnt(night, loss, None, rule.scored_generations)
    return NightVerdict(
        kind, (night,), one.usual.deviations(loss, error), one.usual.mean,
        one.usual.deviation(error), after, one.explained,
    )  # fmt: skip


class _Night(NamedTuple):
    """A night that is evaluated."""

    rule: Rule
    past: Past
    number: int
    scores: Scores
    halves: Scores | None
    drifted: bool

    @property
    def usual(self) -> _Usual:
        return _Usual.of(self.past, self.scores.of(PUBLISHED)[0], LEAST_SPREAD)

    @property
    def odd(self) -> bool:
        """True if the published model's loss is odd; one that is no number is."""
        if self.rule.odd is None:
            return False
        return (
            self.drifted or not self.usual.deviations(*self.scores.of(PUBLISHED)) <= self.rule.odd
        )

    @property
    def explained(self) -> bool | None:
        """True if a model of an odd night alone explains it."""
        if not self.odd or self.halves is None:
            return None
        return self._explains(self.halves, HALF)

    @property
    def goes_out_at_once(self) -> bool:
        """True if an odd night does not wait, as a model of its own explains it."""
        return self.rule.after_turn == "publish" and bool(self.explained)

    def kind(self) -> tuple[Kind, str | None]:
        """Return what the night is, and the model that decides it."""
        waiting = self.past.waiting
        by = self._confirming() if waiting else None
        if by is not None:
            return "confirms", by
        if not self.odd:
            return ("quarantines" if waiting else "usual"), None
        if self.number - WEEK_NIGHTS in self.past.quarantined and self._better(WEEK):
            return "as a week ago", WEEK
        if self.goes_out_at_once:
            return "takes", HALF
        if len(waiting) < self.rule.most_waiting:
            return "waits", None
        return ("takes" if waiting else "usual"), None

    def outcome(self, kind: Kind, by: str | None) -> tuple[Nights, Past]:
        """Return the nights that a verdict is about, and what is remembered after it.

        What decides of tonight alone leaves those that wait waiting.
        """
        past, with_tonight = self.past, self.past.moved((self.number,), "waiting")
        if kind == "waits":
            return with_tonight.waiting, with_tonight
        if by == HALF:
            return (self.number,), with_tonight.taken(self.number, self.halves)
        if kind in AFTER_TURN:
            return past.waiting, self._after_turn(past.turned())
        if kind == "as a week ago":
            before = (self.number - WEEK_NIGHTS,)
            return before, self._learnt(past.moved(before, "used"))
        nights = past.waiting if kind == "quarantines" else ()
        return nights, self._learnt(past.moved(nights, "quarantined"))

    def _after_turn(self, turned: Past) -> Past:
        """Learn from the night; windows are scored as if the turn had been known last night."""
        names = {name: TURNED + name for name in learnt_from(self.rule, turned)}
        scores = self.scores.renamed(names)
        return turned.learnt(self.number, min(scores.loss), scores, self.rule.scored_generations)

    def _learnt(self, past: Past) -> Past:
        """Learn from the night, with the scores of last night's windows if it had the longest."""
        windows = learnt_from(self.rule, self.past)
        names = {name: name for name in windows if name in self.scores.names}
        scores = self.scores.renamed(names) if self.rule.by_length[0] in names else None
        loss = self.scores.of(PUBLISHED)[0]
        return past.learnt(self.number, loss, scores, self.rule.scored_generations)

    def _confirming(self) -> str | None:
        """Return the best model with the nights that wait that is better, and explains tonight.

        Of two broken nights the first one's model is better on the second, and explains nothing.
        """
        names = [name for name in self.scores.names if name.startswith(TURNED)]
        able = [name for name in names if self._better(name) and self._explains(self.scores, name)]
        return min(able, key=lambda name: self.scores.of(name)[0], default=None)

    def _better(self, name: str) -> bool:
        """Return whether a model is better than the published one on the same rows."""
        mean, error = self.scores.difference(name, PUBLISHED)
        return mean < -BETTER * error

    def _explains(self, scores: Scores, name: str) -> bool:
        """Return whether a model's loss is not odd; few nights are no reason to think so."""
        usual = _Usual.of(self.past, self.scores.of(PUBLISHED)[0], 0.0)
        return self.rule.odd is None or usual.deviations(*scores.of(name)) <= self.rule.odd


def chosen(rule: Rule, past: Past, last: str | None) -> WindowChoice:
    """Return the window with the least mean loss on the newest nights; of equal ones the longest.

    `last` is last night's window.
    """
    newest = past.scores[-rule.scored_generations :]
    scored = [(night, of, base) for night, of in newest if (base := _base(rule, of)) is not None]
    best = WindowChoice(rule.by_length[0], 0.0, 0.0, tuple(one[0] for one in scored), changed=False)
    for name in dict.fromkeys((*rule.by_length, *learnt_from(rule, past))):
        pairs = {night: of.difference(name, base) for night, of, base in scored if name in of.names}
        if len(pairs) < min(len(scored), ENOUGH_SCORES) or not pairs:
            continue
        mean = sum(mean for mean, _ in pairs.values()) / len(pairs)
        error = math.hypot(*(error for _, error in pairs.values())) / len(pairs)
        if mean < best.difference:
            best = WindowChoice(name, mean, error, tuple(pairs), changed=False)
    return best._replace(changed=last is not None and best.window != last)


def _base(rule: Rule, scores: Scores) -> str | None:
    """Return the model that a night's others are compared with: of the longest window, if scored.

    Of halves of a night it is the published one; scores of other windows have none.
    """
    return next((name for name in (rule.by_length[0], PUBLISHED) if name in scores.names), None)


def _length(window: Window) -> float:
    return math.inf if window == "all" else window


def _newest(nights: Nights, count: float) -> Nights:
    return nights if count >= len(nights) else nights[-int(count) :]
