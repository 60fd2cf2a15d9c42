"""The steps of the demo: rows of clicks, their model, and a table with words."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewpass.flows.command_line import call_of
from fewpass.flows.commands.evaluating import evaluate_shown
from fewpass.flows.commands.explained_model import weights_table
from fewpass.flows.commands.ingesting import ingest, ingest_shown
from fewpass.flows.commands.report_tables import write_page
from fewpass.flows.commands.result_sentences import certificate_sentence
from fewpass.flows.commands.training import train, train_shown
from fewpass.flows.display.bars import work_display
from fewpass.flows.display.console import Terminal, columns_table
from fewpass.flows.display.log_lines import GrowingIntervals
from fewpass.flows.options import PLAN_SOURCE, WHERE
from fewpass.flows.refusals import BadPlace
from fewpass.flows.settings import ingest_settings, training_settings
from fewpass.pipeline.clicks import ClickFile, columns_for, write_clicks, write_visits
from fewpass.pipeline.demo_files import write_demo_files
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.reporting.largest_weights import largest_weights
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes, format_seconds, parse_bytes
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.training.defaults import with_defaults
from fewpass.storage.addresses import command

TEST_FRACTION = 0.1
LAM = "100/n"
VISITS = 200_000  # rows of the raw table
TOP = 8
MARK = "made-by-fewpass-demo.json"  # folders without it are not touched


class Demo:
    """The steps, and where they put things."""

    def __init__(self, terminal: Terminal, folder: Path, size: int, memory: str, seed: int) -> None:

        self.terminal, self.folder = terminal, folder
        self.size, self.memory, self.seed = size, memory, seed
        self.columns = columns_for(size, parse_bytes(memory))
        self.clicks = folder / "clicks.svm"
        self.dataset, self.test = folder / "clicks", folder / "clicks-test"
        self.run = folder / "run"
        self.visits = folder / "visits.csv"
        self.table, self.table_run = folder / "visits", folder / "visits-run"
        self.visit_rows = max(2_000, min(VISITS, size // 1_000))

    def clear(self) -> None:
        """Make the folder, without what an earlier demo left; refuse anybody else's."""
        mark = self.folder / MARK
        if self.folder.exists() and any(self.folder.iterdir()) and not mark.exists():
            raise BadPlace(
                f"{self.folder} has files that no demo made. Name another folder: "
                "fewpass demo FOLDER."
            )
        for old in (self.dataset, self.test, self.run, self.table, self.table_run):
            shutil.rmtree(old, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps({"size": self.size, "seed": self.seed}) + "\n")

    def write(self) -> ClickFile:
        """Make the text."""
        self._head(
            "1. A log of clicks",
            f"Writing {format_bytes(self.size)} of text, one line for each time an ad was shown: "
            "six numbers and up to 26 categories, hashed to columns, most of them rare. Whether "
            "it was clicked follows a hidden linear model plus chance." + self._hashed_to_fewer(),
        )
        began = time.perf_counter()
        due = GrowingIntervals()
        with work_display(self.terminal, "Writing text") as show:

            def tell(written: int) -> None:
                show(written / self.size, format_bytes(written))
                if not self.terminal.live and due.due():
                    self.terminal.say(f"{format_bytes(written)} written", style="dim")

            made = write_clicks(self.clicks, self.size, self.seed, tell, self.columns)
        self.terminal.say(
            f"{made.path}: {made.rows:,} rows, {made.columns:,} columns, "
            f"{made.clicks / made.rows:.1%} clicked, {format_seconds(time.perf_counter() - began)}."
        )
        return made

    def _hashed_to_fewer(self) -> str:

        usual = columns_for(self.size)
        if self.columns == usual:
            return ""
        return (
            f" Text of this size would be hashed to {usual:,} columns; the memory, "
            f"{self.memory}, has room for {self.columns:,}, which more of the values share."
        )

    def ingest_words(self, columns: int) -> tuple[str, ...]:
        """Return the words of the command that ingests the text."""
        places, test = (str(self.clicks), str(self.dataset)), str(TEST_FRACTION)
        limits = "--features", str(columns), "--test-fraction", test, "--memory", self.memory
        return *places, *limits

    def ingest(self, made: ClickFile) -> IngestResult:
        """Make the data sets."""
        self._head(
            "2. Ingest",
            f"Reading the text once and storing its rows in random order, in compressed chunks "
            f"with checksums (Zarr), with at most {self.memory} of memory beyond what the "
            f"libraries take. A tenth of the rows is held out for testing.",
        )
        result = self._ingested(*self.ingest_words(made.columns))
        self.terminal.say(
            f"{result.rows:,} rows for training and {result.test_rows:,} for testing, "
            f"{format_bytes(result.bytes_in)} of text became {format_bytes(result.bytes_out)}, "
            f"{format_seconds(result.seconds)}."
        )
        return result

    def train(self) -> TrainingResult:
        """Train in one pass."""
        self._head(
            "3. Train, in one pass",
            "Every row is read from disk, used for one step, and dropped. Step sizes are found "
            "automatically. The loss below is that of each row before the model learnt from it. "
            "Several learners run side by side and the best is kept (onepass); where the memory "
            "has room for one alone, it is averaged stochastic gradient descent (asgd). Trainings "
            "that take minutes run on Dask and print the address of a dashboard (--scheduler local "
            "does so for any training).",
        )
        options = "--lam", LAM, "--passes", "1", "--memory", self.memory
        result = self._trained(self.dataset, self.run, *options)
        self.terminal.say(
            f"{result.rows_seen:,} rows in {format_seconds(result.seconds)}. "
            f"{certificate_sentence(result, None)}"
        )
        return result

    def evaluate(self) -> Evaluation:
        """Look at the held-out rows."""
        self._head(
            "4. Evaluate",
            "How good is the model on rows it has never seen?",
            command("evaluate", str(self.run), str(self.test)),
        )
        result = evaluate_shown(self.terminal, str(self.run), str(self.test))
        assert result.error is not None, "clicks are labels"
        self.terminal.say(
            f"{result.rows:,} held-out rows: loss {result.loss:.4f}, error {result.error:.2%}, "
            f"area under the ROC curve {result.auc:.4f}."
        )
        return result

    def report(self) -> str:
        """Make the page; return where it lies."""
        self._head(
            "5. A page to look at",
            "Figures and curves for the held-out rows, the largest weights, the times.",
            command("report", str(self.run), "--html"),
        )
        page = write_page(self.terminal, RunFolder(str(self.run)), None, WHERE)
        self.terminal.say(page)
        return page

    def raw_table(self) -> TrainingResult:
        """Train a model on words, dates and gaps, and show its names."""
        self._head(
            "6. A table with words, dates and gaps",
            "The same with an ordinary CSV. A sample of the rows decides what each column contains "
            "and how it becomes numbers. The data set and the model remember this, so the model "
            "predicts raw rows.",
        )
        write_visits(self.visits, self.visit_rows, self.seed)
        reading = "--label", "bought", "--drop", "visit", "--memory", self.memory
        made = self._ingested(str(self.visits), str(self.table), *reading)
        self.terminal.show(columns_table(dict(made.encoded)))
        options = "--tol", "1e-3", "--memory", self.memory
        trained = self._trained(self.table, self.table_run, *options)
        self.terminal.command(
            command("explain", str(self.table_run), "--weights", "--top", str(TOP))
        )
        model = load_model(RunFolder(str(self.table_run)))
        self.terminal.show(weights_table([(None, w) for w in largest_weights(model, TOP)]))
        return trained

    def files(self, made: ClickFile) -> list[Path]:
        """Write the small files of the documentation's pages."""
        self._head(
            "7. Files for the pages of the documentation",
            "Two more days of clicks, later visits, messages, ads and people: what tutorials and "
            "other pages work on.",
        )
        return write_demo_files(self.folder, made, self.visit_rows, self.seed)

    def _ingested(self, *words: str) -> IngestResult:
        """Show the command of an ingest, and do it."""
        self.terminal.command(command("ingest", *words))
        return ingest_shown(self.terminal, plan_of_ingest(words))

    def _trained(self, dataset: Path, run: Path, *options: str) -> TrainingResult:
        """Show the command of a training, and do it."""
        words = str(dataset), str(run), *options
        self.terminal.command(command("train", *words))
        asked: Any = call_of("train", train, words)
        training = asked.keywords["training"]
        plan, place = training_settings(words[0], training, PLAN_SOURCE, TrainingPlan)
        return train_shown(self.terminal, with_defaults(plan), words[1], place)

    def _head(self, title: str, text: str, command: str = "") -> None:
        """Say what comes next, and begin it without what the step before has left in memory."""
        release_freed_memory()
        self.terminal.say()
        self.terminal.say(title, style="bold")
        if text:
            self.terminal.explain(text)
        if command:
            self.terminal.command(command)


