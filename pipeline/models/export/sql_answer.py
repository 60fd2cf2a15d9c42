"""What becomes of scores, as SQL: a label with probabilities, or a number."""

from __future__ import annotations

from collections.abc import Iterator

from fewpass.pipeline.models.export.model_form import (
    InterpolatedShares,
    LabelOutput,
    NumberOutput,
    SharesOfScores,
    SigmoidShares,
)
from fewpass.pipeline.models.export.sql_dialects import SqlDialect
from fewpass.pipeline.models.export.sql_steps import clipped, interpolated, literal
from fewpass.pipeline.rows.targets import label_text

#: Beyond, exponentials are no numbers, which some databases refuse.
_MOST = 700.0


def answer(
    dialect: SqlDialect, outcome: LabelOutput | NumberOutput, n_scores: int
) -> Iterator[str]:
    """Yield the columns that are predicted, of the columns s0, s1, ... of scores."""
    if isinstance(outcome, NumberOutput):
        number = f"EXP({clipped('s0', -_MOST, _MOST)})" if outcome.response == "exp" else "s0"
        yield f"{clipped(number, *outcome.clip) if outcome.clip else number} AS predicted"
        return
    scores = [f"s{k}" for k in range(n_scores)]
    labels = [_label(dialect, one) for one in outcome.classes]
    if n_scores == 1:
        yield f"CASE WHEN s0 > 0e0 THEN {labels[1]} ELSE {labels[0]} END AS predicted"
        yield "s0 AS score"
    else:
        highest = f"GREATEST({', '.join(scores)})"
        cases = [f"WHEN s{k} THEN {label}" for k, label in enumerate(labels)]
        yield f"CASE {highest} {' '.join(cases)} END AS predicted"
        yield f"{highest} AS score"
    if outcome.probabilities is not None:
        shares = _shares(outcome.probabilities, scores)
        shares = [f"1e0 - ({shares[0]})", *shares] if n_scores == 1 else shares
        for label, share in zip(outcome.classes, shares, strict=True):
            yield f"{share} AS {dialect.named(f'probability_{label_text(label)}')}"


def _label(dialect: SqlDialect, label: bool | float | str) -> str:
    if isinstance(label, str):
        return dialect.quoted(label)
    return str(label).upper() if isinstance(label, bool) else repr(label)


def _shares(how: SharesOfScores, scores: list[str]) -> list[str]:
    """Return the probability of the second of two classes, or that of each of several."""
    if isinstance(how, InterpolatedShares):
        return [interpolated(scores[0], how.x, how.y)]
    if isinstance(how, SigmoidShares):
        shares = [_sigmoid(f"{literal(how.slope)} * {s} + {literal(how.offset)}") for s in scores]
        return shares if len(shares) == 1 else _normalised(shares)
    sloped = [
        f"({literal(how.slope)} * {s} + {literal(offset)})"
        for s, offset in zip(scores, how.offsets, strict=True)
    ]
    highest = f"GREATEST({', '.join(sloped)})"
    return _normalised([f"EXP({_at_least(f'{s} - {highest}')})" for s in sloped])


def _normalised(shares: list[str]) -> list[str]:
    whole = f"({' + '.join(shares)})"
    return [f"{share} / {whole}" for share in shares]


def _sigmoid(s: str) -> str:
    return f"1e0 / (1e0 + EXP(-({clipped(f'({s})', -_MOST, _MOST)})))"


def _at_least(s: str) -> str:
    return f"CASE WHEN {s} < {literal(-_MOST)} THEN {literal(-_MOST)} ELSE {s} END"
