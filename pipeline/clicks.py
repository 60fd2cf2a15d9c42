"""A reproducible log of clicks as LIBSVM text, of any size: what the demo works on.

Every row is one impression: a few numbers in [0, 1), and one value of each of some categories
(site, advertiser, device, ...).  A category's values follow Zipf's law, most of them are rare, and
each is hashed to a column, as is done with click logs.  Whether the impression was clicked is
drawn from a logistic model with hidden weights, so that the best possible model is known to be
linear, and no model predicts without error.

Everything comes from counters through a hash, so a row depends on the seed and its number only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes, Index, Vector, WholeNumbers

NUMBERS = 6  # columns 1 .. 6
#: Different values of each category, from device types to single pages.
VOCABULARY = (
    4, 8, 12, 24, 30, 60, 90, 150, 300, 500, 800, 1_500, 2_500, 5_000, 10_000, 20_000, 40_000,
    60_000, 100_000, 200_000, 400_000, 700_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000,
)  # fmt: skip
PRESENT = 0.9  # share of impressions that have a value of a given category
BYTES_PER_COLUMN = 512  # more text has more different values: columns for the hash
FEWEST_COLUMNS = 1 << 12
KEPT_SHARE = 3 / 4  # of the memory; the rest is for rows
CLICK_BIAS = -2.6  # of the logit: about one impression in ten is clicked
NUMBER_WEIGHT, CATEGORY_WEIGHT = 1.0, 0.35  # standard deviations of the hidden weights
BATCH_ROWS = 4096
MOST_ROW_BYTES = 2 + (NUMBERS + len(VOCABULARY)) * 16


_COUNTRIES = ("CH", "DE", "FR", "IT", "NO", "PT", "SE", "US")
_DEVICES = ("phone", "tablet", "desktop")
_PAGES = 5_000
_BLOCK_ROWS = 50_000


class ClickFile(NamedTuple):
    """Record of a file that was written."""

    path: Path
    rows: int
    clicks: int
    columns: int
    bytes: int


def columns_for(size: int, memory: int | None = None) -> int:
    """Return how many columns text of that size is hashed to: a power of two.

    `memory`: as many as an ingest and a one-pass training of that budget can take.
    """
    columns = max(size, 1) / BYTES_PER_COLUMN
    if memory is not None:
        columns = min(columns, KEPT_SHARE * Budget.of(memory).rows / Budget.measured_column)
    return max(FEWEST_COLUMNS, 1 << int(math.log2(max(columns, 1.0))))


def require_size(size: int) -> None:
    """Refuse a click log of too few bytes; BadInput."""
    if size < 100_000:
        raise BadInput(f"A click log of {size:,} bytes is too small. Ask for 100kB or more.")


def write_clicks(
    path: Path,
    size: int,
    seed: int = 0,
    on_bytes: Callable[[int], None] = lambda _: None,
    columns: int | None = None,
    first: int = 0,
) -> ClickFile:
    """Write about `size` bytes of text (no less, at most one batch more).

    Parameters
    ----------
    path
        File to write; replaced when it is there.
    size
        Bytes, at least 100 kB.
    seed
        Another seed gives other rows and another hidden model.
    on_bytes
        Called with the bytes written so far, after each batch.
    columns
        How many the categories are hashed to; default `columns_for(size)`.
    first
        Number of the first row: those of another file of this seed may come before.
    """
    require_size(size)
    columns = columns or columns_for(size)
    vocabulary = np.array(VOCABULARY, np.float64)
    buffer = np.empty(BATCH_ROWS * MOST_ROW_BYTES, np.uint8)
    rows = clicks = written = 0
    with path.open("wb") as out:
        while written < size:
            length, clicked = write_rows(
                buffer, first + rows, BATCH_ROWS, seed, columns, vocabulary
            )
            out.write(buffer[:length].data)
            rows, clicks, written = rows + BATCH_ROWS, clicks + clicked, written + length
            on_bytes(written)
    return ClickFile(path, rows, clicks, columns, written)


@kernel
def write_rows(
    out: Bytes, first: int, rows: int, seed: int, columns: int, vocabulary: Vector
) -> tuple[int, int]:
    """Write rows first <= i < first + rows as text; return (bytes, clicks)."""
    categories = np.empty(vocabulary.shape[0], np.int64)
    numbers = np.empty(NUMBERS, np.int64)
    at = clicks = 0
    for i in range(first, first + rows):
        logit = CLICK_BIAS
        for j in range(NUMBERS):  # small ones are more frequent
            u = uniform(seed, 1, i, j)
            numbers[j] = int(1000.0 * u * u)
            logit += NUMBER_WEIGHT * hidden_weight(seed, 2, j, 0) * (0.001 * numbers[j] - 1 / 3)
        count = draw_categories(categories, i, seed, columns, vocabulary)
        for k in range(count):
            logit += CATEGORY_WEIGHT * hidden_weight(seed, 3, categories[k], 0)
        clicked = uniform(seed, 4, i, 0) < 1.0 / (1.0 + math.exp(-logit))
        clicks += clicked

        out[at] = 49 if clicked else 48  # "1" or "0"
        at += 1
        for j in range(NUMBERS):
            if numbers[j] > 0:
                at = write_column(out, at, j + 1)
                at = write_thousandths(out, at, numbers[j])
        for k in range(count):
            at = write_column(out, at, categories[k] + 1)
            out[at] = 49
            at += 1
        out[at] = 10
        at += 1
    return at, clicks


@kernel
def draw_categories(
    categories: WholeNumbers, i: int, seed: int, columns: int, vocabulary: Vector
) -> int:
    """Put the columns of one row's categories into `categories`, ascending and each once."""
    count = 0
    for f in range(vocabulary.shape[0]):
        if uniform(seed, 5, i, f) >= PRESENT:
            continue
        rank = int(vocabulary[f] ** uniform(seed, 6, i, f))  # Zipf: p(rank) ~ 1 / rank
        column = NUMBERS + int(uniform(seed, 7, f, rank) * (columns - NUMBERS))
        k = count
        while k > 0 and categories[k - 1] > column:
            k -= 1
        if k > 0 and categories[k - 1] == column:
            continue
        for m in range(count, k, -1):
            categories[m] = categories[m - 1]
        categories[k] = column
        count += 1
    return count


