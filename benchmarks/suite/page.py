"""docs/performance.md and its figures, made of the file of results.

    python -m benchmarks.suite.page

Of every contest the newest line counts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.results import table
from benchmarks.suite import workloads
from benchmarks.suite.__main__ import RESULTS
from benchmarks.suite.figures import draw_accuracy, draw_passes, draw_ratios

Held = dict[str, Any]
PAGE = Path("docs/performance.md")
COMMAND = ".venv-peers/bin/python -m benchmarks.suite --only"
TARGET_HEAD = ("", "what", "ours", "against", "measure", "wanted", "came out", "")
HEAD = (
    "",
    "wall s",
    "least",
    "CPU s",
    "least",
    "CPU each",
    "of the limit",
    "peak MB",
    "beyond imports",
)
ACCURACY_HEAD = ("", "1e-2", "1e-3", "1e-4", "1e-6", "certified 1e-6")

MEASURES = {"wall_s": "wall s", "cpu_s": "CPU s", "beyond_imports_mb": "peak beyond imports"}

PARTS = {
    "one-pass": """One pass of averaged SGD over rows in memory, one thread. scikit-learn's
SGDClassifier with `average=True`, float32, one epoch, input checks off; "shuffled" is its
default. Steps are given on both sides: nothing is searched. "Random order" is the order that
later passes of a training take.""",
    "inner-step": """The inner loop of S2GD is dense on paper; here a step costs its row's values,
like one of averaged SGD.""",
    "gradient": """The full gradient of the logistic loss, rows in memory. Ours sums in float64,
NumPy and dask.array in float32. Wall seconds.""",
    "accuracy": """CPU seconds of one thread until the objective is within so much of the optimum,
relative; rows in memory, no intercept. Peers are fitted again and again with more effort (how,
says `benchmarks/suite/time_to_accuracy.py`). `*` is the method that `--solver auto` takes. The
last column is what only we have: seconds until the gap is proven.""",
    "streaming": """A training with `--memory 256MB` by the code of `fewpass train`, from opening
the set to the finished run folder, the cluster being up; the peers over the same Zarr store.
"Cold": the page cache was told to forget the files before every turn.""",
    "out-of-core": """Seconds per pass of runs of several passes, the first reading, snapshots,
log and certificates shared out over them, over seconds per pass of the same method on the same rows
in memory, without storage or Dask. `--memory 256MB`, and a budget into which the set fits.""",
    "many-models": """One pass with several lam, rows in memory, against one. "In turn" takes a
window's rows once per model.""",
    "classes": """105 models in the same passes, each certified to 1e-3, by the code of `fewpass
train`, against LIBLINEAR in memory with its default tolerance. Reading, snapshots and proof are
counted on our side.""",
    "reading": """Text to rows in memory. "fewpass ingest" is the whole way: parsed, shuffled,
compressed, checksummed, with statistics, on disk. Costs per MB of text.""",
}


def main() -> None:
    """Write the page."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="of results at toy sizes")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--page", type=Path, default=PAGE)
    chosen = options.parse_args()
    held = newest(chosen.results, quick=chosen.quick)
    chosen.page.write_text(page(held, draw(held, chosen.page.parent / "figures")))


def newest(results: Path, *, quick: bool) -> list[Held]:
    """Return the newest line of every contest, in the order of the programme."""
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    last = {held["contest"]: held for held in lines if held["quick"] == quick}
    return [held for part in PARTS for held in last.values() if part_of(held) == part]


def part_of(held: Held) -> str:
    """Return the part of the programme that a contest belongs to."""
    return str(held["contest"]).split()[0]


def draw(held: list[Held], folder: Path) -> dict[str, str]:
    """Draw what there are results for; returns the figures by part."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for part, picture in (("one-pass", draw_ratios), ("accuracy", draw_accuracy),
                          ("out-of-core", draw_passes)):  # fmt: skip
        mine = [h for h in held if part_of(h) == part]
        if mine:
            picture(folder / f"performance-{part}.png", mine)
            drawn[part] = f"![{part}](figures/performance-{part}.png)"
    return drawn


