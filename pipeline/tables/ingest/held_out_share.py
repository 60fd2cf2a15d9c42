"""Which rows of a piece are held out: the same in an ingest and in a training from files."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.random_split import Mask, held_out_at_random
from fewpass.pipeline.tables.readers.source import Parsed, SplitBy


class AsksForSplit(Protocol):
    """A plan with the settings that say which rows are held out."""

    @property
    def test_by(self) -> str | int | None:
        """Column whose last rows are."""

    @property
    def test_group(self) -> str | int | None:
        """Column whose groups are."""


def split_asked(plan: AsksForSplit, seed: int) -> SplitBy | None:
    """Return the column that rows are held out by; None where they are drawn one by one."""
    if plan.test_by is not None:
        return SplitBy(plan.test_by, "by", seed)
    return None if plan.test_group is None else SplitBy(plan.test_group, "group", seed)


def threshold_in(source: Any, split: SplitBy | None, fraction: float) -> float | None:
    """Read a source once for the key from which on rows are held out; None where none is asked.

    BadInput where its format has no columns to hold out by, or where it can be read once only.
    """
    if split is None or not fraction:
        return None
    if not hasattr(source, "threshold"):
        raise BadInput(
            f"Rows are held out by a column (`{split.setting}`), and this format has none with a "
            "name. Leave it out."
        )
    threshold: float = source.threshold()
    return threshold


class HeldOutShare(NamedTuple):
    """How many rows are held out, and which."""

    fraction: float
    seed: int
    threshold: float | None = None  # of the keys that rows are held out by; None: at random

    def of(self, parsed: Parsed, piece: int) -> Mask:
        """Say which rows (n,) of the piece of that number are held out."""
        if self.threshold is not None:
            assert parsed.split is not None, "the source was asked for it"
            return parsed.split >= self.threshold
        target = parsed.table.target if parsed.among is None else parsed.among.target
        held_out = held_out_at_random(target, self.fraction, self.seed, piece)
        return held_out if parsed.among is None else held_out[parsed.among.good]
