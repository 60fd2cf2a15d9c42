"""The words of hashed columns, read out of files: what databases join in place of hashing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.cells import as_array, hashable
from fewpass.pipeline.tables.encoding.recipe import Recipe, joined
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, HashTerm
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.table_source import TableSource

#: Words, ascending, by the columns that they are of: one, or two that are crossed.
WordsOfColumns = Mapping[tuple[str, ...], Sequence[str]]
#: More are no list of rows that stands in a statement.
MOST_WORDS = 200_000


def hashed_words(recipe: Recipe, record: RunRecord, files: Sequence[str]) -> WordsOfColumns:
    """Return the words that hashed columns have in some files.

    Raises
    ------
    BadInput
        The files cannot be read, lack columns of the model, or have too many words.
    """
    hashed = [one for one in recipe.described() if isinstance(one.terms[0], HashTerm)]
    options = SourceOptions(label_required=False, n_features=record.n_features)
    source = open_source(files, options, None, Expected(record.columns))
    assert isinstance(source, TableSource), "so were the rows that the model learnt from"
    names = sorted({name for one in hashed for name in one.columns})
    seen: dict[tuple[str, ...], set[str]] = {one.columns: set() for one in hashed}
    for cells in source.columns_of_names(names) if names else ():
        columns = dict(zip(names, cells, strict=True))
        for one in hashed:
            seen[one.columns].update(_words(one, columns))
            _require_few(one, len(seen[one.columns]))
    return {columns: sorted(words) for columns, words in seen.items()}


def _words(one: ColumnTerms, columns: Mapping[str, Any]) -> Sequence[str]:
    cells = [columns[name] for name in one.columns]
    words = hashable(cells[0]) if len(cells) == 1 else joined(*cells)
    distinct: list[str] = pc.unique(as_array(words).drop_null()).to_pylist()
    return distinct


def _require_few(one: ColumnTerms, n: int) -> None:
    if n > MOST_WORDS:
        raise BadInput(
            f"Column {' x '.join(one.columns)!r} has more than {MOST_WORDS:,} words, which is too "
            "much for a statement. Choose .onnx, which hashes them."
        )
