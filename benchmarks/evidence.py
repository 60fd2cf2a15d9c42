"""The page of evidence, made of docs/evidence.jsonl and of nothing else.

    python -m benchmarks.evidence    # prints it; the documentation's site has it

The lines are appended by real_data.py, one_pass.py, certified.py, certified_cells.py,
fit_peers.py, forecasts.py, auto.py, raw_data.py, public_sets.py, memory.py and scaling.py; of
several lines about one row the last one counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks import raw_data as raw
from benchmarks import scaling
from benchmarks.auto import METHODS, OTHERS, TOLS
from benchmarks.data_sets import STUDIES
from benchmarks.evidence_words import HOW, QUESTIONS, TITLE, WORDS
from benchmarks.million_rows import findings as millions_found
from benchmarks.million_rows import tables as millions
from benchmarks.one_pass_findings import tables as one_pass_peers
from benchmarks.suite.both_commits import findings as both_found
from benchmarks.suite.both_commits import tables as both_commits
from benchmarks.tables import findings as default_found
from benchmarks.tables import tables as default_tables
from benchmarks.text_lam import tables as unit_text
from testing.results import EVIDENCE, Row, shown, table

SPANS = 64  # of a reduction, when the costs of tasks were measured
SHOWN = ("4", "6")  # digits of the tolerances that are tabulated


class Part(NamedTuple):
    """A section of the page: which results it shows, and how."""

    name: str
    title: str
    key: tuple[str, ...]  # what tells its rows apart
    tables: Callable[[list[Row]], str]
    figure: str = ""
    found: Callable[[list[Row]], list[str]] | None = None  # of all rows; None: what each run found


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


def page(results: Path = EVIDENCE) -> str:
    """Put the page together."""
    lines = [json.loads(text) for text in results.read_text(encoding="utf-8").splitlines()]
    return "\n\n".join([TITLE, contents(), HOW, *(section(part, lines) for part in PARTS)]) + "\n"


def contents() -> str:
    """Tabulate the question that each section answers."""
    rows = [[QUESTIONS[part.name], f"[{part.title}](#{anchor(part.title)})"] for part in PARTS]
    return table(("question", "section"), rows, ("question", "section"))


def anchor(title: str) -> str:
    """Return the name that a heading can be linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(part: Part, lines: list[Row]) -> str:
    """One part: what was measured and how, what came out, the tables."""
    told = {line["part"]: line for line in lines
            if "about" in line and line["part"].split()[0] == part.name}  # fmt: skip
    mine = [line for line in lines if line["part"] == part.name and "about" not in line]
    rows = {tuple(row[name] for name in part.key): row for row in mine}
    every = list(rows.values())
    each = [sentence for line in told.values() for sentence in line["found"]]
    found = part.found(every) if part.found else each
    parts = [
        f"## {part.title}",
        origins([line["about"] for line in told.values()]),
        WORDS[part.name],
        "What came out:\n\n" + "\n".join(f"- {sentence}" for sentence in found) if found else "",
        part.tables(every),
        f"![{part.title}](figures/{part.figure})" if part.figure else "",
        WORDS.get(f"{part.name}, after", ""),
    ]
    return "\n\n".join(text for text in parts if text)


def origins(runs: list[Row]) -> str:
    """Say how to measure it again, and when, at which commit and on what it was measured."""
    lines = []
    for which, same in groupby(runs, key=origin):
        lines += [*(f"    {about['command']}" for about in same), f"    # {which}"]
    return "\n".join(lines)


def origin(about: Row) -> str:
    """Say when, at which commit and on what it was measured, as far as that was recorded."""
    what = f"{about['date']}, commit {about['commit']}", about["machine"], about["versions"]
    return "; ".join(part for part in what if part)


def of_words(word: str) -> str:
    """Write a loss in words."""
    return word.replace("_", " ")


