"""How a training can fail by its numbers."""

from __future__ import annotations


class Diverged(ArithmeticError):  # noqa: N818  users read the name, and it says enough
    """The objective grew without bound, and no smaller step size will be tried."""


class Outgrown(Diverged):
    """The model is too large for this method; another one that was chosen can go on from here."""


class Mispaired(ArithmeticError):  # noqa: N818  likewise
    """Weights and numbers per row that do not belong together, though each may be intact."""
