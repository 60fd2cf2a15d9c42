"""Settings of what is done with rows and a model that there is: predictions, and figures."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveInt

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import several
from fewpass.pipeline.settings.model_config import Workers
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.described import Described

Columns = Annotated[tuple[str, ...], BeforeValidator(several)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class PredictionPlan(Described):
    """Settings of a prediction: columns to write, and how rows are read."""

    options: SourceOptions = SourceOptions.usual()
    """How to read the input."""
    overwrite: bool = False
    """Replace the output if it exists already; what fewpass wrote there itself, and nobody changed
    since, is replaced without.  Never an input, a source of the model's data set, or what lies in a
    data set or a run.  Of a table: all of its rows, if it has the columns of predictions."""
    probability: bool = False
    """Add a column of probabilities for each class, and last that of the second of two labels or of
    the label predicted.  Needs a calibrated or a logistic model."""
    defuse: bool = False
    """Defuse labels that a spreadsheet would run. A ' is put before them; in .csv only."""
    clip: bool = True
    """Clip predicted numbers to the range of targets seen, if the training was to."""
    keep: Columns = ()
    """Column of the input to keep as it is, such as an id. Written first; may be repeated."""
    threshold: Probability | None = None
    """Predict the second label from this probability on. There are two labels [default: where the
    score is above 0]."""
    memory: ByteSize | None = None
    """Memory limit, such as 256MB; in addition to what the libraries take [default: 1GiB, and what
    the weights take]."""
    threads: Workers | None = None
    """Threads that read and score [default: one per core]."""
    table: str | None = None
    """Table of the database that the output is."""
    only_new: bool = False
    """Predict only files that the output has not yet. It is a folder or a table; files count as
    they are now, and by whatever model."""


class ExplanationPlan(Described):
    """Settings of an explanation of a model or of scores, and how rows are read."""

    options: SourceOptions = SourceOptions.usual()
    """How to read the input."""
    rows: PositiveInt = 5
    """How many rows are shown."""
    top: PositiveInt | None = None
    """Number of weights, functions or contributions shown [default: 20, of a row 8]. Weights are
    of each class, contributions of each row."""
    class_label: str | None = None
    """One class of a model of several [default: each; of a row that of the label predicted]."""
    keep: Columns = ()
    """Column of the input to keep as it is, such as an id. Written first; may be repeated."""
    overwrite: bool = False
    """Replace the output if it exists already."""
    memory: ByteSize | None = None
    """Memory limit, such as 256MB; in addition to what the libraries take [default: 1GiB, and what
    the weights take]."""
    threads: Workers | None = None
    """Threads that read and score [default: one per core]."""

    def refuse_reading(self) -> None:
        """Raise BadInput for a setting about rows, where none are named."""
        of_rows = sorted(self.model_fields_set - {"top", "class_label", "options"})
        of_rows += sorted(self.options.model_fields_set)
        if of_rows:
            raise BadInput(f"`{of_rows[0]}` is about rows. Name a file of rows, or leave it out.")

    def refuse_others(self, *, written: bool) -> None:
        """Raise BadInput for a setting of a file where none is written, or of shown rows."""
        others, whose = (
            (OF_SHOWN, "of rows that are shown, and a file has all. Leave")
            if written
            else (OF_WRITTEN, "of a file of contributions. Name one to write, or leave")
        )
        if asked := sorted(self.model_fields_set & others):
            raise BadInput(f"`{asked[0]}` is {whose} it out.")


OF_SHOWN, OF_WRITTEN = frozenset({"rows", "top"}), frozenset({"keep", "overwrite", "threads"})


class FigureOptions(Described):
    """Settings of the figures of labelled rows."""

    by: Columns = ()
    """Column of a file whose values are slices, each evaluated by itself, with intervals; of
    numbers with the edges of ranges (age:20,40,60); at most 1,000 values; may be repeated."""
    threshold: Probability | None = None
    """Probability from which a row counts as positive. It is that of the second of two labels,
    for error, precision, recall and F1 [default: where the score is above 0]."""
    lift_at: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Share of rows, the best scored, to measure lift in [default: 0.1]."""


class EvaluationPlan(FigureOptions):
    """Settings of an evaluation: figures of labelled rows, and how files of them are read."""

    options: SourceOptions = SourceOptions.usual()
    """How to read files; of a data set only how its columns are matched."""
    memory: ByteSize | None = None
    """Memory limit, such as 256MB; in addition to what the libraries take [default: as in training;
    of files 1GiB, and what the weights take]."""
