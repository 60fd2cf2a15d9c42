"""Plans of sources: addresses that stay true elsewhere and later, and whether rows come again."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS, server_format
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.readers.source import Source
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT, is_standard_input
from fewpass.storage.addresses import local_path
from fewpass.storage.redaction import shown_address

UNSEEKABLE = (
    f"{STANDARD_INPUT.capitalize()} cannot be read again from its beginning, so this training "
    "cannot go on. Its newest snapshot is a model; to be able to go on, train on a file, or keep "
    "the rows as a data set (`ingest_into`)."
)

ASKED_AGAIN = (
    "Rows of a query may be others when it is asked again, so this training cannot go on. Its "
    "newest snapshot is a model; to be able to go on, ingest the rows and train on the data set."
)


def held_out_bytes(plan: TrainingPlan) -> int:
    """Return the bytes that held-out rows may take."""
    assert plan.source is not None, "the plan names a source"
    return plan.budget.held_out_rows if plan.source.test_fraction > 0.0 else 0


def with_whole_addresses(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan whose sources are named independently of the working directory."""
    assert plan.source is not None, "the plan names a source"
    sources = tuple(map(_whole_address, plan.source.sources))
    source = plan.source.model_copy(update={"sources": sources})
    called = " ".join(map(shown_address, sources))
    return plan.model_copy(update={"source": source, "dataset": called})


def with_table_version(plan: TrainingPlan, source: Source) -> TrainingPlan:
    """Return a plan that names the version of a table which was opened, so that it is read again.

    By then it may not be the newest.
    """
    asked, read = plan.source, source.schema.reading if source.schema else {}
    if asked is None or "table_version" not in read:
        return plan
    options = asked.options.model_copy(update={"table_version": read["table_version"]})
    return plan.model_copy(update={"source": asked.model_copy(update={"options": options})})


def _whole_address(spec: str) -> str:
    if spec in STANDARD_INPUT_WORDS:
        return STANDARD_INPUT_WORDS[0]
    path = local_path(spec)
    return spec if path is None else str(path)


def require_seekable(plan: TrainingPlan) -> None:
    """Refuse to go on with a source that cannot be read again; BadInput."""
    assert plan.source is not None, "the plan names a source"
    if is_standard_input(plan.source.sources):
        raise BadInput(UNSEEKABLE)
    if any(server_format(spec) == "postgresql" for spec in plan.source.sources):
        raise BadInput(ASKED_AGAIN)
