"""Numbers as people write them: the grammar of all that has to tell them from words."""

from __future__ import annotations

#: A regular expression, of Python and of Arrow: 12, -1.5, .5, 1e-3.
DECIMAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