def plan_of_ingest(words: Sequence[str]) -> IngestPlan:
    """Return the plan that the words of an ingest's command ask for."""
    asked: Any = call_of("ingest", ingest, words)
    sources, dataset = asked.args
    plan, _ = ingest_settings(sources, dataset, asked.keywords["ingest"], WHERE, PLAN_SOURCE)
    return plan


def ending(demo: Demo, facts: dict[str, Any]) -> str:
    """Say what there is now, and how to go on."""
    dataset, run, test = str(demo.dataset), str(demo.run), str(demo.test)
    sure = ("--lam", "1e-3", "--passes", "5", "--certify")
    return f"""\
Done in {format_seconds(facts["seconds"])}: {format_bytes(facts["text_bytes"])} of text, at most \
{format_bytes(facts["peak_memory_bytes"])} of memory, libraries included.

  {demo.clicks}  the text
  {demo.dataset}  the data set; zarr.open({str(demo.dataset)!r}) reads it, too
  {demo.test}  the held-out rows
  {demo.run}  plan, snapshots and log of the run
  {facts["page"]}  the page to look at in a browser
  {demo.visits}  the table of visits, and {demo.table_run} its model
  {", ".join(Path(file).name for file in facts["files"])}  in {demo.folder}, for the tutorials

Go on with
  {command("inspect", run)}
  {command("check", dataset)}
  {command("predict", run, test, str(demo.folder / "clicked.parquet"), "--probability")}
  {command("train", dataset, str(demo.folder / "sure"), *sure)}"""
