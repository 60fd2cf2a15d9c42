"""A run, and another to compare it with, drawn as HTML; the page itself only refreshes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

from markupsafe import Markup

from fewpass.pipeline.dashboard.shown_run import ShownRun
from fewpass.pipeline.drawing.charts import MANY, Curve, Whisker, chart, smoothed
from fewpass.pipeline.drawing.pieces import Bar, bars, card, section, table
from fewpass.pipeline.drawing.safe_text import without_control
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.timeline_points import WorkDone, speeds, useful
from fewpass.pipeline.sizes import counted, format_bytes, format_seconds, passes_of

NO_ROWS_YET = "no rows yet: workers are starting, or kernels are being compiled"
LIBRARIES = 250e6  # bytes that a process takes next to its budget
Against = Literal["passes", "seconds"]
XY = tuple[float, float]


def view(
    shown: ShownRun, other: ShownRun | None, against: Against, gone: Collection[str]
) -> dict[str, Any]:
    """Return what the page puts on the screen, and the numbers by which it recognises silence.

    Parameters
    ----------
    other
        A run to compare with.
    against
        What the loss is drawn against.
    gone
        Workers that are no more.
    """
    silence = shown.timeline.silence()
    runs = [shown, other] if other else [shown]
    learning = forecast(runs), losses(runs, against), certificates(runs), step_sizes(runs)
    speeds_drawn = (speed(runs, *each) for each in SPEEDS)
    at_work = workers(shown, gone if shown.state == "running" else ())
    html = section("How it learns", *learning)
    html += section("How fast it is", *speeds_drawn, waiting(shown), *at_work)
    return {
        "run": shown.url,
        "state": shown.state,
        "last": shown.timeline.last,
        "longest_silence": silence.most if silence else None,
        "facts": without_control(" · ".join(facts(shown))),
        "html": html,
    }


def facts(shown: ShownRun) -> Iterable[str]:
    """Yield what the run is, how far it is and, while it runs, how fast."""
    timeline, plan = shown.timeline, shown.record.plan
    yield f"{shown.record.method()}, lam {shown.lam:.4g}"
    passes, most = timeline.passes, timeline.most_passes
    early = shown.state == "finished" and passes < most
    made = f"{passes:.1f} passes (at most {most:,.0f})" if early else passes_of(passes, most, ".1f")
    yield f"{made} over {counted(shown.record.n_rows, 'row')} of {plan.dataset}"
    yield format_seconds(timeline.seconds)
    if shown.state == "running" and not timeline.marks:
        yield NO_ROWS_YET
    if shown.state == "running" and (lately := speeds(timeline.marks)):
        yield f"{lately[-1].rows:,.3g} rows/s"
        if lately[-1].bytes_read >= 1.0:
            yield f"{format_bytes(lately[-1].bytes_read)}/s"


def forecast(runs: list[ShownRun]) -> Markup:
    """Set the forecast next to what happened."""
    first = runs[0]
    now = "actual" if first.state == "finished" else "so far"
    heads = [now] if len(runs) == 1 else [short(run) for run in runs]
    names = ("objective", "above the optimum, at most", "passes", "read", "time")
    columns = (names, _predicted(first.record), *map(_actual, runs))
    rows = [row for row in zip(*columns, strict=True) if set(row[1:]) != {"–"}]
    return card("Certificate and forecast", table(("", "predicted", *heads), rows))


def _predicted(record: RunRecord) -> tuple[str, ...]:
    tol, predicted = record.plan.tol, record.forecast
    wanted = "–" if tol is None else f"tol {tol:g}"
    if predicted is None:
        return "–", wanted, "–", "–", "–"
    return "–", wanted, f"{predicted.passes:.1f}", format_bytes(predicted.bytes_read), "–"


def _actual(run: ShownRun) -> tuple[str, ...]:
    timeline = run.timeline
    objective = gap = "–"
    if timeline.certificates:
        proven = timeline.certificates[-1]
        objective, gap = f"{proven.objective:.6g}", f"{proven.gap:.3g}"
    read = format_bytes(timeline.marks[-1].bytes_read if timeline.marks else 0)
    return objective, gap, f"{timeline.passes:.1f}", read, format_seconds(timeline.seconds)


def short(run: ShownRun) -> str:
    """Name a run by the end of its address."""
    return "/".join(run.url.split("/")[-2:])


def losses(runs: list[ShownRun], against: Against) -> Markup:
    """Draw the loss of rows before they were learnt from, and the certified objectives."""
    lines = []
    for run, (name, look) in zip(runs, NAMED, strict=False):
        points = run.timeline.losses
        recent = [(getattr(p, against), p.since_last) for p in points if p.since_last is not None]
        since_start = [(getattr(p, against), p.average or 0.0) for p in points]
        of = name.format(short(run))
        if len(recent) > MANY:
            recent = smoothed(recent)
        lines += [Curve(f"recent rows{of}", recent, 1, look)]
        lines += [Curve(f"since the start{of}", since_start, 2, look)]
    proven = useful(runs[0].timeline.certificates)
    objectives = [(getattr(c, against), c.objective) for c in proven]
    lines.append(Curve("objective; the optimum is on the line below it", objectives, 3, "marks"))
    strokes = [
        Whisker(getattr(c, against), max(0.0, c.objective - c.gap), c.objective) for c in proven
    ]
    drawn = chart(lines, LABELS[against], "progressive loss", whiskers=strokes)
    return card("Loss and objective", drawn)


def certificates(runs: list[ShownRun]) -> Markup:
    """Draw how far above the optimum the objective is at most."""
    lines = compared(runs, "certificate", 2, certified)
    drawn = chart(lines, LABELS["passes"], "above the optimum, at most", y="log")
    return card("Objective above the optimum, at most", drawn)


def certified(run: ShownRun) -> list[XY]:
    """Return passes and gaps."""
    return [(c.passes, c.gap) for c in run.timeline.certificates]


def step_sizes(runs: list[ShownRun]) -> Markup:
    """Draw the step size."""
    lines = compared(
        runs,
        "step size",
        1,
        lambda run: [(p.passes, p.step) for p in run.timeline.points if p.step],
    )
    drawn = chart(lines, LABELS["passes"], "step size")
    note = "Of averaged SGD the first one, from which it decays."
    return card("Step size", drawn, note)


def speed(
    runs: list[ShownRun], title: str, label: str, amount: Callable[[WorkDone], float]
) -> Markup:
    """Draw a speed against seconds; nothing where it is 0 all the time."""
    lines = compared(
        runs, label, 3, lambda run: [(s.seconds, amount(s)) for s in speeds(run.timeline.marks)]
    )
    most = max((y for line in lines for _, y in line.points), default=0.0)
    drawn = chart(lines, "seconds", label, y_range=(0.0, 1.06 * most)) if most > 0.0 else Markup()
    return card(title, drawn)


def compared(
    runs: list[ShownRun], name: str, colour: int, points: Callable[[ShownRun], list[XY]]
) -> list[Curve]:
    """Return a line for a run, and a dashed one for the other."""
    return [
        Curve(name + of.format(short(run)), points(run), colour, look)
        for run, (of, look) in zip(runs, NAMED, strict=False)
    ]


def waiting(shown: ShownRun) -> Markup:
    """Draw which share of the spans' time the steps waited for rows."""
    marks = shown.timeline.marks
    if not (marks and marks[-1].working):
        return Markup()
    whole = marks[-1].waiting / marks[-1].working
    now = shown.recent.waiting / (shown.recent.working or 1.0)
    text = f"{now:.0%} now, {whole:.0%} in all"
    running = shown.state == "running"
    bar = Bar("waiting for rows", now if running else whole, text if running else f"{whole:.0%}")
    return card("Share of time", bars([bar], most=1.0), "Rows are read while others are stepped.")