def one_pass(rows: list[Row]) -> str:
    """Tabulate the sets, and both sides of every row with lam = 1/n."""
    heads = ("set", "training rows", "test rows", "features", "scaling", "test rows are")
    sets = {row["set"]: row for row in rows}
    studies = [study for study in STUDIES if study.name in sets]
    about = [
        [
            study.name,
            *(f"{sets[study.name][name]:,}" for name in ("rows", "test_rows", "features")),
            study.scale, "their own file" if study.test else "a fifth, by seed",
        ]
        for study in studies
    ]  # fmt: skip
    head = ("set", "loss", "F*", "F - F* ours", "F - F* scikit-learn", "error at F*",
            "error ours", "error scikit-learn", "noise")  # fmt: skip
    text = ("set", "loss", "scaling", "test rows are")
    compared = [one_pass_cells(row) for row in rows if row["lam"] == "1/n"]
    return f"{table(heads, about, text)}\n\nlam = 1/n:\n\n{table(head, compared, text)}"


def one_pass_cells(row: Row) -> list[str]:
    """Cells of one row: mean over the seeds and, in brackets, the worst of them."""

    def both(side: str, figure: str, form: str) -> str:
        found = row[side][figure]
        return f"{shown(found['mean'], form)} ({shown(found['worst'], form)})"

    lowest = row["optimum"]
    return [
        row["set"], of_words(row["loss"]), shown(lowest["objective"]["mean"], ".4f"),
        both("ours", "excess", ".1e"), both("sklearn", "excess", ".1e"),
        shown(lowest["error"]["mean"], ".4f"),
        both("ours", "error", ".4f"), both("sklearn", "error", ".4f"),
        shown(row["noise"], ".4f"),
    ]  # fmt: skip


def certified(rows: list[Row]) -> str:
    """Tabulate s2gd+, with the passes of the other two beside, and say what raw rows do."""
    head = ("set", "loss", "lam", "kappa", "F*", "s2gd+", "s2gd", "no subspace", "forecast",
            "true", "certified gap", "true gap")  # fmt: skip
    passes = {(row["set"], row["loss"], row["lam"], row["method"]): row["passes"] for row in rows}
    evaluated = [row for row in rows if row["method"] == "s2gd+" and row["excess"] is not None]
    cells = [
        [
            row["set"].partition(",")[0], of_words(row["loss"]), str(row["lam"]),
            f"{row['kappa']:,.0f}", f"{row['lowest']:.5f}",
            *(f"{passes[row['set'], row['loss'], row['lam'], method]:.0f}"
              for method in ("s2gd+", "s2gd", "s2gd+, no subspace")),
            f"{row['foreseen']:.0f}", f"{row['true_passes']:.0f}", f"{row['relative']:.1e}",
            f"{row['excess'] / max(1.0, row['lowest']):.1e}",
        ]
        for row in evaluated
    ]  # fmt: skip
    return table(head, cells, ("set", "loss", "lam")) + "\n\n" + raw_rows(rows)


def raw_rows(rows: list[Row]) -> str:
    """Say what raw rows are like, and lead to."""
    (row,) = (row for row in rows if row["excess"] is None)
    return (
        f"Raw rows are the warning example. {row['set']} holds a 1 for every word and pair of "
        f"words of a text:\nrows are {row['mean_length']:.0f} long in root mean square, "
        f"{row['max_length']:.0f} at most. With {row['loss']} and lam {row['lam']} kappa is "
        f"{row['kappa']:,.0f};\nfor a certified 1e-6 `fewpass train --plan` forecasts "
        f"{row['foreseen']:,.0f} passes, the theory up to {row['theory']:,.0f}, and "
        f"s2gd+ needs\n{row['passes']:,.0f} "
        f"(certified {row['relative']:.1e}). Scaled to unit length the same set takes a few dozen."
    )


def forecasts(rows: list[Row]) -> str:
    """Tabulate forecast and actual passes, both values of lam side by side."""
    lams = list(dict.fromkeys(row["lam"] for row in rows))
    found = {(row["set"], row["loss"], row["lam"]): row["passes"] for row in rows}
    cells = [
        [
            key[0], of_words(key[1]),
            *(forecast_and_actual(found[*key, lam][digits]) for lam in lams for digits in SHOWN),
        ]
        for key in dict.fromkeys(key[:2] for key in found)
    ]  # fmt: skip
    head = ("set", "loss", *(f"lam {lam}, 1e-{digits}" for lam in lams for digits in SHOWN))
    return table(head, cells, ("set", "loss"))


