"""A test for rows of an unshuffled data set that lie sorted, by the sums of its chunks.

Methods that go through the rows in stored order, or through random windows of them, count on
every window being like the whole.  On rows sorted by label they stand still or move away from the
optimum, whatever the order inside a window (docs/evidence.jsonl).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.rows.source_order import CLUSTERED, share_between
from fewpass.pipeline.rows.windows import WindowPlan
from fewpass.storage.manifest import Labels, Manifest, Values

ENOUGH_IN_MEMORY = 0.2  # of the rows in one window: more passes, but they arrive


class Clustering(NamedTuple):
    """Share of the variance that lies between chunks, beyond what a random order leaves."""

    targets: float
    norms: float  # of ||x||^2

    @property
    def matters(self) -> bool:
        """Return whether chunks differ enough to matter."""
        return max(self) > CLUSTERED


def clustering(manifest: Manifest) -> Clustering:
    """Compare the chunks' means of targets and of squared norms with those of the whole."""
    norms, between = manifest.norms, manifest.chunks.squares_between()
    share = partial(share_between, manifest.n_chunks, manifest.n_rows)
    return Clustering(
        targets=share(between.targets, target_variance(manifest.targets)),
        norms=share(between.norms, norms.mean_fourth - norms.mean_square**2),
    )


def target_variance(targets: Labels | Values) -> float:
    """Variance of the stored targets: of the positions of labels, or of numbers."""
    if isinstance(targets, Values):
        return targets.variance
    counts, codes = np.asarray(targets.counts, float), np.arange(len(targets.counts))
    mean = float(counts @ codes) / counts.sum()
    return float(counts @ (codes - mean) ** 2 / counts.sum())


def clustering_warning(manifest: Manifest, windows: WindowPlan) -> str | None:
    """Warn of the order of the rows, with a remedy; None where it does no harm.

    One window that holds everything is permuted as a whole, so that no order can harm.
    """
    in_memory = min(1.0, windows.chunks_per_window / windows.n_chunks)
    if manifest.is_shuffled or in_memory == 1.0:
        return None
    shares = clustering(manifest)
    if not shares.matters:
        return None
    what = "targets" if shares.targets >= shares.norms else "row norms"
    sorted_ = manifest.shuffle.seed is None  # else the parts of a view differ
    fact = "The rows are stored sorted" if sorted_ else "The parts of the view differ"
    harm, cures = "Training takes more passes for it", list[str]()
    if sorted_:
        cures.append("ingest again without `shuffle=false`")
    if in_memory < ENOUGH_IN_MEMORY:
        harm = "Training may stand still or diverge"
        cures.append(f"give `memory` enough for {ENOUGH_IN_MEMORY:.0%} of the rows in a window")
    advice = ", or ".join(cures)
    return (
        f"{fact}: {max(shares):.0%} of the variance of their {what} lies between chunks, and a "
        f"window holds {in_memory:.0%} of the rows. {harm}."
        + (f" {advice[0].upper()}{advice[1:]}." if advice else "")
    )
