"""A model of a table as one SELECT: cells are read, then numbers and codes, scores, an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from fewpass.pipeline.calibration import Calibration, Sigmoid, Steps
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.hashed_words import WordsOfColumns
from fewpass.pipeline.models.export.model_form import (
    LabelOutput,
    NumberOutput,
    form_of,
)
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.export.sql_dialects import DIALECTS, SqlDialect
from fewpass.pipeline.models.export.sql_query import Query
from fewpass.pipeline.models.export.sql_statement import selected
from fewpass.pipeline.models.export.sql_steps import clipped, interpolated, literal
from fewpass.pipeline.rows.targets import label_text

NO_WORDS: WordsOfColumns = MappingProxyType({})
#: Beyond, exponentials are no numbers, which some databases refuse.
_MOST = 700.0


def as_select(
    model: PlainModel,
    dialect: str = "duckdb",
    table: str = "input",
    words: WordsOfColumns = NO_WORDS,
) -> str:
    """Return a model as one SELECT, which gives all columns of a table and what is predicted.

    Where `predict` refuses a row its answers are NULL.

    Parameters
    ----------
    dialect
        duckdb or postgres.
    table
        Name of the table or the view, with its schema's before a point.
    words
        Of hashed columns, all that are to weigh something.  A row's others are counted in the
        column `unknown_words`.

    Raises
    ------
    BadInput
        The dialect is not known, a column is encoded as SQL cannot, or two names are one to the
        database: the message names them.
    """
    if dialect not in DIALECTS:
        raise BadInput(
            f"There is no dialect {dialect!r} here. Choose one of {', '.join(DIALECTS)}."
        )
    of, form = DIALECTS[dialect], form_of(model)
    answers = [*_answers(of, form.output, len(form.intercept))]
    query = Query(of, len(form.intercept), words)
    for one in form.columns:
        query.add(one)
    if query.unknown:
        answers.append(("unknown_words", "unknown_words"))
    _require_names(of, model, form.names, [name for name, _ in answers])
    source = ".".join(of.named(part) for part in table.split("."))
    scores = selected(["fewpass_row", *query.scored(form.intercept)], query.rows())
    steps = ",\n".join([*query.steps.written(source), f"scores AS ({scores})"])
    named = [f"{answer} AS {of.named(name)}" for name, answer in answers]
    return f"WITH {steps}{selected([of.fields, *named], 'scores')}\n"


def _require_names(
    of: SqlDialect, model: PlainModel, used: Sequence[str], answers: Sequence[str]
) -> None:
    """Refuse names that the database, or who reads by names, takes for one another."""
    schema = model.record.columns if model.record else None
    names = [*used, *(name for name in (schema and schema.names) or () if name not in used)]
    named = {of.alike(name): (name, "an answer") for name in answers}
    if len(named) < len(answers):
        raise BadInput(f"Two labels are one to {of.name}. Choose another dialect, or .json.")
    for name in names:
        other, what = named.setdefault(of.alike(name), (name, "a column"))
        both = {name, other} & {*used}
        if both and (other != name or what == "an answer"):
            raise BadInput(
                f"Column {shown_name(name)} has the name of {what} in SQL: {of.name} takes it for "
                f"{shown_name(other)}. Choose .json, or rename it and train again."
            )


def _answers(
    dialect: SqlDialect, outcome: LabelOutput | NumberOutput, n_scores: int
) -> Iterator[tuple[str, str]]:
    """Yield the columns that are predicted, by name, of the columns s0, s1, ... of scores."""
    if isinstance(outcome, NumberOutput):
        number = f"EXP({clipped('s0', -_MOST, _MOST)})" if outcome.response == "exp" else "s0"
        yield "predicted", clipped(number, *outcome.clip) if outcome.clip else number
        return
    scores = [f"s{k}" for k in range(n_scores)]
    labels = [_label(dialect, one) for one in outcome.classes]
    if n_scores == 1:
        yield (
            "predicted",
            f"CASE WHEN s0 > 0e0 THEN {labels[1]} WHEN s0 <= 0e0 THEN {labels[0]} END",
        )
        yield "score", "s0"
    else:
        highest = f"GREATEST({', '.join(scores)})"
        cases = [f"WHEN s{k} THEN {label}" for k, label in enumerate(labels)]
        yield "predicted", f"CASE {highest} {' '.join(cases)} END"
        yield "score", highest
    if outcome.probabilities is not None:
        shares = _shares(outcome.probabilities, scores)
        shares = [f"1e0 - ({shares[0]})", *shares] if n_scores == 1 else shares
        for label, share in zip(outcome.classes, shares, strict=True):
            yield f"probability_{label_text(label)}", share


def _label(dialect: SqlDialect, label: bool | float | str) -> str:
    if isinstance(label, str):
        return dialect.quoted(label)
    return str(label).upper() if isinstance(label, bool) else repr(label)


def _shares(how: Calibration, scores: list[str]) -> list[str]:
    """Return the probability of the second of two classes, or that of each of several."""
    if isinstance(how, Steps):
        return [interpolated(scores[0], how.scores, how.p)]
    if isinstance(how, Sigmoid):
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