def forecast_and_actual(passes: tuple[float, float | None]) -> str:
    """One cell; a dash where a tolerance was not reached."""
    forecast, actual = passes
    return f"{forecast:.0f} / {'-' if actual is None else f'{actual:.0f}'}"


def auto(rows: list[Row]) -> str:
    """Tabulate passes of each method and of `auto` at both tolerances, and say how far it is off.

    A column of a method that was never run is left out.
    """
    found = {(row["set"], row["loss"], row["method"], row["tol"]): row for row in rows}
    problems = sorted(dict.fromkeys(key[:2] for key in found), key=lambda key: key[0] in OTHERS)
    methods = [m for m in METHODS if any((*key, m, TOLS[-1]) in found for key in problems)]
    cells, ratios = [], []
    for key in problems:
        singles = [found.get((*key, method, TOLS[-1])) for method in methods]
        own = [found.get((*key, "auto", tol)) for tol in TOLS]
        cells.append(auto_cells(key, singles, own))
        ratios += over_best(singles, own)
    best = sum(ratio == 1.0 for ratio in ratios)
    fell = sum(", then " in row["solver"] for row in rows if row["method"] == "auto")
    verdict = (
        f"- At most {max(ratios):.2f} times the passes of the best single method; as many as it on "
        f"{best} of {len(ratios)}. It fell back on another method in {fell} of these trainings."
    )
    text = ("set", "loss", "auto chose")
    passes = table(("set", "loss", *methods, "auto chose", "auto"), cells, text)
    parts = verdict, passes, auto_seconds(found, problems, methods)
    return "\n\n".join(part for part in parts if part)


def auto_seconds(
    found: dict[tuple[str, ...], Row], problems: list[tuple[str, str]], methods: list[str]
) -> str:
    """Tabulate the CPU seconds of methods that came to the smaller tolerance, where measured."""
    cells, ratios = [], []
    for key in problems:
        each = [found.get((*key, method, TOLS[-1])) for method in (*methods, "auto")]
        *singles, own = [row.get("cpu") if row and row["passes"][-1] else None for row in each]
        known = [seconds for seconds in singles if seconds]
        if own and known:
            ratios.append(own / min(known))
            seconds = (f"{cpu:.2f}" if cpu else "" for cpu in (*singles, own))
            cells.append([key[0], of_words(key[1]), *seconds, f"{ratios[-1]:.2f}"])
    shown = [at for at in range(2, 2 + len(methods)) if any(row[at] for row in cells)]
    if not ratios:
        return ""
    chosen = (0, 1, *shown, -2, -1)
    head = ("set", "loss", *methods, "auto", "over the best")
    return (
        f"CPU seconds of the same to {TOLS[-1]:g}, once kernels are compiled; `auto` took at most "
        f"{max(ratios):.2f} times those of the best single method.\n\n"
        + table([head[at] for at in chosen], [[row[at] for at in chosen] for row in cells],
                ("set", "loss"))
    )  # fmt: skip


def auto_cells(key: tuple[str, ...], singles: list[Row | None], own: list[Row | None]) -> list[str]:
    """Cells of one problem."""
    each = [row and " / ".join(at_most(row, at) for at in range(len(TOLS))) for row in singles]
    chosen = dict.fromkeys(row["solver"] for row in own if row)
    passes = [f"{row['passes'][at]:.0f}" if row else "-" for at, row in enumerate(own)]
    return [key[0], of_words(key[1]), *(cell or "" for cell in each), " / ".join(chosen),
            " / ".join(passes)]  # fmt: skip


def over_best(singles: list[Row | None], own: list[Row | None]) -> list[float]:
    """Passes of `auto` over those of the best single method, where both came to a tolerance."""
    best = [
        min((row["passes"][at] for row in singles if row and row["passes"][at]), default=None)
        for at in range(len(TOLS))
    ]
    return [
        row["passes"][at] / best[at] for at, row in enumerate(own) if row and best[at] is not None
    ]


def at_most(row: Row, at: int) -> str:
    """Passes of a method; "> cap" where it was given up."""
    return f"{row['passes'][at]:.0f}" if row["passes"][at] else f"> {row['cap']}"


