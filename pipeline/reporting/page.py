"""`fewpass report --html`: the page, from the run's folder and a look at held-out rows."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from fewpass.pipeline.drawing.charts import Curve, Whisker, chart
from fewpass.pipeline.drawing.pieces import (
    Bar,
    bars,
    card,
    document,
    facts,
    fold,
    header,
    paragraph,
    preformatted,
    section,
    table,
    tiles,
)
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.reporting.columns_shown import columns_section
from fewpass.pipeline.reporting.held_out import held_out
from fewpass.pipeline.reporting.largest_weights import NamedWeight, largest_weights
from fewpass.pipeline.reporting.learning import forecast, lam_chosen, learning, time
from fewpass.pipeline.reporting.model_shapes import is_additive
from fewpass.pipeline.reporting.quality import Quality
from fewpass.pipeline.reporting.report import ReportedRun, RunReport
from fewpass.pipeline.reporting.run_facts import Facts, data_facts, report_facts
from fewpass.pipeline.reporting.shape_cards import shape_cards
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.grid import Candidate, Choice
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.runs.outcome import Convergence
from fewpass.pipeline.runs.timeline_points import above_optimum
from fewpass.pipeline.scoring.predictor import classes_of
from fewpass.pipeline.sizes import counted, format_bytes, format_seconds, or_none
from fewpass.pipeline.tables.encoding.schema import described_columns
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.manifest import Labels, Manifest, Values

PAGE = "report/report.html"
TOP = 20  # weights of a model, of each class fewer
MOST_CLASSES, TOP_OF_CLASS = 12, 6
MOST_COLUMNS, MOST_LABELS = 60, 20


class Reproduction(NamedTuple):
    """Way to the same model, in the words of whoever asks for the page."""

    plan: str  # a file
    commands: str
    held_out: str  # how to make the page again with held-out rows


def page(run: ReportedRun, quality: Quality | None, reproduction: Reproduction) -> str:
    """Return the page as text.

    Parameters
    ----------
    quality
        Figures of held-out rows; None without any.
    """
    report, model = run.report, run.model
    name = model.run.folder.name
    parts = [
        header(name, _verdict(report), _tiles(report, quality)),
        held_out(quality) if quality else _without_held_out(reproduction),
        learning(run),
        path_of_lams(run.saved.choice),
        shape_cards(model),
        columns_section(model, quality.importance if quality else None),
        Markup() if is_additive(model) else _weights(model),
        _data(model),
        section(
            "The training",
            card("Facts", facts(report_facts(report))),
            lam_chosen(model.record.lam_origin, report.lam),
            forecast(report),
        ),
        time(report),
        _reproduction(run, reproduction),
    ]
    return document(f"{name}: fewpass report", parts)


def _verdict(report: RunReport) -> Markup:
    convergence = Convergence(report.tol, report.relative_gap, report.converged)
    sentence = convergence.sentence(report.passes)
    kind = "quiet" if report.converged is None else "good" if report.converged else "bad"
    state = "Finished." if report.finished else "Unfinished: fewpass resume continues it."
    method = f"{report.solver}, loss {report.loss}, lam {report.lam:.6g}. {state}"
    said = [(method, "quiet"), *([(sentence, f"verdict {kind}")] if sentence else [])]
    said += [(warning, "quiet") for warning in report.warnings]
    return Markup().join(paragraph(*each) for each in said)


def _tiles(report: RunReport, quality: Quality | None) -> Markup:
    figures = quality.figures if quality else None
    base = figures and figures.metrics.base_error
    above = above_optimum(report.certificate, report.relative_gap)
    return tiles({
        "error, held out": or_none(figures and figures.error, ".2%"),
        "base rate of the error": or_none(base, ".2%"),
        "area under ROC": or_none(figures and figures.auc, ".4f"),
        "R squared, held out": or_none(figures and figures.r2, ".4f"),
        "D squared, held out": or_none(figures and figures.d2, ".4f"),
        "loss, held out": or_none(figures and figures.loss, ".5g"),
        "above the optimum": above and above.removesuffix(" above the optimum"),
        "passes": f"{report.passes:.4g}",
        "took": format_seconds(report.seconds),
        "read": format_bytes(report.bytes_read),
    })  # fmt: skip


def _without_held_out(how: Reproduction) -> Markup:
    note = "No rows were held out. This looks at a data set that the model has not learnt from."
    shown = preformatted(how.held_out)
    return section("On held-out rows", card("Unknown", shown, note))


def _weights(model: Model) -> Markup:
    classes = classes_of(model)
    if not classes:
        largest = largest_weights(model, TOP)
        note = "Of features as they were trained on: scaled, standardised, one of a category."
        return section("Largest weights", card("", _weight_bars(largest), note, wide=True))
    cards = [
        card(label, _weight_bars(largest_weights(model, TOP_OF_CLASS, label)))
        for label in classes[:MOST_CLASSES]
    ]
    more = len(classes) > MOST_CLASSES
    return section(f"Largest weights{' of the first classes' if more else ''}", *cards)


def _weight_bars(largest: list[NamedWeight]) -> Markup:
    if not largest:
        return paragraph("All weights are 0.")
    return bars([Bar(one.feature, one.weight, f"{one.weight:+.4g}") for one in largest])


def _data(model: Model) -> Markup:
    record = model.record
    manifest = _manifest(record.plan.dataset, record.dataset_fingerprint)
    sources = manifest and ", ".join(source.name for source in manifest.sources)
    body = facts(data_facts(record) | _stored(manifest)) + fold("Sources", facts({"at": sources}))
    rows = card("Rows", body)
    return section("Data", rows, _labels(record.targets), _columns(model))


def _manifest(dataset: str, fingerprint: str) -> Manifest | None:
    """Return the manifest of the data set if it is still there and the same."""
    try:
        manifest = Dataset.open(dataset).manifest
    except (OSError, ValueError, BadInput, Damaged):
        return None
    return manifest if manifest.fingerprint == fingerprint else None


def _stored(manifest: Manifest | None) -> Facts:
    if manifest is None:
        return {"note": "The data set is no longer there, or another one."}
    share = manifest.nnz / (manifest.n_rows * manifest.n_features)
    return {
        "values stored": f"{manifest.nnz:,} ({share:.3%} of all)",
        "sources": counted(len(manifest.sources), "file"),
        "rows left out": f"{sum(manifest.bad_rows.values()):,}",
    }


def _labels(targets: Labels | Values) -> Markup:
    if not isinstance(targets, Labels):
        return Markup()
    rows = [
        Bar(label, float(count), f"{count:,}")
        for label, count in zip(map(label_text, targets.labels), targets.counts, strict=True)
    ]
    shown = "" if len(rows) <= MOST_LABELS else f", the {MOST_LABELS} with the most rows"
    most = sorted(rows, key=lambda row: -row.number)[:MOST_LABELS]
    return card(f"{counted(len(rows), 'label')}{shown}", bars(most))


def _columns(model: Model) -> Markup:
    columns = model.record.columns
    each = list(described_columns(columns))
    if not each:
        names = columns.feature_names if columns is not None else None
        each = [(name, "number, as it is") for name in names or ()]
    if not each:
        return Markup()
    shown = each[:MOST_COLUMNS]
    shown += [("...", f"{len(each) - MOST_COLUMNS:,} more")] if len(each) > MOST_COLUMNS else []
    return card(
        counted(len(each), "column"), table(("column", "what it becomes"), shown, 2), wide=True
    )


def _reproduction(run: ReportedRun, how: Reproduction) -> Markup:
    versions = run.model.record.versions
    said = {"versions": ", ".join(f"{name} {version}" for name, version in versions.items())}
    plan = fold("plan.toml", preformatted(how.plan))
    note = "The same plan on the same data set makes the same bits on a machine like this one."
    body = preformatted(how.commands) + plan + fold("Versions", facts(said))
    return section("How to reproduce it", card("", body, note, wide=True))


def path_of_lams(choice: Choice | None) -> Markup:
    """Draw both where several lam were trained; the strokes are standard errors."""
    if choice is None or len(choice.candidates) < 2:
        return Markup()
    chosen = [one for one in choice.candidates if one.lam == choice.lam]
    curves = [
        Curve("each lam", [(one.lam, one.loss) for one in choice.candidates], 1),
        Curve("the model that is used", [(one.lam, one.loss) for one in chosen], 2, "marks"),
    ]
    strokes = [
        Whisker(one.lam, one.loss - one.standard_error, one.loss + one.standard_error)
        for one in choice.candidates
        if one.standard_error is not None
    ]
    drawn = chart(curves, "lam", "mean loss of held-out rows", x="log", whiskers=strokes)
    note = "Strokes: the standard error of how far a loss is above the least." if strokes else ""
    return section("Path over lam", card("Held-out loss", drawn, note), _counts(choice, chosen))


def _counts(choice: Choice, chosen: list[Candidate]) -> Markup:
    points = [(one.lam, float(one.nonzeros)) for one in choice.candidates if one.nonzeros]
    if not points:
        return Markup()
    used = [(one.lam, float(one.nonzeros)) for one in chosen if one.nonzeros]
    curves = [Curve("each lam", points, 1), Curve("the model that is used", used, 2, "marks")]
    drawn = chart(curves, "lam", "weights that are not 0", x="log", y="log")
    return card("Weights that are not 0", drawn)
