"""Columns of text: words and pairs of words, or runs of characters, hashed and weighted."""

from __future__ import annotations

import base64
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, TextTerm, WordCell
from fewpass.pipeline.tables.encoding.text import LONGEST, MOST_TEXT_BITS, SHORTEST, Grams

#: Entries of a row, on average.
_SLOTS = 64
#: Steps of a unit that logarithms of words' frequencies are written down in.
_IDF_STEPS = 16.0
#: What columns are named by: so many of the commonest words, pairs or runs in so many bytes of the
#: sample, of those that two cells have.
_EXAMPLES, _LOOKED_AT = 5000, 1 << 20
_WORD, _NO_WORD = re.compile(rb"[0-9a-z\x80-\xff]+"), re.compile(rb"[^0-9a-z\x80-\xff]")


class Text(ColumnRecipe):
    """2^bits columns for words and pairs, or for runs of characters; tf-idf, rows of length 1."""

    is_group: ClassVar[bool] = False

    kind: Literal["text"] = "text"
    bits: Annotated[int, Field(ge=1, le=MOST_TEXT_BITS)]
    grams: Grams = "words"
    idf: str
    """Of every slot, a byte each in sixteenths; zlib, base64."""
    examples: tuple[str, ...] = ()
    """Words that many cells of the sample hold, most frequent first: by them columns have names."""

    @model_validator(mode="after")
    def _fits(self) -> Text:
        weights_in(self.idf, self.bits)  # not stored: a copy with others would have them
        return self

    @property
    def outputs(self) -> list[str]:
        """Return a name per column: that of the example that is hashed to it, or its number."""
        names = [f"{self.name}#{k}" for k in range(1 << self.bits)]
        slots = (self._codes & ((1 << self.bits) - 1)).tolist()
        for example, slot in zip(reversed(self.examples), reversed(slots), strict=True):
            names[slot] = f"{self.name}: {example}"
        return names

    @property
    def signs(self) -> Floats:
        """Return the signs of the examples that columns are named by, 1 for the others."""
        slots = (self._codes & ((1 << self.bits) - 1)).tolist()
        return self.signs_of(slots, self._codes.tolist())

    @property
    def _codes(self) -> NDArray[np.int64]:
        return hashes(pa.array(self.examples, pa.large_string()), "")

    @property
    def width(self) -> int:
        return 1 << self.bits

    @property
    def n_slots(self) -> int:
        return _SLOTS

    @property
    def as_setting(self) -> str:
        return "text" if self.grams == "words" else "chars"

    @property
    def summary(self) -> str:
        of = "words and pairs of words" if self.grams == "words" else "runs of 3 to 5 characters"
        return f"text, {of} hashed to {1 << self.bits:,} columns, tf-idf"

    def described(self) -> ColumnTerms:
        terms = (TextTerm(at=0, bits=self.bits, grams=self.grams, idf=self.idf),)
        return ColumnTerms(columns=(self.name,), read=WordCell(), terms=terms)


def weights_in(idf: str, bits: int) -> Floats:
    """Return the weights of words (2^bits,) that are written down; ValueError where none are."""
    try:
        packed = base64.b64decode(idf, validate=True)
        raw = zlib.decompressobj().decompress(packed, 1 << bits)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"idf holds no weights ({error})") from error
    steps = np.frombuffer(raw, np.uint8)
    if steps.size != 1 << bits:
        raise ValueError(f"idf holds {steps.size} weights for {1 << bits} columns")
    return steps / _IDF_STEPS


def idf_text(weights: Floats) -> str:
    """Write the weights of words (2^bits,) down."""
    steps = np.clip(np.rint(weights * _IDF_STEPS), 0, 255).astype(np.uint8)
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode()


def examples_of(words: Any, grams: Grams) -> tuple[str, ...]:
    """Return what many cells of a sample (n,) hold, most frequent first.

    The bytes of each are those that `fewpass.pipeline.tables.encoding.text` hashes.
    """
    parts_of = _words_and_pairs if grams == "words" else _runs
    counts: Counter[bytes] = Counter()
    read = 0
    for cell in words.drop_null():
        text = cell.as_py().encode()[: _LOOKED_AT - read].lower()
        counts.update(set(parts_of(text)))
        read += len(text)
        if read >= _LOOKED_AT:
            break
    often = sorted((-count, part) for part, count in counts.items() if count > 1)[:_EXAMPLES]
    return tuple(part.decode("utf-8", "replace") for _, part in often)


def _words_and_pairs(text: bytes) -> Iterator[bytes]:
    before = None
    for word in _WORD.finditer(text):
        yield word[0]
        if before is not None:
            yield _NO_WORD.sub(b" ", text[before : word.end()])
        before = word.start()


def _runs(text: bytes) -> Iterator[bytes]:
    decoded = text.decode("utf-8", "ignore")
    for size in range(SHORTEST, LONGEST + 1):
        for start in range(len(decoded) - size + 1):
            yield decoded[start : start + size].encode()
