"""The position of a training in a source that is read once."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from fewpass.pipeline.rows.source_order import GroupSums, LossDrift

Natural = Annotated[int, Field(ge=0, le=1 << 62)]


class LeftOut(NamedTuple):
    """Bad rows of a source that were left out, as was asked for: all are counted."""

    rows: Natural = 0
    listed: tuple[str, ...] = ()  # the first of them: file, line and reason


class SourcePosition(NamedTuple):
    """The part of a source that was read, and how its parts differ."""

    pieces: Natural = 0  # read, of the size that an ingest cuts a source into
    windows: Natural = 0  # buffers that were stepped
    rows: Natural = 0  # learnt from
    n_features: Natural = 0  # columns that rows had so far
    room_for: Natural = 0  # columns that the state has
    of_pieces: GroupSums = GroupSums()
    of_windows: GroupSums = GroupSums()
    drift: LossDrift = LossDrift()
    left_out: LeftOut = LeftOut()  # of the pieces that were read
    targets: tuple[float, float] | None = None  # the lowest and the highest learnt from
