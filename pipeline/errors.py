"""What the pipeline refuses or gives up on; storage has its own two (see storage/folder.py)."""


class BadInput(ValueError):  # noqa: N818 - users read the message, not the name
    """Rows or settings that cannot be used; the message says where, what and what to do."""


class PlanMismatch(ValueError):  # noqa: N818
    """A plan, a data set and a run that do not belong together."""


class Diverged(ArithmeticError):  # noqa: N818
    """Training left the finite numbers and no smaller step size brought it back."""
