"""The state of the rule of nights: nights that are learnt from, wait or are quarantined.

All of it follows from the verdicts on the nights, and from what persons did since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from fewpass.pipeline.models.refresh.night_scores import Scores

Nights = tuple[int, ...]

PUBLISHED = "published"
HALF = "half"  # a model of one half of an odd night's rows, scored on the other half
SINCE, WHOLE = (
    "since",
    "whole",
)  # windows: the nights since a turn; with those in quarantine
USUAL_NIGHTS = 14


class Past(NamedTuple):
    """Every night is in one of three lists; and losses and scores of the newest that are usual."""

    used: Nights = ()  # learnt from, oldest first
    waiting: Nights = ()
    quarantined: Nights = ()
    turn: int | None = None  # first night of the newest turn
    usual: tuple[tuple[int, float], ...] = ()  # nights since the turn, the published model's loss
    scores: tuple[tuple[int, Scores], ...] = ()  # nights since the turn, the windows' models

    def learnt(self, night: int, loss: float, scores: Scores | None, newest: int) -> Past:
        """Learn from a night, of whose scores the newest ones are remembered."""
        one = () if scores is None else ((night, scores),)
        return self.moved((night,), "used")._replace(
            usual=(*self.usual, (night, loss))[-USUAL_NIGHTS:],
            scores=(*self.scores, *one)[-newest:],
        )

    def turned(self) -> Past:
        """Learn from the nights that wait, as from a turn: losses and scores begin anew."""
        moved = self.moved(self.waiting, "used")
        return moved._replace(turn=min(self.waiting), usual=(), scores=())

    def taken(self, night: int, halves: Scores | None = None) -> Past:
        """Learn from a night that was quarantined, or that waits: of this as of a turn.

        Scores of its halves say whether the published model or one of the night alone is better.
        Nights that are taken with no other night learnt between them are one turn.
        """
        after = self.moved((night,), "used")
        if night not in self.waiting:
            return after
        goes_on = self.turn is not None and all(one <= self.turn for one, _ in self.usual)
        turn = min(night, self.turn) if self.turn is not None and goes_on else night
        after = after._replace(turn=turn, usual=(), scores=())
        if halves is None:
            return after
        scores = halves.renamed({PUBLISHED: PUBLISHED, SINCE: HALF})
        return after._replace(usual=((turn, min(scores.loss)),), scores=((turn, scores),))

    def quarantine(self, nights: Iterable[int]) -> Past:
        """Learn from these nights in the window that has all, and in no other."""
        nights = tuple(nights)
        return self.moved(nights, "quarantined").unscored(nights)

    def without(self, night: int) -> Past:
        """Learn no more from a night whose rows are gone; what it said of models stays true."""
        return self._others((night,)).unscored(())

    def since_turn(self, nights: Nights) -> Nights:
        """Return those of some nights that are not before the turn."""
        turn = self.turn
        return () if turn is None else tuple(night for night in nights if night >= turn)

    def moved(self, nights: Nights, to: Literal["used", "waiting", "quarantined"]) -> Past:
        """Move nights to one of the lists, wherever they were."""
        others = self._others(nights)
        changed: dict[str, Any] = {to: tuple(sorted((*getattr(others, to), *nights)))}
        return others._replace(**changed)

    def unscored(self, nights: Nights) -> Past:
        """Return the past without what these nights' rows said."""
        return self._replace(
            turn=self.turn if self.since_turn(self.used) else None,
            usual=tuple(pair for pair in self.usual if pair[0] not in nights),
            scores=tuple(pair for pair in self.scores if pair[0] not in nights),
        )

    def _others(self, nights: Nights) -> Past:
        """Return the past without nights, whichever list they are in."""
        lists = (self.used, self.waiting, self.quarantined)
        used, waiting, quarantined = (tuple(n for n in one if n not in nights) for one in lists)
        return self._replace(used=used, waiting=waiting, quarantined=quarantined)
