"""The parts of a SELECT that scores a table: cells, numbers and codes, joins, sums of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.hashed_words import WordsOfColumns
from fewpass.pipeline.models.export.sql_cells import cell_of
from fewpass.pipeline.models.export.sql_dialects import SqlDialect
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.models.export.sql_steps import interpolated, literal, stepped, total
from fewpass.pipeline.tables.encoding.apply_terms import single_reads
from fewpass.pipeline.tables.encoding.cells import places_among
from fewpass.pipeline.tables.encoding.folding import (
    Argument,
    Codes,
    ColumnFunctions,
    Effect,
    Features,
    InteractionEffect,
    Points,
    Words,
)
from fewpass.pipeline.tables.encoding.hashing import hashed_slots
from fewpass.pipeline.tables.encoding.terms import Cell, HashTerm, TwoCells, ValueTerm

#: Words of a column beyond which their weights are joined, and stand in no CASE.
MOST_CASES = 64


class Query:
    """The parts of a SELECT, collected column by column.

    Parameters
    ----------
    dialect
        Of the database.
    n_scores
        K.
    words
        Of hashed columns: what is joined in place of hashing.
    """

    def __init__(self, dialect: SqlDialect, n_scores: int, words: WordsOfColumns) -> None:
        self.dialect, self.words = dialect, words
        self.steps = Statement(dialect)
        self.unknown: list[str] = []
        self.refused: dict[str, None] = {}
        self.joins: list[str] = []
        self.scores: list[list[str]] = [[] for _ in range(n_scores)]

    def add(self, one: ColumnFunctions) -> None:
        """Add the functions of a column; BadInput, by its name, for what SQL does not do."""
        name = "" if isinstance(one.read, TwoCells) else self._cell(one, one.columns, one.read)
        for function in one.functions:
            if not function.weights.any():
                continue
            if isinstance(function, Effect):
                self._add_effect(name, function)
            elif isinstance(function, InteractionEffect):
                self._add_interaction(one, function)
            elif isinstance(function.term, HashTerm):
                self._add_hashes(name, one, function)
            elif isinstance(function.term, ValueTerm):
                x = self._feature(stepped(self.dialect, name, function.term.steps))
                self._add_each(function.weights, partial("COALESCE({1[0]} * {0}, 0e0)".format, x))
            else:
                raise _refused(one, f"SQL computes no {function.term.term} of it")

    def scored(self, intercept: Sequence[float]) -> list[str]:
        """Return the scores, NULL of a row that is refused; and how many words are not known."""
        totals = [
            total([f"CAST({literal(constant)} AS {self.dialect.number})", *parts])
            for constant, parts in zip(intercept, self.scores, strict=True)
        ]
        if self.refused:
            bad = "\n    OR ".join(f"({one})" for one in self.refused)
            totals = [f"CASE WHEN {bad} THEN NULL ELSE {one} END" for one in totals]
        unknown = [f"{' + '.join(self.unknown)} AS unknown_words"] if self.unknown else []
        return [*(f"{one} AS s{k}" for k, one in enumerate(totals)), *unknown]

    def rows(self) -> str:
        """Return what scores are of."""
        return "\n".join(["features", *self.joins])

    def _cell(self, one: ColumnFunctions, columns: Sequence[str], read: Cell) -> str:
        """Read a cell; return the name of the column that it has."""
        try:
            own = one.functions[0]
            hashed = isinstance(own, Features) and isinstance(own.term, HashTerm)
            name, refused = cell_of(self.steps, columns, read, hashed=hashed)
        except BadInput as error:
            raise _refused(one, str(error)) from error
        if refused:
            self.refused[refused] = None
        return name

    def _feature(self, expression: str) -> str:
        return self.steps.add("features", expression)

    def _add_effect(self, cell: str, effect: Effect) -> None:
        """Add what a column adds to each score: by its level, or between points."""
        of, weights = effect.of, effect.weights
        if isinstance(of, Words):
            self._add_words(cell, of, weights)
        elif isinstance(of, Codes):
            code = self._feature(stepped(self.dialect, cell, of.steps))
            self._add_each(weights, lambda w: f"CASE {code} {_whens(w[:-1])} ELSE {w[-1]} END")
        else:
            x = self._feature(stepped(self.dialect, cell, of.steps))
            for score, own in zip(self.scores, weights.T.tolist(), strict=True):
                lines = interpolated(x, of.x, own[:-1]) if any(own[:-1]) else literal(0.0)
                if any(own):
                    score.append(f"COALESCE({lines}, {literal(own[-1])})")

    def _add_each(self, weights: NDArray[np.float64], written: Callable[[list[str]], str]) -> None:
        """Add an expression of its weights (levels,) to each score."""
        for score, own in zip(self.scores, weights.T.tolist(), strict=True):
            if any(own):
                score.append(written([literal(weight) for weight in own]))

    def _add_words(self, cell: str, of: Words, weights: NDArray[np.float64]) -> None:
        differ = (weights[:-2] != weights[-2]).any(axis=1)
        own = {word: k for word, k in _words_of(of).items() if differ[k]}
        read = _in_one_case(cell, of)
        words = [*map(self.dialect.quoted, own)]
        chosen = weights[[*own.values()]]
        alias = f"j{len(self.joins)}"
        if len(words) > MOST_CASES:
            self._join(alias, read, words, chosen)
        for k, score in enumerate(self.scores):
            other, missing = (literal(weight) for weight in weights[-2:, k].tolist())
            weighed = f"COALESCE({alias}.w{k}, {other})"
            if len(words) <= MOST_CASES:
                weighed = _case(read, words, chosen[:, k].tolist(), other)
            if weights[:, k].any():
                score.append(f"CASE WHEN {cell} IS NULL THEN {missing} ELSE {weighed} END")

    def _add_interaction(self, one: ColumnFunctions, both: InteractionEffect) -> None:
        """Join the weights of the levels that rows have: one, two or four."""
        used = np.flatnonzero(both.weights.any(axis=2))
        _, width, n_scores = both.weights.shape
        weights = both.weights.reshape(-1, n_scores)[used]
        cells = zip(one.columns, single_reads(one.read), (both.a, both.b), strict=True)
        a, b = (self._shares(self._cell(one, [name], read), of) for name, read, of in cells)
        for level, share in a:
            for other, other_share in b:
                alias = f"j{len(self.joins)}"
                key = f"{level} * {width} + {other}"
                self._join(alias, key, [*map(str, used.tolist())], weights)
                for k, score in enumerate(self.scores):
                    score.append(f"{share} * {other_share} * COALESCE({alias}.w{k}, 0e0)")

    def _shares(self, cell: str, of: Argument) -> list[tuple[str, str]]:
        """Return expressions of a row's levels, and of its shares of them."""
        if isinstance(of, Words):
            words = [(self.dialect.quoted(word), k) for word, k in _words_of(of).items()]
            read = _in_one_case(cell, of)
            cases = " ".join(f"WHEN {read} = {word} THEN {k}" for word, k in words)
            rare = len(of.values)
            level = f"CASE WHEN {cell} IS NULL THEN {rare + 1} {cases} ELSE {rare} END"
            return [(self._feature(level), "1e0")]
        x = stepped(self.dialect, cell, of.steps)
        if isinstance(of, Codes):
            return [(self._feature(f"COALESCE({x}, {of.size})"), "1e0")]
        return self._shares_between(f"({x})", of)

    def _shares_between(self, x: str, of: Points) -> list[tuple[str, str]]:
        """Return the points next to a number; behind all of them is the level of missing ones."""
        last = len(of.x) - 1
        place = self._feature(interpolated(x, of.x, range(last + 1)))
        left = f"CASE WHEN {place} >= {last} THEN {max(last - 1, 0)} ELSE FLOOR({place}) END"
        left = f"COALESCE({left}, {last + 1})"
        if not last:
            return [(left, "1e0")]
        right = f"COALESCE({place} - {left}, 0e0)"
        return [(left, f"(1e0 - {right})"), (f"({left} + 1)", right)]

    def _add_hashes(self, cell: str, one: ColumnFunctions, function: Features) -> None:
        """Join the weights of the words given; all others weigh nothing, and are counted."""
        words, term = self.words.get(one.columns), function.term
        assert isinstance(term, HashTerm), "it is one of hashes"
        if not words:
            raise _refused(one, "its words are hashed. Say `words=FILES`, whose words are joined")
        places, signs = hashed_slots(pa.array(words, pa.large_string()), term.prefix, term.bits)
        alias = f"j{len(self.joins)}"
        quoted = [*map(self.dialect.quoted, words)]
        self._join(alias, cell, quoted, function.weights[places] * signs[:, None])
        for k, score in enumerate(self.scores):
            missing = literal(float(function.weights[-1, k]))
            weight = f"COALESCE({alias}.w{k}, 0e0)"
            score.append(f"CASE WHEN {cell} IS NULL THEN {missing} ELSE {weight} END")
        is_unknown = f"{cell} IS NOT NULL AND {alias}.word IS NULL"
        self.unknown.append(f"CASE WHEN {is_unknown} THEN 1 ELSE 0 END")

    def _join(
        self, alias: str, cell: str, keys: Sequence[str], weights: NDArray[np.float64]
    ) -> None:
        """Join weights (n, K) to a cell, by literals (n,)."""
        rows = [[key, *map(literal, own)] for key, own in zip(keys, weights.tolist(), strict=True)]
        names = ["word", *(f"w{k}" for k in range(weights.shape[1]))]
        made = self.dialect.table(alias, names, rows)
        self.joins.append(f"LEFT JOIN {made} ON {alias}.word = {cell}")


def _refused(one: ColumnFunctions, why: str) -> BadInput:
    name = " x ".join(one.columns)
    return BadInput(
        f"Column {shown_name(name)} is not for SQL: {why}. Or choose .onnx or .json, or leave the "
        f"column out (ingest with `column={one.columns[0]}=drop`) and train again."
    )


def _words_of(of: Words) -> dict[str, int]:
    """Return the levels of words; where they are alike in any case, of those in small letters."""
    every = places_among(of.values).items()
    return {word: k for word, k in every if not of.any_case or word == word.lower()}


def _in_one_case(cell: str, of: Words) -> str:
    return f"LOWER({cell})" if of.any_case else cell


def _whens(weights: Sequence[str]) -> str:
    return " ".join(f"WHEN {k} THEN {weight}" for k, weight in enumerate(weights))


def _case(cell: str, words: Sequence[str], weights: Sequence[float], other: str) -> str:
    cases = [f"WHEN {w} THEN {literal(x)}" for w, x in zip(words, weights, strict=True)]
    return f"CASE {cell} {' '.join(cases)} ELSE {other} END" if cases else other
