"""The recipe that data sets and models store with the columns of their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.identity_cache import cached_by_identity
from fewpass.storage.column_schema import EncodingRecord, Schema

if TYPE_CHECKING:
    from fewpass.pipeline.tables.encoding.recipe import Recipe


def encoding_of(recipe: Recipe, left_out: Mapping[str, str] | None = None) -> EncodingRecord:
    """Return the record of a recipe, and the reasons of columns that were left out by it."""
    written = recipe.model_dump(mode="json")
    return EncodingRecord(
        n_features=recipe.n_outputs,
        recipe=written,
        left_out=dict(left_out or {}),
        groups=recipe.groups,
        reach=recipe.reach,
    )


def recipe_in(schema: Schema | None) -> Recipe | None:
    """Read the recipe of a schema; None where columns are numbers as they come.

    Raises
    ------
    BadInput
        When it is none, or of other columns than the schema's.
    """
    if schema is None or schema.encoding is None:
        return None
    return _read(schema)


@cached_by_identity
def _read(schema: Schema) -> Recipe:
    assert schema.encoding is not None, "asked before"
    # With Arrow, which numbers need not.
    from fewpass.pipeline.tables.encoding.recipe import Recipe  # noqa: PLC0415
    from fewpass.pipeline.tables.encoding.recipe_faults import faults_in  # noqa: PLC0415

    try:
        recipe = Recipe.model_validate(schema.encoding.recipe)
    except ValidationError as error:
        fault = _fault(error, schema.encoding.recipe)
        raise BadInput(f"The recipe of the columns is none: {fault}. Ingest again.") from error
    fits = recipe.n_outputs == schema.n_features and len(recipe.columns) == len(schema.features)
    if not fits:
        raise BadInput(
            f"The recipe makes {recipe.n_outputs} features of {len(recipe.columns)} columns, where "
            f"{schema.n_features} of {len(schema.features)} were expected. Ingest again."
        )
    if (wrong := next(faults_in(recipe, schema.feature_names), None)) is not None:
        raise BadInput(f"The recipe of the columns is none: {wrong}. Ingest again.")
    return recipe


def _fault(error: ValidationError, recipe: dict[str, Any]) -> str:
    """Return which member of a recipe is wrong, of which column, and why."""
    first = error.errors(include_url=False)[0]
    where, given = [str(part) for part in first["loc"]], first["input"]
    of = ""
    if where[:1] == ["columns"] and len(where) > 1:
        of = f" of column {_name_at(recipe, first['loc'][1])!r}"
        del where[2:3]  # its kind
    said = first["msg"].removeprefix("Value error, ")
    value = f" is {given!r:.60}" if isinstance(given, int | float | str) else ""
    return f"{'.'.join(where) or 'it'}{of}{value} ({said[:1].lower()}{said[1:]})"


def _name_at(recipe: dict[str, Any], place: Any) -> Any:
    try:
        return recipe["columns"][place]["name"]
    except (LookupError, TypeError):
        return place


def feature_names(schema: Schema | None) -> tuple[str, ...] | None:
    """Return the names of a model's features: of output columns, where columns are encoded."""
    recipe = recipe_in(schema)
    if recipe is not None:
        return tuple(recipe.outputs)
    return schema.feature_names if schema is not None else None


def described_columns(schema: Schema | None) -> tuple[tuple[str, str], ...]:
    """Return each encoded column with its encoding in words, and its share of missing cells."""
    recipe = recipe_in(schema)
    if recipe is None:
        return ()
    shares = [
        f"; {100 * p.missing_share:.3g} % missing" * (p.missing_share > 0) for p in recipe.parts
    ]
    became = [(p.name, p.summary + share) for p, share in zip(recipe.parts, shares, strict=True)]
    left_out = schema.encoding.left_out if schema and schema.encoding else {}
    out = [(name, f"nothing: left out, {why}") for name, why in left_out.items()]
    return (*became, *out)


def columns_in_words(schema: Schema | None) -> dict[str, str] | None:
    """Return the use, or the encoding, of every column of the source in words.

    What is made of columns in addition is behind them: two that are crossed, curves and pairs.
    """
    if schema is None or schema.names is None:
        return None
    encoded = dict(described_columns(schema))
    own = {
        column.name or "": encoded.get(column.name or "", f"{column.type}, {column.role}")
        for column in schema.columns
    }
    return own | {name: said for name, said in encoded.items() if name not in own}