def page(held: list[Held], figures: dict[str, str]) -> str:
    """Put the page together."""
    sections = [
        "\n\n".join([f"## {part.capitalize().replace('-', ' ')}", text, figures.get(part, ""),
                     *(section(h) for h in held if part_of(h) == part)])
        for part, text in PARTS.items()
        if any(part_of(h) == part for h in held)
    ]  # fmt: skip
    return (
        "\n\n".join([TITLE, about(held), "## Targets", targets(held), reasons(held), *sections])
        + "\n"
    )


REASONS = {
    1: "at d = 54 a row takes some tens of nanoseconds on our side, most of them the loop's own; "
    "the ratio varies from run to run by a third, mostly with scikit-learn's time.",
    2: "a sparse step in stored order is bound by its own reads and writes of weights, a line "
    "of memory per value; what scikit-learn loses by shuffling is only part of its cost.",
    5: "the gradient of short rows is bound by the losses, two transcendental functions a row, "
    "not by reading: see its limit. Ours sums in float64, NumPy in float32.",
    6: "`auto` foresees passes and what they cost, and looks for the proof, not for the weights "
    "alone: that of s2gd+ comes later than its weights, and the fewer passes, the less is read "
    "where rows do not fit.",
    7: "from a cold disk a pass takes about as long as reading, checking and decoding alone (the "
    "second limit): what is left is the first window, which is read beside nothing, and a run's "
    "own snapshot and log. What the cluster costs: see the line without Dask.",
    9: "`fewpass report` shows where it goes: the steps and drawing their order take most, as in "
    "memory; the first reading and decoding, a pass that certifies at the end, and the cluster's "
    "tasks come on top, shared out over the passes of the run.",
    10: "eight models touch two lines of memory per value where one model touches a quarter of "
    "one. imdb has 738,000 columns for 25,000 rows: a pass touches each weight few times, and "
    "bringing the weights side by side and back is half of it.",
    11: "the 105 models' weights take 100 MB; bringing them side by side in every pass and into "
    "the last snapshot takes longer than the steps.",
}
RANDOM = (
    "rows in random order come from memory in a few lines each, and ours in stored order "
    "became faster than the target foresaw. Reading rows at random, asked for ahead as in our "
    "kernels, and doing nothing but adding up squares, costs so many times reading all bytes "
    "in order, and ours so many times that: "
)

TITLE = """# Performance

Made of `docs/performance.jsonl` by `python -m benchmarks.suite.page`; the file is written by

    make bench

which installs the libraries that fewpass is compared with into an environment of their own.
Nothing on this page is written by hand but the words.

- All contestants of a table do the same work in turns, each in a process of its own; medians, and
  the least, of several turns. CPU seconds are those of all threads of the process.
- "Of the limit": CPU seconds over those of the first limit of the table (in italics): the same
  bytes read from memory or from files, and nothing done with them.
- "Peak MB" is the largest resident size, rows in memory included; "beyond imports" is that less
  what stood before the work began."""


def about(held: list[Held]) -> str:
    """Say what it was measured on, and with."""
    machines = {json.dumps(h["machine"]): h["machine"] for h in held}
    lines = []
    for machine in machines.values():
        caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
        lines.append(
            f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"caches {caches}."
        )
    days = sorted({h["at"][:10] for h in held})
    versions = ", ".join(f"{name} {v}" for name, v in held[-1]["versions"].items() if v != "-")
    load = max(h["load"] for h in held)
    lines.append(
        f"- {' to '.join(dict.fromkeys((days[0], days[-1])))}; load before a contest at most "
        f"{load:.1f}."
    )
    return "\n".join([*lines, f"- {versions}.", "", "The sets:", "", made_so()])


def made_so() -> str:
    """Say how the sets are made, in the words of the module that makes them."""
    _, _, text = (workloads.__doc__ or "").partition("\n\n")
    return text.rpartition("\n\n")[0]


