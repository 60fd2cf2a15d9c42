"""A table as people have them, made on the spot: words, dates, gaps, a heavy tail, an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

_COUNTRIES = ("CH", "DE", "FR", "IT", "NO", "PT", "SE", "US")
_DEVICES = ("phone", "tablet", "desktop")
_PAGES = 5_000
_BLOCK_ROWS = 50_000
#: Bytes of a row, about.
ROW_BYTES = 66


def write_visits(path: Path, rows: int, seed: int = 0) -> None:
    """Write a CSV of visits to a shop, and whether something was bought.

    The odds of buying follow the device, the country, the log of what was spent before, whether
    that is known, the hour and the page, plus chance.
    """
    with path.open("wb") as file:
        for first in range(0, rows, _BLOCK_ROWS):
            block = _visits(first, min(_BLOCK_ROWS, rows - first), seed)
            options = pa.csv.WriteOptions(include_header=first == 0)
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
