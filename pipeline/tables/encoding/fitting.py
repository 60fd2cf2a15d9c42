"""A recipe out of a sample of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import HASH_BITS, bins_of
from fewpass.pipeline.tables.encoding.applying import columns_of
from fewpass.pipeline.tables.encoding.category_recipe import Category, Hashed, in_order
from fewpass.pipeline.tables.encoding.cells import (
    STRAY,
    Floats,
    are_flags,
    hashable,
    mean_and_deviation,
    read_numbers,
    says_nothing,
    words_of,
)
from fewpass.pipeline.tables.encoding.date_recipe import GOES_ON, Date, are_years, fitted_date
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.inference import FEW, Inferred, as_asked, infer, is_open
from fewpass.pipeline.tables.encoding.lists import fitted_tags, fitted_vector
from fewpass.pipeline.tables.encoding.maps import fitted_map
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Log, Number, Rank
from fewpass.pipeline.tables.encoding.recipe import AnyColumn, Cross, Recipe, joined
from fewpass.pipeline.tables.encoding.text import MOST_TEXT_BITS, DocumentCounts, Grams, slots_of
from fewpass.pipeline.tables.encoding.text_recipe import Text, examples_of, idf_text

CLIP = 0.005  # share of the sample that is clipped at either end: codes such as 98 are in there
HEAVY = 5.0  # times the median: where p99 is above, and above 1, log1p stands next to it
SMALLEST = 1e-300  # range of numbers below which the quotients of some are none
MOST_RANKS = 16  # numbers whose ranks are written down
#: A rank that is correlated to the value as much adds little to it; normal numbers reach 0.977.
SAME_RANK = 0.97
#: Words among numbers that a recipe names, and characters of each.
MOST_WORDS, SHOWN = 5, 40
MANY_LOWEST = 0.05  # of the sample: where as many have the lowest number these have a column
#: Columns of a hash for every value of the sample; fewer would let more values share one.
COLUMNS_PER_VALUE = 8
#: The same for words and pairs of words of a text, most of which come once and tell nothing.
COLUMNS_PER_SLOT = 2
FEW_TEXT_BITS = 14  # up to as many columns cost nothing: a text of few words has those of values
#: Weights of all classes' models of a text: beyond, words share columns, up to twice this many.
MOST_TEXT_WEIGHTS, MOST_SHARING = 1 << 22, 4
MOST_NAMES = 1 << 15  # of a column of maps
EXAMPLES = 1000  # values of a hashed column that its columns are named by
NO_KINDS: Mapping[str, str] = MappingProxyType({})


class RecipeRules(NamedTuple):
    """Settings of the encoding that the sample alone does not decide."""

    bits: int = HASH_BITS  # of a hash, at most, for columns of many values
    bins: int | None = None  # ranges in place of every number
    ranks: bool = True  # in columns of their own, where they say more than numbers
    most_values: int = 1000  # of a column whose values have columns of their own
    least_rows: int = 10  # with a value that has a column of its own; one in 1000 of a small sample
    kinds: Mapping[str, str] = NO_KINDS  # what columns hold, by name, where that was said
    crosses: Sequence[tuple[str, str]] = ()  # columns whose pairs of values are looked at
    n_rows: int | None = None  # of the table that the sample is drawn from all over; None: unknown
    classes: int = 1  # of the targets, each of which has weights for every column
    null_values: tuple[str, ...] | None = None  # words for a missing value; None: the usual ones

    def enough(self, n: int) -> int:
        """Return how many of n rows a value must be in to have a column of its own.

        A value of a single row tells nothing of others.
        """
        return max(2 if n >= FEW else 1, min(self.least_rows, n // 1000))


def fitted(sample: Any, rules: RecipeRules) -> Recipe:
    """Return the recipe that suits a sample, an Arrow table.

    Raises
    ------
    BadInput
        When a column is of a type that no recipe has, by its name.
    """
    names = sample.column_names
    columns = [
        _with_missing(_column(name, cells, rules), cells)
        for name, cells in zip(names, columns_of(sample, names), strict=True)
    ]
    if not columns:
        raise BadInput("The table has no columns. Give some.")
    crosses = tuple(_cross(pair, sample, rules) for pair in rules.crosses)
    return Recipe(columns=tuple(columns), crosses=crosses, null_values=rules.null_values)


def inferred_by(
    name: str, cells: Any, asked: str | None, null_values: tuple[str, ...] | None
) -> Inferred:
    """Return what a sample of cells (n,) holds: as was asked for, or as the cells tell."""
    if asked is None:
        inferred = infer(name, cells)
    else:
        inferred = as_asked(name, "number" if bins_of(asked) else asked, cells)
    return inferred._replace(missing=(*inferred.missing, *_own_words(null_values)))


def _column(name: str, cells: Any, rules: RecipeRules) -> AnyColumn:
    asked = rules.kinds.get(name)
    bins = bins_of(asked) if asked else rules.bins
    inferred = inferred_by(name, cells, asked, rules.null_values)
    if inferred.kind == "number":
        return _bins(name, cells, bins, inferred) if bins else _number(name, cells, inferred, rules)
    if inferred.kind == "date":
        return fitted_date(name, cells, inferred, whole=rules.n_rows is not None)
    if inferred.kind in ("vector", "tags", "map"):
        return _of_lists(name, cells, inferred, rules)
    if inferred.kind in ("text", "chars"):
        return _text(
            name, hashable(cells), rules, "words" if inferred.kind == "text" else "characters"
        )
    return _category(name, cells, rules, always_hashed=inferred.kind == "hash")


def _own_words(given: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the words for a missing value that not everybody has, of numbers and dates too."""
    words = pa.array(given or (), pa.large_string())
    own: list[str] = words.filter(pc.invert(says_nothing(words))).to_pylist()
    return tuple(own)


