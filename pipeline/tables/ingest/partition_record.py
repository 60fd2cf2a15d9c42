"""What is on record of rows that were partitioned: checked before an ingest goes on from it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fewpass.pipeline.settings.ingest_plan import ScalingKind

Natural = Annotated[int, Field(ge=0, le=1 << 48)]
Pair = tuple[Natural, Natural]  # of training and test rows


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Targets(_Strict):
    words: list[str]
    names: list[str] = []
    word_counts: list[Pair]
    numbers: list[tuple[float, Pair]] | None
    whole: bool
    n_rows: Pair
    mean: tuple[float, float]
    deviation: tuple[float, float]
    range: tuple[tuple[float, float] | None, tuple[float, float] | None]


class _Buckets(_Strict):
    n_buckets: Annotated[int, Field(ge=1, le=1 << 20)]
    kind: tuple[Literal["dense", "sparse"], Literal["float32", "float64"], Natural | None, bool]
    shuffled: bool
    n_rows: Natural
    nnz: Natural
    n_bytes: Natural
    generations: Annotated[int, Field(ge=1, le=1 << 20)]


class _Scaler(_Strict):
    kind: ScalingKind
    scale: str | None
    shift: str | None


class _Partitioned(_Strict):
    n_features: Natural
    encoder: _Targets
    scaler: _Scaler | None
    buckets: Annotated[list[_Buckets], Field(min_length=1, max_length=2)]
    n_skipped: dict[str, Natural]
    skipped: list[str]
    n_merged: Natural
    n_beyond: Natural
    orders: list[tuple[str, str] | None]


def require_record(state: dict[str, Any], groups: int) -> None:
    """Refuse what `partition_as_state` does not write; ValueError says which member.

    `groups` is 2 where there are test rows.
    """
    try:
        _Partitioned.model_validate_json(json.dumps(state))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    for name in ("buckets", "orders"):
        if len(state[name]) != groups:
            raise ValueError(f"{name}: it has {len(state[name])}, where {groups} were expected")