def targets(held: list[Held]) -> str:
    """Tabulate what was wanted and what came out."""
    rows = [
        [
            str(target["number"]), h["title"], target["ours"], target["peer"],
            MEASURES.get(target["measure"], target["measure"]), f"{target['at_least']:.2f}",
            "-" if target["ratio"] is None else f"{target['ratio']:.2f}", verdict(h, target),
        ]
        for h in held
        for target in h["targets"]
    ]  # fmt: skip
    rows.sort(key=lambda cells: int(cells[0]))
    text = ("", "what", "ours", "against", "measure")
    return "Ratios: theirs over ours.\n\n" + table(TARGET_HEAD, rows, text)


def verdict(held: Held, target: Held) -> str:
    """Say whether a target is met; it is, too, where the peer alone did not arrive."""
    if target["ratio"] is None:
        course = held["courses"][target["ours"]]["seconds_to"]
        arrived = course[target["measure"].rpartition(" ")[2]] is not None
        return f"{target['peer']} did not arrive" if arrived else "not met"
    return "met" if target["ratio"] >= target["at_least"] else "not met"


def reasons(held: list[Held]) -> str:
    """Say why targets are missed, where they are."""
    missed = {t["number"] for h in held for t in h["targets"] if verdict(h, t) == "not met"}
    texts = REASONS | {3: at_random(held)}
    return "\n".join(f"- {number}: {texts[number]}" for number in sorted(missed) if number in texts)


def at_random(held: list[Held]) -> str:
    """Tell what reading rows in random order costs when nothing is done with them."""
    parts = []
    for h in held:
        rows = h.get("contestants", {})
        if "memory read, random rows" in rows:
            limit, stored, ours = (
                rows[name]["cpu_s"]["median"]
                for name in ("memory read, random rows", "memory read", "fewpass, random order")
            )
            name = " ".join(h["contest"].split()[1:])
            parts.append(f"{name} {limit / stored:.1f} and {ours / limit:.1f}")
    return RANDOM + ("; ".join(parts) + "." if parts else "")


def section(held: Held) -> str:
    """One contest: its command and its table."""
    rows = courses(held) if "courses" in held else costs(held)
    text = ("",)
    head = ACCURACY_HEAD if "courses" in held else HEAD
    command = f'    {COMMAND} "{held["contest"]}"'
    return f"### {held['title']}\n\n{command}\n\n" + table(head, rows, text)


def costs(held: Held) -> list[list[str]]:
    """A row per contestant."""
    every = held["contestants"]
    limit = next((row["cpu_s"]["median"] for row in every.values() if row["is_limit"]), None)
    return [cells(name, row, held, limit) for name, row in every.items()]


def cells(name: str, row: Held, held: Held, limit: float | None) -> list[str]:
    """One contestant's cells."""
    wall, cpu = row["wall_s"], row["cpu_s"]
    return [
        f"*{name}*" if row["is_limit"] else name,
        *map(seconds, (wall["median"], wall["least"], cpu["median"], cpu["least"])),
        each(cpu["median"], held), f"{cpu['median'] / limit:.1f}x" if limit else "-",
        f"{row['peak_rss_mb']:.0f}", f"{row['beyond_imports_mb']:.0f}",
    ]  # fmt: skip


def each(cpu: float, held: Held) -> str:
    """Return a cost per piece of the work."""
    if not held["count"]:
        return "-"
    if held["unit"] == "MB":
        return f"{cpu / held['count'] * 1e3:.1f} ms/MB"
    return f"{cpu / held['count'] * 1e9:.1f} ns/{held['unit']}"


def courses(held: Held) -> list[list[str]]:
    """A row per contestant on its way to the optimum."""
    return [
        [("* " if row["chosen"] else "") + name, *map(seconds, row["seconds_to"].values()),
         seconds(list((row["certified_in"] or {"": None}).values())[-1])]
        for name, row in held["courses"].items()
    ]  # fmt: skip


def seconds(value: float | None) -> str:
    """Three digits that count."""
    return "-" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    main()
