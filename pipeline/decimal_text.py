"""Numbers as people write them, and words for nothing: what all readers tell from words."""

from __future__ import annotations

#: A regular expression, of Python and of Arrow: 12, -1.5, .5, 1e-3.
DECIMAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"

#: Words for a missing value, in small letters.
MISSING_WORDS = ("na", "n/a", "nan", "null", "none", "?", "#n/a", "<na>", "(null)")
_SPELT = ({word, word.upper(), word.capitalize()} for word in MISSING_WORDS)
#: Cells that are missing where nobody says which are: these, and those of pandas and MySQL.
NULL_VALUES = tuple(
    sorted({*set().union(*_SPELT), "NaN", "N/a", "-nan", "-NaN", "#NA", "#N/A N/A", "NaT", r"\N"})
)
