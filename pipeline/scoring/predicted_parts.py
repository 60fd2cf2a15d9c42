"""Files predicted into a folder, part by part, by this process or by tasks of a cluster.

A file of at most one span (readers/source.py: SPAN_BYTES), or one that can only be read from its
beginning, becomes one file; another one becomes a file for each of its spans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.outputs import OutputFile
from fewpass.pipeline.passes.ordered_tasks import (
    ordered_results,
    result_or_refusal,
    tasks_of_a_process,
)
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.folder_record import KEY, FolderRecord, RecordedPart
from fewpass.pipeline.scoring.input_files import InputFile
from fewpass.pipeline.scoring.predictor import planned_predictor
from fewpass.pipeline.scoring.scored_file import (
    PredictedRows,
    PredictionProgress,
    PredictionResult,
    ScoredOutput,
    pieces_of_output,
    written_rows,
)
from fewpass.pipeline.scoring.scored_rows import open_like
from fewpass.pipeline.scoring.scoring_budget import scoring_budget
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.tables.readers.source import SPAN_BYTES, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import SpanChain
from fewpass.pipeline.tables.readers.unlike_cells import UnlikeCells
from fewpass.storage.kinds import inside_of_ours
from fewpass.storage.locations import Location

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

Tell = Callable[[PredictionProgress], None]


@unpickled_once
class PartPredictor(NamedTuple):
    """Predicts a file, or a span of it, into a file of its own; the same in any process."""

    plan: PredictionPlan
    model: Model
    tasks: int = 1  # of a process, that share the memory

    def on(self, executor: Executor) -> PartPredictor:
        """Return the same for the workers of a cluster, which each predict a part a thread."""
        plan = self.plan.model_copy(update={"threads": 1})
        return self._replace(plan=plan, tasks=tasks_of_a_process(executor))

    def predict(
        self, spec: str, url: str, span: SourceSpan | None, tell: Tell = lambda _: None
    ) -> PredictedRows:
        """Predict; what is there under that name was looked at before, and gives way."""
        out = ScoredOutput(url, self.plan, tell, is_free=True, span=span, tasks=self.tasks)
        make = partial(planned_predictor, self.plan, self.model, url)
        return written_rows(make, self.model, [spec], out)

    def spans(self, spec: str) -> list[SourceSpan]:
        """Return the spans that a file is read by."""
        plan, out = self.plan, ScoredOutput("", self.plan, tasks=self.tasks)
        budget = scoring_budget(self.model, plan.memory)
        source = open_like(self.model, [spec], plan.options, budget, plan.keep)
        compute = planned_predictor(plan, self.model, "", raw=True)
        return source.spans(pieces_of_output(compute, out).bytes)


def _is_long(file: InputFile) -> bool:
    return file.size > SPAN_BYTES


def predict_part(
    predictor: PartPredictor,
    spec: str,
    url: str,
    span: SourceSpan | None,
    tell: Tell = lambda _: None,
) -> PredictedRows:
    """Predict a part, in any process."""
    return_freed_memory(scoring_budget(predictor.model, predictor.plan.memory).rows)
    return predictor.predict(spec, url, span, tell)


class _Part(NamedTuple):
    """A part of a file."""

    file: InputFile
    name: str  # of the file that is made of it
    span: SourceSpan | None  # None: all of the file
    share: float  # of all bytes of the input
    made: RecordedPart | None = None  # by an earlier call


def _require_own(file: InputFile, names: Sequence[str], owners: Mapping[str, str]) -> None:
    """Refuse names that another file of the input has become, or is to become."""
    double = next((name for name in names if owners.get(name, file.made) != file.made), None)
    if double is not None:
        raise BadInput(
            f"{file.name} and another file of the input would become {double}. Predict them into "
            "folders of their own."
        )


class FolderPrediction:
    """Predicts files into a folder, and has the record tell of those that are done.

    Parameters
    ----------
    predictor
        Predicts a part.
    record
        Of the folder.
    executor
        Of a cluster whose workers predict; None: this process does.
    tell
        Called with how far it is.
    """

    def __init__(
        self,
        predictor: PartPredictor,
        record: FolderRecord,
        executor: Executor | None,
        tell: Tell,
    ) -> None:
        self.results: list[PredictionResult] = []
        self.refused: dict[str, BadInput] = {}  # by the address of the file
        self.notes: list[str] = []
        self._predictor, self._record, self._executor = predictor, record, executor
        self._folder, self._tell = record.folder, tell
        self._waiting = deque[_Part]()  # parts whose results are to come, in their order
        self._file: InputFile | None = None  # whose parts come now
        self._chain, self._unlike = SpanChain(), list[UnlikeCells]()
        self._rows, self._share = 0, 0.0

    def run(self, files: Sequence[InputFile], whole: int) -> None:
        """Predict files, which are among `whole` bytes of input.

        One that cannot be predicted is put among the `refused`, and nothing is left of it; others
        go on.
        """
        self._share = 1.0 - sum(file.size for file in files) / (whole or 1)
        if refusal := inside_of_ours(Location.of(self._folder.address(KEY))):
            raise BadInput(refusal)
        self._take_up([(file, [file.made]) for file in files if not _is_long(file)])
        try:
            for written in self._results(self._planned(files, whole or 1)):
                while (part := self._waiting.popleft()).made is not None:
                    self._pass_over(part, part.made)
                self._take_in(part, written)
        finally:
            self._record.write()
        self._begin(None)

    # -- which parts there are ---------------------------------------------------------------------

    def _planned(
        self, files: Sequence[InputFile], whole: int
    ) -> Iterator[tuple[str, str, SourceSpan | None]]:
        """Yield what is to be predicted: address of a file, of what is made, and the span."""
        for file in files:
            for part in self._parts(file, file.size / whole):
                if file.spec in self.refused:
                    break
                self._waiting.append(part)
                if part.made is None:
                    yield file.spec, self._folder.address(part.name), part.span

    def _parts(self, file: InputFile, share: float) -> list[_Part]:
        """Return the parts of a file; none of one that is refused."""
        spans: list[SourceSpan] = []
        try:
            spans = self._predictor.spans(file.spec) if _is_long(file) else []
        except BadInput as error:
            self.refused[file.spec] = error
        n = max(1, len(spans))
        names = [file.part(k, n) for k in range(n)]
        if _is_long(file) and file.spec not in self.refused:
            self._take_up([(file, names)])
        if file.spec in self.refused:
            return []
        made = self._record.made(file, names) or {}
        each = zip(names, spans if n > 1 else [None], strict=True)
        return [_Part(file, name, span, share / n, made.get(name)) for name, span in each]

    def _take_up(self, named: Sequence[tuple[InputFile, Sequence[str]]]) -> None:
        """Have the record say that files of these names are made; refuse what has none free."""
        names = [name for _, own in named for name in own]
        for place in {name.rpartition("/")[0] for name in names} if self._folder.is_local else ():
            (Path(self._folder.url) / place).mkdir(parents=True, exist_ok=True)
        self._record.remove_unfinished(names)
        there, owners = self._folder.sizes(names), self._record.owners()
        for file, own in named:
            made = self._record.made(file, own)
            taken = [name for name in own if name in there and name not in (made or {})]
            try:
                _require_own(file, own, owners)
                self._require_free(file, taken, begun=made is not None)
            except BadInput as error:
                self.refused[file.spec] = error
            else:
                self._record.begin(file, own)
        self._record.write()

    def _require_free(self, file: InputFile, taken: Sequence[str], *, begun: bool) -> None:
        """Refuse names that something else has; what an earlier call began to make gives way."""
        overwrite = begun or self._predictor.plan.overwrite
        for name in taken:
            there = self._folder.address(name)
            OutputFile(there, overwrite, (file.spec,), self._predictor.model.record).require_free()

    # -- what becomes of them, in their order ------------------------------------------------------

    def _results(
        self, items: Iterator[tuple[str, str, SourceSpan | None]]
    ) -> Iterator[PredictedRows | BadInput]:
        predictor = self._predictor
        if self._executor is not None:
            task = partial(result_or_refusal, predict_part)
            return ordered_results(self._executor, "predict", task, predictor, items)
        within = self._within
        return (result_or_refusal(predict_part, predictor, *item, within) for item in items)

    def _again(self, part: _Part, span: SourceSpan) -> PredictedRows | BadInput:
        given = predict_part, self._predictor, part.file.spec, self._folder.address(part.name), span
        again: PredictedRows | BadInput
        if self._executor is None:
            again = result_or_refusal(*given)
        else:
            again = self._executor.result(
                self._executor.submit("predict", result_or_refusal, *given)
            )
        return again

    def _begin(self, file: InputFile | None) -> None:
        """Go on with the parts of a file; say what the cells of the one before were like."""
        if file is self._file:
            return
        if self._unlike:
            for other in self._unlike[1:]:
                self._unlike[0].join(other)
            self.notes += self._unlike[0].sentences()
        self._file, self._chain, self._unlike = file, SpanChain(), []

    def _pass_over(self, part: _Part, made: RecordedPart) -> None:
        """Take a part as an earlier call has made it."""
        self._begin(part.file)
        if part.span is not None:
            self._chain.begun(part.span)
            self._chain.add(made.read)
        self._report(part.share, made.rows)

    def _take_in(self, part: _Part, written: PredictedRows | BadInput) -> None:
        """Put a part on record, once it is sure that it was read from where it begins."""
        self._begin(part.file)
        is_refused = part.file.spec in self.refused
        if part.span is not None and not is_refused:
            span = self._chain.begun(part.span)
            refused = isinstance(written, BadInput) and span.first > 0
            if refused or not (isinstance(written, BadInput) or self._chain.fits(written.read)):
                written = self._again(part, span)
        if isinstance(written, BadInput):
            if not is_refused:
                self._record.refuse(part.file)
            self.refused.setdefault(part.file.spec, written)
        elif is_refused:
            self._folder.delete(part.name)
        else:
            self._record.add(part.file, part.name, written)
            self._chain.add(written.read)
            self._unlike += [] if written.unlike is None else [written.unlike]
            self.results.append(written.result)
        self._report(part.share, 0 if isinstance(written, BadInput) else written.result.rows)

    def _report(self, share: float, rows: int) -> None:
        self._rows, self._share = self._rows + rows, min(1.0, self._share + share)
        self._tell(PredictionProgress(self._rows, self._share))

    def _within(self, now: PredictionProgress) -> None:
        """Report rows of the part that is at work."""
        part = self._waiting[-1]
        share = part.share * now.fraction if part.span is None else 0.0
        self._tell(PredictionProgress(self._rows + now.rows, min(1.0, self._share + share)))
