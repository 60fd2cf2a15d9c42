"""Weights of the words of text by all rows, which are read once for it (`idf=exact`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import words_of
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.text import DocumentCounts, slots_of
from fewpass.pipeline.tables.encoding.text_recipe import Text, idf_text
from fewpass.pipeline.tables.readers.source import PIECE_BYTES, Piece, TableReader
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.storage.ordered import ordered_map


def with_exact_idf(recipe: Recipe, rows: TableReader, features: Sequence[int]) -> Recipe:
    """Weigh the words of text by all rows.

    Parameters
    ----------
    features
        Where the columns of the recipe are among those of the table.

    Raises
    ------
    BadInput
        There is no text, or the rows can be read once only.
    """
    texts = {k: one for k, one in enumerate(recipe.columns) if isinstance(one, Text)}
    if not texts or rows.files[0].name == STANDARD_INPUT:
        why = "there is none here" if not texts else f"{STANDARD_INPUT} is read once only"
        raise BadInput(
            f"`idf=exact` reads all rows once for the words of text, but {why}. Leave it out."
        )
    counts = _counted(texts, rows, [features[k] for k in texts])
    columns = list(recipe.columns)
    for k, one in texts.items():
        columns[k] = one.model_copy(update={"idf": idf_text(counts[k].weights())})
    return recipe.model_copy(update={"columns": tuple(columns)})


def _counted(
    texts: dict[int, Text], rows: TableReader, used: Sequence[int]
) -> dict[int, DocumentCounts]:
    """Read all rows, on threads; count in how many of them each word of a text is."""
    counts = {k: DocumentCounts(one.bits, one.grams) for k, one in texts.items()}

    def count(piece: Piece) -> list[Any]:
        cells = map(words_of, rows.cells(piece, used).columns)
        pairs = zip(cells, counts.values(), strict=True)
        return [(len(words), *slots_of(words, own.bits, own.grams)) for words, own in pairs]

    threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(threads, "fewpass-idf") as pool:
        pieces = rows.pieces(PIECE_BYTES, used)
        for slots in ordered_map(pool, count, pieces, threads + 1):
            for own, part in zip(counts.values(), slots, strict=True):
                own.add(*part)
    return counts
