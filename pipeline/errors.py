"""What the pipeline refuses or gives up on; storage has its own two (see storage/folder.py)."""


class BadInput(ValueError):
    """Rows or settings that cannot be used; the message says where, what was found and what to do."""


class PlanMismatch(ValueError):
    """A plan, a data set and a run that do not belong together."""


class Diverged(ArithmeticError):
    """Training left the finite numbers and no smaller step size brought it back."""
