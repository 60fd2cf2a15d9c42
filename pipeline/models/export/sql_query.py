"""The parts of a SELECT that scores a table: cells, numbers and codes, joins, sums of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.folded_terms import lines_of, table_of
from fewpass.pipeline.models.export.hashed_words import WordsOfColumns
from fewpass.pipeline.models.export.sql_cells import cell_of
from fewpass.pipeline.models.export.sql_dialects import SqlDialect
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.models.export.sql_steps import interpolated, literal, stepped, total
from fewpass.pipeline.tables.encoding.cells import places_among
from fewpass.pipeline.tables.encoding.hashing import hashed_slots
from fewpass.pipeline.tables.encoding.terms import (
    Axis,
    Cell,
    CodeAxis,
    CodeTerm,
    ColumnTerms,
    HashTerm,
    HatsTerm,
    MissingTerm,
    NumberCell,
    TableTerm,
    TwoCells,
    ValueTerm,
    WordAxis,
    WordTerm,
)

#: Words of a column beyond which their weights are joined, and stand in no CASE.
MOST_CASES = 64


class Query:
    """The parts of a SELECT, collected column by column.

    Parameters
    ----------
    dialect
        Of the database.
    coef
        Weights (K, d) of the output columns.
    words
        Of hashed columns: what is joined in place of hashing.
    """

    def __init__(
        self, dialect: SqlDialect, coef: NDArray[np.float64], words: WordsOfColumns
    ) -> None:
        self.dialect, self.coef, self.words = dialect, coef, words
        self.steps = Statement(dialect)
        self.unknown: list[str] = []
        self.refused: dict[str, None] = {}
        self.joins: list[str] = []
        self.scores: list[list[str]] = [[] for _ in coef]

    def add(self, one: ColumnTerms) -> None:
        """Add a column; BadInput, by its name, for what SQL does not do."""
        name = "" if isinstance(one.read, TwoCells) else self._cell(one, one.columns, one.read)
        for term in one.terms:
            if isinstance(term, WordTerm):
                self._add_words(name, term)
            elif isinstance(term, HashTerm):
                self._add_hashes(name, one, term)
            elif isinstance(term, HatsTerm):
                self._add_curve(name, term)
            elif isinstance(term, TableTerm):
                self._add_table(one, term)
            elif isinstance(term, ValueTerm | CodeTerm | MissingTerm):
                required = isinstance(one.read, NumberCell) and one.read.required
                self._add_number(name, term, required=required)
            else:
                raise _refused(one, f"SQL computes no {term.term} of it")

    def scored(self, intercept: NDArray[np.float64]) -> list[str]:
        """Return the scores, NULL of a row that is refused; and how many words are not known."""
        totals = [
            total([f"CAST({literal(constant)} AS {self.dialect.number})", *parts])
            for constant, parts in zip(intercept.tolist(), self.scores, strict=True)
        ]
        if self.refused:
            bad = "\n    OR ".join(f"({one})" for one in self.refused)
            totals = [f"CASE WHEN {bad} THEN NULL ELSE {one} END" for one in totals]
        unknown = [f"{' + '.join(self.unknown)} AS unknown_words"] if self.unknown else []
        return [*(f"{one} AS s{k}" for k, one in enumerate(totals)), *unknown]

    def rows(self) -> str:
        """Return what scores are of."""
        return "\n".join(["features", *self.joins])

    def _cell(self, one: ColumnTerms, columns: Sequence[str], read: Cell) -> str:
        """Read a cell; return the name of the column that it has."""
        try:
            hashed = isinstance(one.terms[0], HashTerm)
            name, refused = cell_of(self.steps, columns, read, hashed=hashed)
        except BadInput as error:
            raise _refused(one, str(error)) from error
        if refused:
            self.refused[refused] = None
        return name

    def _feature(self, expression: str) -> str:
        return self.steps.add("features", expression)

    def _add_number(
        self, cell: str, term: ValueTerm | CodeTerm | MissingTerm, *, required: bool
    ) -> None:
        if isinstance(term, CodeTerm):
            weights = self.coef[:, term.at : term.at + term.width]
        else:
            weights = self.coef[:, term.at : term.at + 1]
        if not weights.any():
            return
        if isinstance(term, MissingTerm):
            self._add_each(weights, lambda w: f"CASE WHEN {cell} IS NULL THEN {w[0]} ELSE 0e0 END")
            return
        name = self._feature(stepped(self.dialect, cell, term.steps))
        if isinstance(term, CodeTerm):
            self._add_each(weights, lambda w: f"CASE {name} {_whens(w)} ELSE 0e0 END")
        elif required:
            self._add_each(weights, lambda w: f"{w[0]} * {name}")
        else:
            self._add_each(weights, lambda w: f"{w[0]} * COALESCE({name}, 0e0)")

    def _add_each(self, weights: NDArray[np.float64], written: Any) -> None:
        """Add an expression of its weights to each score."""
        for score, own in zip(self.scores, weights.tolist(), strict=True):
            if any(own):
                score.append(written([literal(weight) for weight in own]))

    def _add_words(self, cell: str, term: WordTerm) -> None:
        weights = self.coef[:, term.at : term.missing + 1]
        if not weights.any():
            return
        others = weights[:, -2:].tolist()
        differ = (weights[:, :-2] != weights[:, -2:-1]).any(axis=0)
        own = {word: k for word, k in places_among(term.values).items() if differ[k]}
        words = [*map(self.dialect.quoted, own)]
        weights = weights[:, [*own.values()]]
        if len(words) > MOST_CASES:
            alias = f"j{len(self.joins)}"
            self._join(alias, cell, words, weights)
            chosen = [f"COALESCE({alias}.w{k}, {literal(o)})" for k, (o, _) in enumerate(others)]
        else:
            pairs = zip(weights.tolist(), others, strict=True)
            chosen = [_case(cell, words, these, other) for these, (other, _) in pairs]
        for k, (weighed, (other, missing)) in enumerate(zip(chosen, others, strict=True)):
            if weights[k].any() or other or missing:
                self.scores[k].append(
                    f"CASE WHEN {cell} IS NULL THEN {literal(missing)} ELSE {weighed} END"
                )

    def _add_curve(self, cell: str, term: HatsTerm) -> None:
        lines = lines_of(term, self.coef)
        if not lines.heights.any():
            return
        x = self._feature(_or(stepped(self.dialect, cell, term.steps), term.missing_as))
        for score, heights in zip(self.scores, lines.heights.T.tolist(), strict=True):
            if any(heights):
                score.append(f"COALESCE({interpolated(x, lines.x.tolist(), heights)}, 0e0)")

    def _add_table(self, one: ColumnTerms, term: TableTerm) -> None:
        """Join the weights of the cells that rows are in: one, two or four."""
        assert isinstance(one.read, TwoCells), "two columns are read"
        weights = table_of(term, self.coef)
        cells = np.flatnonzero((weights != 0.0).any(axis=2))
        if not len(cells):
            return
        flat = weights.reshape(-1, weights.shape[2])[cells].T
        both = zip(one.columns, (one.read.a, one.read.b), (term.a, term.b), strict=True)
        a, b = (self._shares(self._cell(one, [name], read), axis) for name, read, axis in both)
        for level, share in a:
            for other, other_share in b:
                alias = f"j{len(self.joins)}"
                key = f"{level} * {weights.shape[1]} + {other}"
                self._join(alias, key, [*map(str, cells.tolist())], flat)
                for k, score in enumerate(self.scores):
                    score.append(f"{share} * {other_share} * COALESCE({alias}.w{k}, 0e0)")

    def _shares(self, cell: str, axis: Axis) -> list[tuple[str, str]]:
        """Return expressions of a row's levels, and of its shares of them."""
        if isinstance(axis, WordAxis):
            words = [
                (self.dialect.quoted(word), k) for word, k in places_among(axis.values).items()
            ]
            cases = " ".join(f"WHEN {cell} = {word} THEN {k}" for word, k in words)
            rare = len(axis.values)
            level = f"CASE WHEN {cell} IS NULL THEN {rare + 1} {cases} ELSE {rare} END"
            return [(self._feature(level), "1e0")]
        x = stepped(self.dialect, cell, axis.steps)
        if isinstance(axis, CodeAxis):
            cases = " ".join(f"WHEN {k} THEN {level}" for k, level in enumerate(axis.levels[:-1]))
            return [(self._feature(f"CASE {x} {cases} ELSE {axis.levels[-1]} END"), "1e0")]
        last = len(axis.knots) - 1
        x = _or(f"({x})", axis.missing_as)
        place = self._feature(interpolated(x, axis.knots, range(last + 1)))
        left = f"(CASE WHEN {place} >= {last} THEN {last - 1} ELSE FLOOR({place}) END)"
        right = f"COALESCE({place} - {left}, 0e0)"
        return [(left, f"(1e0 - {right})"), (f"({left} + 1)", right)]

    def _add_hashes(self, cell: str, one: ColumnTerms, term: HashTerm) -> None:
        """Join the weights of the words given; all others weigh nothing, and are counted."""
        words = self.words.get(one.columns)
        if not words:
            raise _refused(one, "its words are hashed. Say `words=FILES`, whose words are joined")
        places, signs = hashed_slots(pa.array(words, pa.large_string()), term.prefix, term.bits)
        alias = f"j{len(self.joins)}"
        quoted = [*map(self.dialect.quoted, words)]
        self._join(alias, cell, quoted, self.coef[:, term.at + places] * signs)
        for k, score in enumerate(self.scores):
            missing = literal(float(self.coef[k, term.missing]))
            weight = f"COALESCE({alias}.w{k}, 0e0)"
            score.append(f"CASE WHEN {cell} IS NULL THEN {missing} ELSE {weight} END")
        is_unknown = f"{cell} IS NOT NULL AND {alias}.word IS NULL"
        self.unknown.append(f"CASE WHEN {is_unknown} THEN 1 ELSE 0 END")

    def _join(
        self, alias: str, cell: str, keys: Sequence[str], weights: NDArray[np.float64]
    ) -> None:
        """Join weights (K, n) to a cell, by literals (n,)."""
        rows = [
            [key, *map(literal, own)] for key, own in zip(keys, weights.T.tolist(), strict=True)
        ]
        names = ["word", *(f"w{k}" for k in range(len(weights)))]
        made = self.dialect.table(alias, names, rows)
        self.joins.append(f"LEFT JOIN {made} ON {alias}.word = {cell}")


def _refused(one: ColumnTerms, why: str) -> BadInput:
    name = " x ".join(one.columns)
    return BadInput(
        f"Column {shown_name(name)} is not for SQL: {why}. Or choose .onnx or .json, or leave the "
        f"column out (ingest with `column={one.columns[0]}=drop`) and train again."
    )


def _or(x: str, missing_as: float | None) -> str:
    """Return x, or what it counts as where it is missing."""
    return x if missing_as is None else f"COALESCE({x}, {literal(missing_as)})"


def _whens(weights: Sequence[str]) -> str:
    return " ".join(f"WHEN {k} THEN {weight}" for k, weight in enumerate(weights))


def _case(cell: str, words: Sequence[str], weights: Sequence[float], other: float) -> str:
    cases = [f"WHEN {w} THEN {literal(x)}" for w, x in zip(words, weights, strict=True)]
    return f"CASE {cell} {' '.join(cases)} ELSE {literal(other)} END" if cases else literal(other)