def raw_data(rows: list[Row]) -> str:
    """Tabulate passes of each method to each tolerance."""
    passes = {(row["set"], row["lam"], row["loss"], row["method"]): row["passes"] for row in rows}
    about = {(row["set"], row["lam"], row["loss"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = [
        [
            key[0], key[1], of_words(key[2]), f"{row['K']:.2g}", f"{row['max_over_mean']:.0f}",
            *(" / ".join(str(p or "-") for p in passes.get((*key, m), ())) for m in methods),
        ]
        for key, row in about.items()
    ]  # fmt: skip
    head = ("set", "lam", "loss", "K", "longest", *methods)
    return table(head, cells, ("set", "lam", "loss"))


def public_sets(rows: list[Row]) -> str:
    """Tabulate what the default method comes to on every public set, a set per row."""
    about = {row["set"]: row for row in rows}
    problems = list(dict.fromkeys((row["lam"], row["loss"]) for row in rows))
    found = {(row["set"], row["lam"], row["loss"]): row for row in rows}
    cells = [
        [
            name, f"{row['rows']:,}", f"{row['columns']:,}",
            *(method_and_passes(found.get((name, *problem))) for problem in problems),
        ]
        for name, row in about.items()
    ]  # fmt: skip
    head = ("set", "rows", "columns", *(f"{lam}, {of_words(loss)}" for lam, loss in problems))
    return table(head, cells, ("set", *head[3:]))


def default_tolerance(rows: list[Row]) -> str:
    """Tabulate what the defaults come to on every set and table."""
    cells = [
        [
            row["set"], f"{row['rows']:,}", f"{row['columns']:,}", of_words(row["loss"]),
            f"{row['lam_n']:.2g}/n", row["solver"], f"{row['passes']:.0f}", f"{row['cpu']:.1f}",
        ]
        for row in rows
    ]  # fmt: skip
    head = ("set", "rows", "columns", "loss", "lam chosen", "method", "passes", "CPU s")
    return table(head, cells, ("set", "loss", "method"))


def method_and_passes(row: Row | None) -> str:
    """One cell; a dash where a tolerance was not reached."""
    if row is None:
        return ""
    return f"{row['solver']} " + " / ".join("-" if p is None else f"{p:.0f}" for p in row["passes"])


def in_order(rows: list[Row]) -> str:
    """Tabulate what windows of sorted rows lead to."""
    head = ("`--memory`", "a window holds", "passes", "objective", "at most above the optimum")
    cells = [
        [row["memory"], row["share"], str(row["passes"]), f"{row['objective']:.6g}",
         "nothing proven" if row["gap"] is None else f"{row['gap']:.1e}"]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, head[:1])


def memory(rows: list[Row]) -> str:
    """Tabulate peaks."""
    head = ("input", "step", "rows", "peak beyond imports", "share of `--memory`")
    cells = [
        [row["size"], row["step"], f"{row['rows']:,}", f"{row['beyond_imports'] / 1e6:.0f} MB",
         f"{row['beyond_imports'] / row['budget']:.0%}"]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, head[:2])


def cells(rows: list[Row]) -> str:
    """Tabulate what each method certifies of a loss with a penalty."""
    head = ("loss", "penalty", "set", "lam", "method", "passes", "certified gap", "CPU s", "not 0")
    lines = [
        [
            of_words(row["loss"]), f"`{row['penalty']}`", row["set"], f"{row['lam']:.2g}",
            f"`{row['method']}`", f"{row['passes']:.0f}", f"{row['gap']:.0e}",
            f"{row['cpu_s']:.2f}", f"{row['not_zero']:,} of {row['of']:,}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, lines, ("loss", "penalty", "set", "method"))


def beside_peers(rows: list[Row]) -> str:
    """Tabulate CPU seconds of contestants, in rows that tell contests apart."""
    peers = list(dict.fromkeys(row["peer"].removeprefix("scikit-learn ") for row in rows))
    contests: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        loss = f"l1, {row['share']:g}" if row["share"] else "softmax"
        spent = f"> {row['limit']}" if row["cpu_s"] is None else f"{row['cpu_s']:.3g}"
        contest = contests.setdefault((row["set"], loss, f"{row['accuracy']:.0e}"), {})
        contest[row["peer"].removeprefix("scikit-learn ")] = spent
    lines = [
        [*names, *(found.get(peer, "") for peer in peers)] for names, found in contests.items()
    ]
    return table(("set", "penalty or loss", "to", *peers), lines, ("set", "penalty or loss"))


def clusters(rows: list[Row]) -> str:
    """Tabulate what tasks cost, and what the model makes of that."""
    costs = scaling.Costs(**{name: rows[-1][name] for name in scaling.Costs._fields})
    head = ("what", "measured")
    measured = [
        ["a task of a batch: the scheduler's thread", f"{costs.scheduled * 1e3:.0f} ms"],
        ["a link of a chain: from the end of one task to the start of the next",
         f"{costs.linked * 1e3:.0f} ms"],
        ["16 MB (a state of a million columns) to another worker", f"{costs.moved * 1e3:.0f} ms"],
    ]  # fmt: skip
    return "\n\n".join(
        [table(head, measured, head[:1]), WORDS["scaling, model"],
         *(modelled(costs, work) for work in (600.0, 36_000.0))]
    )  # fmt: skip


def modelled(costs: scaling.Costs, work: float) -> str:
    """Seconds of one pass, by kind of pass and number of workers."""

    def line(name: str, seconds: Iterable[float]) -> list[str]:
        return [name, *(f"{s:.0f} s" for s in seconds)]

    spans = SPANS
    reduced = (scaling.reduce_seconds(w, costs, work, spans) for w in scaling.WORKERS)
    cells = [line(f"reduce, {spans} spans", reduced)]
    cells += [
        line(f"walk, streams={k}",
             (scaling.walk_seconds(w, k, costs, work) for w in scaling.WORKERS))
        for k in scaling.WORKERS
    ]  # fmt: skip
    head = (f"{work:.0f} s of work", *(f"{w} worker{'s' * (w > 1)}" for w in scaling.WORKERS))
    return table(head, cells, head[:1])


PARTS = (
    Part("one-pass", "One pass, nothing tuned", ("set", "loss", "lam"), one_pass,
         "real-data-excess.png"),
    Part("one-pass-peers", "One pass beside Vowpal Wabbit, scikit-learn and River",
         ("set", "lam", "order"), one_pass_peers),
    Part("certified", "Certified to 1e-6", ("set", "loss", "lam", "method"), certified,
         "certified.png"),
    Part("cells", "Every loss with every penalty", ("loss", "penalty", "method"), cells),
    Part("fit-peers", "An l1 penalty and softmax, beside other solvers",
         ("kind", "set", "share", "accuracy", "peer"), beside_peers),
    Part("forecasts", "Forecast and actual passes", ("set", "loss", "lam", "solver"), forecasts),
    Part("auto", "The method that `auto` takes", ("set", "loss", "method", "tol"), auto,
         found=lambda _: []),
    Part("raw-data", "Rows of very different length", ("set", "loss", "lam", "method"), raw_data,
         found=raw.found),
    Part("psdca-ways", "Other ways to go over the rows", ("set", "loss", "lam", "method"),
         lambda _: ""),
    Part("public-sets", "Every public set as it lies", ("set", "loss", "lam"), public_sets),
    Part("tables", "Tables with default options", ("table",), default_tables, found=default_found),
    Part("millions", "Additive models of millions of rows", ("rows", "side"), millions,
         found=millions_found),
    Part("text-lam", "Text of unit length, lam chosen", ("set",), unit_text),
    Part("default-tolerance", "The default tolerance, at the lam that is chosen", ("set",),
         default_tolerance),
    Part("sorted", "Rows that lie sorted", ("memory",), in_order),
    Part("memory", "Memory: flat in the size of the input", ("size", "step"), memory),
    Part("scaling", "Clusters: measured costs, and a model", (), clusters),
    Part("both-commits", "Two commits in turns", ("contest", "contestant"), both_commits,
         found=both_found),
)  # fmt: skip

if __name__ == "__main__":
    main()
