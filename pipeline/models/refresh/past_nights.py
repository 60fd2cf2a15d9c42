"""What the rule of nights remembers: which nights are learnt from, wait or are set apart, and why.

All of it follows from the verdicts on the nights, and from what persons did since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from fewpass.pipeline.models.refresh.night_scores import Scores

Nights = tuple[int, ...]

PUBLISHED = "published"
HALF = "half"  # a model of one half of an odd night's rows, scored on the other half
SINCE, WHOLE = "since", "whole"  # windows: the nights since a turn; with those that were set apart
USUAL_NIGHTS = 14


class Past(NamedTuple):
    """Every night is in one of three lists; and losses and scores of the newest that are usual."""

    used: Nights = ()  # learnt from, oldest first
    waiting: Nights = ()
    apart: Nights = ()
    turn: int | None = None  # first night of the newest turn
    usual: tuple[tuple[int, float], ...] = ()  # nights since the turn, the published model's loss
    scores: tuple[tuple[int, Scores], ...] = ()  # nights since the turn, the windows' models
    places: tuple[tuple[int, int], ...] = ()  # nights that came later, and in whose place they are

    def learnt(self, night: int, loss: float, scores: Scores | None, newest: int) -> Past:
        """Learn from a night, of whose scores the newest ones are remembered."""
        one = () if scores is None else ((night, scores),)
        return self.moved((night,), "used")._replace(
            usual=(*self.usual, (night, loss))[-USUAL_NIGHTS:],
            scores=(*self.scores, *one)[-newest:],
        )

    def turned(self) -> Past:
        """Learn from the nights that wait, as from a turn: losses and scores begin anew."""
        turn = min(map(self._place, self.waiting))
        return self.moved(self.waiting, "used")._replace(turn=turn, usual=(), scores=())

    def taken(self, *nights: int, halves: Scores | None = None) -> Past:
        """Learn from nights that were set apart, or that wait: of these as of a turn.

        Scores of halves of the newest say whether the published model or one of its own is better.
        """
        after = self.moved(nights, "used")
        waited = [self._place(night) for night in nights if night in self.waiting]
        if not waited:
            return after
        after = after._replace(turn=min(waited), usual=(), scores=())
        if halves is None:
            return after
        scores, newest = halves.renamed({PUBLISHED: PUBLISHED, SINCE: HALF}), max(waited)
        return after._replace(usual=((newest, min(scores.loss)),), scores=((newest, scores),))

    def set_apart(self, nights: Iterable[int]) -> Past:
        """Learn from these nights in the window that has all, and in no other."""
        nights = tuple(nights)
        return self.moved(nights, "apart").unscored(nights)

    def replaced(self, old: int, new: int) -> Past:
        """Have the rows of a new night stand in the place of those of an old one."""
        place = (new, self._place(old))
        return self._each({old: (new,)})._replace(places=(*self.places, place))

    def without(self, night: int) -> Past:
        """Forget a night whose rows are gone."""
        return self._each({night: ()}).unscored((night,))

    def week_before(self, night: int) -> int | None:
        """Return the night a week before, if it was set apart."""
        return next((n for n in self.apart if self._place(n) == night - 7), None)

    def since_turn(self, nights: Nights) -> Nights:
        """Return those of some nights that are not before the turn."""
        turn = self.turn
        return () if turn is None else tuple(n for n in nights if self._place(n) >= turn)

    def in_order(self, nights: Iterable[int]) -> Nights:
        """Return nights, oldest first."""
        return tuple(sorted(nights, key=self._place))

    def moved(self, nights: Nights, to: Literal["used", "waiting", "apart"]) -> Past:
        """Move nights to one of the lists, wherever they were."""
        others = self._each(dict.fromkeys(nights, ()))
        return others._replace(**{to: self.in_order((*getattr(others, to), *nights))})

    def _each(self, changes: Mapping[int, Nights]) -> Past:
        """Return the past with other nights in place of some, in whichever list they are."""
        used, waiting, apart = (
            tuple(one for night in nights for one in changes.get(night, (night,)))
            for nights in (self.used, self.waiting, self.apart)
        )
        return self._replace(used=used, waiting=waiting, apart=apart)

    def _place(self, night: int) -> int:
        return dict(self.places).get(night, night)

    def unscored(self, nights: Nights) -> Past:
        """Return the past without what these nights' rows said."""
        gone = set(map(self._place, nights))
        return self._replace(
            turn=self.turn if self.since_turn(self.used) else None,
            usual=tuple(pair for pair in self.usual if self._place(pair[0]) not in gone),
            scores=tuple(pair for pair in self.scores if self._place(pair[0]) not in gone),
        )
