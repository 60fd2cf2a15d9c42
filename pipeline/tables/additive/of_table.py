"""The form of a table's recipe: targets out of a column, and what to say of what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.encoding import Encoding
from fewpass.pipeline.tables.additive.choosing import Formed
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.trials import SPLINES
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm
from fewpass.pipeline.tables.encoding.cells import Floats, Mask, Written, read_numbers, words_of
from fewpass.pipeline.tables.encoding.labels_or_amounts import are_few_labels
from fewpass.storage.table import are_weights

#: Labels that forms are compared for: of more each row says too little of a pair.
MOST_LABELS = 100


def asked_form(options: Encoding) -> AskedForm:
    """Return the form that settings ask for."""
    pairs = options.pairs
    named = None if pairs is None or isinstance(pairs, int) else tuple(map(_as_pair, pairs))
    form = SPLINES if options.encode == "splines" else "pairs"
    return AskedForm(form, pairs if named is None else named, options.knots, options.pair_bins)  # type: ignore[arg-type]


def _as_pair(word: str) -> tuple[str, str]:
    one, _, other = word.partition(":")
    return one.strip(), other.strip()


def weighted(targets: SampleTargets | None, weight: Floats | None) -> SampleTargets | None:
    """Return targets whose rows count by weights (n,); what is none counts as 1."""
    if targets is None or weight is None:
        return targets
    own = np.where(are_weights(weight), weight, 1.0)
    own = own if targets.weight is None else own * targets.weight
    return targets._replace(weight=own) if own.sum() > 0.0 else targets


def targets_in(
    cells: Any, written: Written | None, task: str, exposure: Floats | None = None
) -> tuple[SampleTargets | None, Mask]:
    """Return the targets of a sample, an Arrow array, and which rows have any.

    Of rows with an exposure (n,) they are what counts are for a unit of it.  None where they are of
    one label, of more than MOST_LABELS, or of numbers that do not differ.
    """
    if written is None:
        words = words_of(cells)
        has = np.asarray(pc.is_valid(words), np.bool_)
        return _of_labels(np.asarray(words.filter(pa.array(has)).to_pylist(), object)), has
    numbers = read_numbers(cells, written).values
    if exposure is not None:
        numbers = np.where(
            exposure > 0.0, numbers / np.where(exposure > 0.0, exposure, 1.0), np.nan
        )
        task = "regression"
    has = np.isfinite(numbers)
    own = numbers[has]
    if task != "regression" and (task == "classification" or _are_labels(own)):
        return _of_labels(own), has
    targets = of_numbers(own)
    if targets is not None and exposure is not None:
        targets = targets._replace(per_exposure=True)
    return targets, has


def _are_labels(numbers: Floats) -> bool:
    whole = bool((numbers == np.round(numbers)).all())
    return whole and are_few_labels(np.unique(numbers), len(numbers))


def of_numbers(numbers: Floats) -> SampleTargets | None:
    """Return standardised targets; None where all are the same, or their squares no numbers."""
    deviation = float(numbers.std()) if len(numbers) else 0.0
    if not 0.0 < deviation * deviation < np.inf:
        return None
    mean = float(numbers.mean())
    return SampleTargets((numbers - mean) / deviation, deviation=deviation, mean=mean)


def _of_labels(labels: Any) -> SampleTargets | None:
    names, codes = np.unique(labels, return_inverse=True)
    if not 1 < len(names) <= MOST_LABELS:
        return None
    if len(names) == 2:
        return SampleTargets(np.where(codes == 1, 1.0, -1.0), 2)
    return SampleTargets(codes.astype(np.float64), len(names))


def notes_on(formed: Formed, dates: Sequence[str], *, unasked: bool = False) -> Iterator[str]:
    """Yield sentences on the form that was chosen, and on dates that it may not hold beyond."""
    own, chosen = formed.recipe.additive, formed.chosen
    if formed.why_linear:
        yield f"The columns have no curves: {formed.why_linear}."
    elif formed.refuted_by is not None and chosen is not None:
        yield (
            f"The model is linear: by the {chosen.figure} {chosen.form} would be taken "
            f"({_losses(chosen)}), but not surely for other days, by fifths of the rows in the "
            f"order of {shown_name(formed.refuted_by)}. If rows of the same days are to be "
            "predicted, hold out some at random (`test_fraction=0.2`), which says so."
        )
    elif chosen is not None and chosen.candidates:
        without = " `encode=linear` leaves curves and pairs out." if unasked and own else ""
        yield (
            f"The form was chosen by the {chosen.figure}: {chosen.form} ({_losses(chosen)})."
            f"{without}"
        )
    if chosen is not None and chosen.strengths:
        yield chosen.strengths
    if chosen is not None and chosen.groups_of:
        of = shown_name(chosen.groups_of)
        yield f"Rows of one {of} stay together when form and lam are chosen."
    if formed.alike_by:
        yield (
            f"Rows of one {shown_name(formed.alike_by)} are alike, and the choice is by rows drawn "
            "at random, for more rows of the same. For rows of others hold out whole groups "
            f"(`test_group={formed.alike_by}`)."
        )
    if own is not None and dates:
        yield (
            f"Column {shown_name(dates[0])} holds dates, and curves and pairs are fitted to the "
            "rows of these dates: on later rows they may be worse than straight lines. Hold out "
            f"the last rows to see (`test_by={dates[0]}`)."
        )


def _losses(chosen: ChosenForm) -> str:
    """Return the losses of all forms in words, and those of one pass where these were measured."""
    each = ", ".join(f"{one.form} {one.loss:.4g}" for one in chosen.candidates)
    once = ", ".join(
        f"{one.form} {one.progressive:.4g}"
        for one in chosen.candidates if one.progressive is not None
    )  # fmt: skip
    if not once:
        return each
    return (
        f"{each}; in one pass, before rows were learnt from (of three classes and more the sum "
        f"over each against the rest): {once}"
    )
