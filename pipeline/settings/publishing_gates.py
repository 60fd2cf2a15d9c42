"""Gates: what a generation's model must reach on the held-out rows before it is published.

auc >= 0.8                    a figure of all held-out rows
error <= before + 0.01        compared with the model published before
loss@city <= before + 0.05    of every value of a category, each with rows enough
"""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from fewpass.pipeline.decimal_text import DECIMAL
from fewpass.pipeline.errors import BadInput, did_you_mean
from fewpass.pipeline.settings.metric_registry import METRICS

_GATE = re.compile(
    rf"\s*(?P<figure>\w+)\s*(?:@\s*(?P<column>.+?))?\s*(?P<side>[<>]=)\s*"
    rf"(?:(?P<before>before)\s*(?P<by>[+-]\s*{DECIMAL})?|(?P<limit>{DECIMAL}))\s*"
)
#: The same for forms, whose expressions have no names, with the figures that there are.
GATE_PATTERN = re.sub(r"\?P<\w+>", "?:", f"^{_GATE.pattern}$").replace(
    r"(?:\w+)", f"(?:{'|'.join(METRICS)})", 1
)


class Gate(NamedTuple):
    """One gate."""

    written: str
    figure: str
    column: str | None  # whose values are slices; None: all rows
    at_most: bool  # otherwise at least
    relative: bool  # to the figure of the model published before
    number: float

    @classmethod
    def of(cls, written: str) -> Gate:
        """Read a gate; BadInput where it is none."""
        match = _GATE.fullmatch(written)
        if match is None:
            raise BadInput(
                f'"{written}" is no gate. Write for example auc>=0.8, error<=before+0.01, or '
                "loss@city<=before+0.05 for every value of a column."
            )
        figure = match["figure"]
        if figure not in METRICS:
            raise BadInput(
                f'There is no figure "{figure}" for a gate.{did_you_mean(figure, METRICS)} There '
                f"are {', '.join(METRICS)}."
            )
        number = (match["limit"] or match["by"] or "0").replace(" ", "")
        return cls(
            written.strip(), figure, match["column"], match["side"] == "<=",
            match["before"] is not None, float(number),
        )  # fmt: skip

    def passes(self, value: float, before: float | None) -> bool:
        """Say whether a figure is good enough."""
        limit = self.number + (before or 0.0)
        return value <= limit if self.at_most else value >= limit


def _is_gate(written: str) -> str:
    Gate.of(written)
    return written


#: A setting that is a gate.
WrittenGate = Annotated[
    str, AfterValidator(_is_gate), Field(json_schema_extra={"pattern": GATE_PATTERN})
]