@kernel
def mix(x: np.uint64) -> np.uint64:
    """Turn a counter into 64 random bits (the finaliser of SplitMix64; Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def uniform(seed: int, purpose: int, i: Index, j: Index) -> float:
    """Return a number in [0, 1) that depends on the arguments only."""
    step = np.uint64(0x9E3779B97F4A7C15)
    x = mix(np.uint64(seed) * step + np.uint64(purpose))
    x = mix(x + np.uint64(i) * step)
    x = mix(x + np.uint64(j) * step)
    return (x >> np.uint64(11)) * (1.0 / (1 << 53))


@kernel
def hidden_weight(seed: int, purpose: int, i: Index, j: Index) -> float:
    """Return a number of mean 0 and variance 1: a hidden weight."""
    total = 0.0
    for k in range(3):
        total += uniform(seed, purpose, i, 4 * j + k)
    return 2.0 * (total - 1.5)


@kernel
def write_column(out: Bytes, at: int, column: Index) -> int:
    """Write a space, the number of a column and a colon."""
    out[at] = 32
    digits = 1
    rest = column // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for k in range(digits, 0, -1):
        out[at + k] = 48 + column % 10
        column //= 10
    out[at + digits + 1] = 58
    return at + digits + 2


@kernel
def write_thousandths(out: Bytes, at: int, thousandths: Index) -> int:
    """Write a number below 1 with three decimals."""
    out[at], out[at + 1] = 48, 46
    out[at + 2] = 48 + thousandths // 100
    out[at + 3] = 48 + thousandths // 10 % 10
    out[at + 4] = 48 + thousandths % 10
    return at + 5


def write_visits(path: Path, rows: int, seed: int = 0, first: int = 0) -> None:
    """Write a CSV of visits to a shop from a first number on, and whether something was bought.

    The odds of buying follow the device, the country, the log of what was spent before, whether
    that is known, the hour and the page, plus chance.
    """
    with path.open("wb") as file:
        for done in range(0, rows, _BLOCK_ROWS):
            block = _visits(first + done, min(_BLOCK_ROWS, rows - done), seed)
            options = pa.csv.WriteOptions(include_header=done == 0)
            pa.csv.write_csv(block, file, options)


def _visits(first: int, n: int, seed: int) -> Any:
    rng = np.random.default_rng([seed, first])
    country = rng.choice(len(_COUNTRIES), n, p=np.arange(8, 0, -1) / 36)
    device = rng.choice(len(_DEVICES), n, p=[0.6, 0.1, 0.3])
    page = np.minimum(rng.zipf(1.4, n), _PAGES) - 1
    spent = rng.lognormal(3.0, 1.5, n).round(2)
    is_new = rng.random(n) < 0.25
    seen = np.datetime64("2026-01-01T00:00:00") + rng.integers(0, 90 * 86_400, n)
    hour = (seen - seen.astype("datetime64[D]")).astype(np.int64) // 3600
    liking = np.random.default_rng(seed + 1).normal(0.0, 0.5, _PAGES)
    odds = 0.8 * (device == 2) + 0.2 * country + 0.5 * np.log1p(spent) - 1.2 * is_new
    odds += liking[page] + 0.5 * (hour >= 18) - 3.6
    bought = rng.random(n) < 1.0 / (1.0 + np.exp(-odds))
    return pa.table(
        {
            "visit": np.arange(first, first + n),
            "seen": pa.array(seen).cast(pa.string()),
            "country": pa.array(np.array(_COUNTRIES)[country]),
            "device": pa.array(np.array(_DEVICES)[device], mask=rng.random(n) < 0.02),
            "page": pa.array([f"/item/{k}" for k in page.tolist()]),
            "spent_before": pa.array(spent, mask=is_new),
            "bought": pa.array(np.where(bought, "yes", "no")),
        }
    )
