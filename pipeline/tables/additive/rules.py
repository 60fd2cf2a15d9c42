"""Rules for the number of knots, cells and pairs that a sample of n rows and d columns can bear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Rows from which on there are splines; pairs, in two rounds; and finer pieces of both.
SPLINES, PAIRS, FINE = 50, 500, 2_000
COARSE_LEVELS, FINE_LEVELS = 3, 5
FEW_BINS, BINS = 4, 8
FINER_BINS = 32  # of pairs that the second round takes again
MOST_PAIRS = 60  # of a round
MANY_COLUMNS, MOST_COLUMNS = 150, 1_000
SHARE_OF_MANY = 0.05  # of n: features of pairs, where columns are many
MOST_FEATURES = 20_000  # of splines and pairs together


#: Rows of the sample by which a form is chosen, at most; below this memory there are fewer, as the
#: sample is smaller, too. And their entries, with the bytes that one takes while a form is fitted.
MOST_ROWS, AMPLE_MEMORY = 25_000, 256 << 20
MOST_ENTRIES, BYTES_OF_ENTRY = 5_000_000, 160
LEAST_ROWS = 1_000  # where they fit


#: Rows of a table up to which curves are tried unasked, from those that have any: of more a pass
#: takes much longer.
LEAST_UNASKED, MOST_UNASKED = SPLINES, 500_000
_SIZES = f"{LEAST_UNASKED} to {MOST_UNASKED:,}"
_NOT_UNASKED = {
    "vector": "lists of numbers", "tags": "lists of words", "map": "names with numbers",
    "bins": "bins",
}  # fmt: skip


def against_curves(kinds: Sequence[str], n_rows: int | None) -> str:
    """Return why curves are not tried unasked for a table of columns of these kinds; "": they are.

    `n_rows`: None where rows are not counted before they are read.
    """
    if len(kinds) > MANY_COLUMNS:
        return f"there are {len(kinds):,} columns, and curves are tried for {MANY_COLUMNS} at most"
    others = [kind for kind in kinds if kind in _NOT_UNASKED]
    if others:
        return f"a column holds {_NOT_UNASKED[others[0]]}"
    if n_rows is None:
        return "rows are more than a sample, or not counted before they are read"
    if not LEAST_UNASKED <= n_rows <= MOST_UNASKED:
        return f"there are about {n_rows:,} rows, and curves are tried for {_SIZES}"
    return ""


class AskedForm(NamedTuple):
    """The form that settings ask for; None: the rules decide."""

    form: str = "pairs"  # or splines
    pairs: int | Sequence[tuple[str, str]] | None = None
    knots: int | None = None
    pair_bins: int | None = None
    memory: int = AMPLE_MEMORY
    unasked: bool = False  # curves are to be sure of themselves
    at_random: bool = False  # rows to predict are of the days of those that are learnt from
    plain: bool = False  # without curves numbers are left as they are
    one_pass: bool = False  # rows are learnt from once, as they are read
    wanted: tuple[str, ...] = ()  # columns whose kind settings name

    def errors(self, n: int) -> float:
        """Return by how many standard errors another form than linear has to be better.

        By one where nobody asked, or n rows are too few for pairs; else just better.
        """
        return 1.0 if self.unasked or n < PAIRS else 0.0

    def most_rows(self, entries: int) -> int:
        """Return the rows by which a form is chosen where each has that many entries."""
        share, entries = min(1.0, self.memory / AMPLE_MEMORY), max(1, entries)
        wanted = int(share * min(MOST_ROWS, MOST_ENTRIES // entries))
        fit = self.memory // (BYTES_OF_ENTRY * entries)
        return max(SPLINES, min(fit, max(LEAST_ROWS, wanted)))


class FormRules(NamedTuple):
    """Limits of the splines and pairs that are fitted."""

    levels: int  # of splines; 0: none
    pairs: int  # of a round, at most
    bins: int  # of a number's axis
    rounds: int
    most_cells: int  # features of all pairs
    finer_bins: int  # of a number's axis in pairs that the second round takes again

    @classmethod
    def of(cls, n: int, d: int, asked: AskedForm) -> FormRules:
        """Return the knots, cells and pairs that are fitted to n rows of d columns."""
        levels = 0 if n < SPLINES else COARSE_LEVELS if n < FINE else FINE_LEVELS
        if d > MANY_COLUMNS:
            levels = min(levels, COARSE_LEVELS)
        if asked.knots is not None:
            levels = max(1, (asked.knots - 1).bit_length())
        pairs = 0 if n < PAIRS else min(d, MOST_PAIRS)
        if isinstance(asked.pairs, int):
            pairs = asked.pairs
        bins = asked.pair_bins or (FEW_BINS if n < FINE else BINS)
        cells = min(MOST_FEATURES, int(SHARE_OF_MANY * n)) if d > MANY_COLUMNS else MOST_FEATURES
        alone = n < PAIRS or isinstance(asked.pairs, int)
        pairs = 0 if asked.form == "splines" else pairs
        finer = asked.pair_bins or FINER_BINS
        return cls(levels, pairs, bins, 1 if alone else 2, cells, finer)