def workers(shown: ShownRun, gone: Collection[str]) -> Iterable[Markup]:
    """Draw every worker's rows of the current pass, while there is one, and its memory."""
    each = sorted(shown.timeline.workers.items())
    n_rows, budget = shown.record.n_rows, shown.record.plan.memory
    if shown.state != "finished":
        rows = [
            Bar(
                name,
                worker.rows / n_rows,
                f"{counted(worker.rows, 'row')}{', gone' * (name in gone)}",
                gone=name in gone,
            )
            for name, worker in each
        ]
        if rows:
            yield card("Rows of the current pass, by worker", bars(rows, most=1.0))
    memory = [
        Bar(name, worker.memory, format_bytes(worker.memory), gone=name in gone)
        for name, worker in each
    ]
    note = f"Libraries included; the budget next to them is {format_bytes(budget)}."
    most = max([budget + LIBRARIES, *(worker.memory for _, worker in each)])
    if memory:
        yield card("Most memory of a worker", bars(memory, most=most), note)


LABELS: dict[Against, str] = {"passes": "passes over the data", "seconds": "seconds"}
NAMED: tuple[tuple[str, Literal["line", "dashed"]], ...] = (("", "line"), (" ({})", "dashed"))
SPEEDS: tuple[tuple[str, str, Callable[[WorkDone], float]], ...] = (
    ("Rows a second", "rows/s", lambda speed: speed.rows),
    ("Megabytes a second, as stored", "MB/s", lambda speed: speed.bytes_read / 1e6),
)