def _of_lists(name: str, cells: Any, inferred: Inferred, rules: RecipeRules) -> AnyColumn:
    if inferred.kind == "vector":
        return fitted_vector(name, cells)
    if inferred.kind == "tags":
        return fitted_tags(name, cells, rules.enough(len(cells)), rules.most_values)
    return fitted_map(name, cells, rules.enough(len(cells)), MOST_NAMES)


def _text(name: str, words: Any, rules: RecipeRules, grams: Grams) -> Text:
    n_slots = len(slots_of(words, MOST_TEXT_BITS, grams)[0])
    wide = max(_bits_for(n_slots, COLUMNS_PER_SLOT), min(_bits_for(n_slots), FEW_TEXT_BITS))
    most = max(1, MOST_TEXT_WEIGHTS // rules.classes).bit_length() - 1
    shared = max(most, _bits_for(n_slots, 1) - (MOST_SHARING.bit_length() - 1))
    bits = min(rules.bits, MOST_TEXT_BITS, max(min(wide, shared), 1))
    counted = DocumentCounts(bits, grams)
    counted.add(len(words), *slots_of(words, counted.bits, grams))
    return Text(
        name=name, bits=counted.bits, grams=grams, idf=idf_text(counted.weights()),
        examples=examples_of(words, grams),
    )  # fmt: skip


def _with_missing(column: AnyColumn, cells: Any) -> AnyColumn:
    """Return the recipe of a column with the share of the sample that is missing."""
    if isinstance(column, Number):
        return column  # has it
    missing = cells.null_count
    if isinstance(column, Date):
        missing = np.isnan(column.read(cells).values).sum()
    return column.model_copy(update={"missing_share": _share(missing, cells)})


def _share(n: Any, cells: Any) -> float:
    return round(float(n) / max(1, len(cells)), 6)


def _cross(of: tuple[str, str], sample: Any, rules: RecipeRules) -> Cross:
    unknown = [name for name in of if name not in sample.column_names]
    if unknown:
        raise BadInput(
            f"There is no column {unknown[0]!r} to cross. Name two of {sample.column_names[:20]}."
        )
    both = joined(*columns_of(sample, of))
    pairs = _category(f"{of[0]} x {of[1]}", both, rules, always_hashed=True)
    assert isinstance(pairs, Hashed), "as was asked for"
    return Cross(of=of, pairs=pairs)


def _number(name: str, cells: Any, inferred: Inferred, rules: RecipeRules) -> Number:
    every, bad = read_numbers(cells, inferred.written, inferred.missing)
    words = _rare_words(cells, bad)
    missing = np.isnan(every) if bad is None or words else np.isnan(every) & ~bad
    present = every[~np.isnan(every)]
    fields: dict[str, Any] = {
        "name": name, "has_missing": bool(missing.any()), "written": inferred.written,
        "missing": inferred.missing, "missing_share": _share(np.isnan(every).sum(), cells),
        "is_open": not inferred.said and is_open(cells, inferred.written, every),
    } | (words or {})  # fmt: skip
    if not len(present):
        return Number(low=0.0, high=0.0, mean=0.0, deviation=1.0, **fields)
    low, median, p99, high = np.quantile(present, (CLIP, 0.5, 0.99, 1.0 - CLIP)).tolist()
    if low == high and (rare := _rare(present, low, rules)) is not None:
        return Number(**rare, **fields)
    if are_years(present):  # a trend may go on, as that of dates does
        low, high = float(present.min()), float(present.max())
        high += GOES_ON * (high - low)
    clipped = np.clip(present, low, high)
    mean, deviation = map(float, mean_and_deviation(clipped))
    if np.ptp(clipped) < SMALLEST:
        low = high = mean
    constant = deviation <= 1e-12 * abs(mean) or low == high
    fields |= {"low": low, "high": high, "mean": mean}
    fields["deviation"] = 1.0 if constant else deviation
    if constant:
        return Number(**fields)
    features = [(clipped - mean) / deviation]
    if present.min() >= 0.0 and p99 > max(1.0, HEAVY * median):
        fields["log"], values = _log(clipped)
        features.append(values)
    if rules.ranks:
        fields |= _rank_and_lowest(present, features, low)
    return Number(**fields)


def _rare(present: Floats, usual: float, rules: RecipeRules) -> dict[str, Any] | None:
    """Return the members of the recipe of numbers (n,) nearly all `usual`, such as a rare flag.

    They would be clipped to it. Their range is 1, as that of a word's feature, so that rare ones do
    not become huge. None where as few rows have others as have none of a word.
    """
    others = present[present != usual]
    if len(others) < rules.enough(len(present)):
        return None
    low, high = np.quantile(others, (CLIP, 1.0 - CLIP)).tolist()
    low, high = min(low, usual), max(high, usual)
    mean = float(np.clip(present, low, high).mean())
    return {"low": low, "high": high, "mean": mean, "deviation": high - low}


def _rare_words(cells: Any, bad: Any) -> dict[str, Any] | None:
    """Return the members of the recipe on words among numbers; None where such cells are bad.

    Of few cells, or where they are many, nobody can tell what they are.
    """
    if len(cells) - cells.null_count < FEW:
        return None
    if bad is None:
        return {"takes_words": True}
    if bad.sum() > STRAY * (len(cells) - cells.null_count):
        return None
    words = pc.unique(cells.filter(pa.array(bad)))[:MOST_WORDS].to_pylist()
    shown = tuple(word[:SHOWN] for word in words)
    return {"takes_words": True, "n_words": int(bad.sum()), "words": shown}


def _log(clipped: Floats) -> tuple[Log | None, Floats]:
    """Return the logarithm that stands next to numbers of a heavy tail, and its values (n,)."""
    logs = np.log1p(clipped)
    mean, deviation = map(float, mean_and_deviation(logs))
    log = Log(mean=mean, deviation=deviation or 1.0)
    return log, log.of(clipped)


def _rank_and_lowest(present: Floats, features: list[Floats], low: float) -> dict[str, Any]:
    """Return the rank and the lowest numbers of a sample (n,), where they say more than values."""
    values, places, counts = np.unique(present, return_inverse=True, return_counts=True)
    if len(present) < FEW or len(values) <= 2:
        return {}
    fields: dict[str, Any] = {}
    lowest = max(low, float(values[0]))
    if (present <= lowest).mean() >= MANY_LOWEST:
        fields["lowest"] = lowest
    shares = (np.cumsum(counts) - counts / 2) / len(present)
    chosen = np.unique(np.searchsorted(shares, np.linspace(0.0, 1.0, MOST_RANKS)))
    chosen = np.unique(np.minimum(chosen, len(values) - 1))
    ranks = np.interp(values, values[chosen], shares[chosen])[places]
    mean, deviation = float(ranks.mean()), float(ranks.std())
    if _correlation(features, ranks - mean) <= SAME_RANK * deviation:
        fields["rank"] = Rank(
            values=tuple(values[chosen].tolist()), shares=tuple(shares[chosen].tolist()),
            mean=mean, deviation=deviation,
        )  # fmt: skip
    return fields


def _correlation(features: list[Floats], centred: Floats) -> float:
    """Return the deviation of centred numbers as explained by standardised columns (n,)."""
    if len(features) == 1:
        return abs(float(np.mean(features[0] * centred)))
    X = np.column_stack(features)
    explained = X @ np.linalg.lstsq(X, centred, rcond=None)[0]
    return float(np.sqrt(np.mean(explained * explained)))


def _bins(name: str, cells: Any, count: int, inferred: Inferred) -> Bins:
    every, bad = read_numbers(cells, inferred.written, inferred.missing)
    present = every[~np.isnan(every)]
    edges = np.unique(np.quantile(present, np.arange(1, count) / count)) if len(present) else ()
    return Bins(
        name=name, edges=tuple(float(edge) for edge in edges), written=inferred.written,
        missing=inferred.missing, takes_words=_rare_words(cells, bad) is not None,
    )  # fmt: skip


def _category(
    name: str, cells: Any, rules: RecipeRules, *, always_hashed: bool
) -> Category | Hashed:
    words = words_of(cells)
    values, counts = _counted(words)
    if not are_flags(values) and _are_spelled_flags(values):
        values, counts = _counted(pc.utf8_lower(words))  # True of one file and TRUE of another
    if always_hashed or len(values) > rules.most_values:
        return _hashed(name, hashable(cells), rules)
    often = [values[k] for k in np.flatnonzero(counts >= rules.enough(len(cells))).tolist()]
    return Category(name=name, values=in_order(often))


def _are_spelled_flags(values: Sequence[str]) -> bool:
    """Return whether words are true and false, in several spellings."""
    return len(values) <= FEW and are_flags({value.lower() for value in values})


def _hashed(name: str, words: Any, rules: RecipeRules) -> Hashed:
    values, counts = _counted(words)
    # Where counts are equal the value decides: their order depends on how rows were cut.
    most = sorted(zip((-counts).tolist(), values, strict=True))[:EXAMPLES]
    bits = min(rules.bits, _bits_for(len(values)))
    return Hashed(
        name=name, bits=bits, examples=tuple(value for _, value in most),
        collisions=_collisions(name, pa.array(values, pa.large_string()), bits),
    )  # fmt: skip


def _counted(words: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Return different words, and how often each comes."""
    counted = pc.value_counts(words.drop_null())
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    return counted.field("values").to_pylist(), counts


def _collisions(name: str, values: Any, bits: int) -> float:
    """Return the share of different values that are hashed to the column of another one."""
    columns = np.abs(hashes(values, f"{name}=")) % (1 << bits)
    _, counts = np.unique(columns, return_counts=True)
    return round(float(counts[counts > 1].sum() / max(1, columns.size)), 6)


def _bits_for(values: int, columns: int = COLUMNS_PER_VALUE) -> int:
    """Return the bits of a hash of that number of values, with `columns` for each."""
    return max(1, (columns * values).bit_length() - 1)


def as_sample(table: Any, rows: int, seed: int) -> Any:
    """Return rows of an Arrow table, drawn without replacement, in their order."""
    if table.num_rows <= rows:
        return table
    chosen = np.random.default_rng(seed).choice(table.num_rows, rows, replace=False)
    return table.take(pa.array(np.sort(chosen)))
