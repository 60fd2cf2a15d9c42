"""Texts of a Dask bag as sparse numbers: counts of words, hashed to columns."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_bag(X: Any) -> bool:
    """Say whether X is a Dask bag."""
    return any(kind.__module__ == "dask.bag.core" for kind in type(X).__mro__)


def hashed(bag: Any) -> Any:
    """Return a bag of texts as dask.array blocks of CSR rows (n, 2^20), one for each partition.

    By dask-ml's HashingVectorizer with scikit-learn's defaults: words in small letters, signed
    counts, rows of length 1.  For other settings transform the bag yourself.
    """
    from dask_ml.feature_extraction.text import HashingVectorizer  # noqa: PLC0415 - a second

    return HashingVectorizer().transform(bag)


def labels_of(bag: Any) -> list[Any]:
    """Return a bag of labels as an array for each partition, delayed."""
    from dask.delayed import delayed  # noqa: PLC0415 - only for those who have collections

    as_array = delayed(np.asarray)
    return [as_array(list_of) for list_of in bag.to_delayed()]
