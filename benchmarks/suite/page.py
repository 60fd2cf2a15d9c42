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
from benchmarks.suite.words import CHAIN, COPIES, LINES, RANDOM, REASONS, SECTIONS, TITLE
from pipeline.time_table import BESIDE, PARTS

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

PASSES_HEAD = (
    "",
    "a later pass, wall s",
    "least",
    "whole run, a pass, wall s",
    "CPU s",
    "peak MB",
    "beyond imports",
)
MEASURES = {
    "wall_s": "wall s",
    "later_s": "wall s of a later pass",
    "cpu_s": "CPU s",
    "beyond_imports_mb": "peak beyond imports",
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
    return [held for part in SECTIONS for held in last.values() if part_of(held) == part]


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
        for part, text in SECTIONS.items()
        if any(part_of(h) == part for h in held)
    ]  # fmt: skip
    return (
        "\n\n".join([TITLE, about(held), "## Targets", targets(held), reasons(held), *sections])
        + "\n"
    )


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
    texts = REASONS | {1: at_chain(held), 3: at_random(held), 10: at_lines(held)}
    return "\n".join(f"- {number}: {texts[number]}" for number in sorted(missed) if number in texts)


def at_chain(held: list[Held]) -> str:
    """Tell how much of a step over short dense rows remains where no row comes from memory."""
    parts = []
    for h in held:
        rows = {name: row["cpu_s"]["median"] for name, row in h.get("contestants", {}).items()}
        if "fewpass, the same 64 rows" in rows:
            name, each = " ".join(h["contest"].split()[1:]), 1e9 / h["count"]
            ours, chain = rows["fewpass"] * each, rows["fewpass, the same 64 rows"] * each
            parts.append(f"{name} {ours:.0f} and {chain:.0f}")
    return CHAIN + "; ".join(parts) + "."


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


def at_lines(held: list[Held]) -> str:
    """Tell what touching the weights of several models costs when nothing is done with them."""
    parts = []
    for h in held:
        rows = {name: row["cpu_s"]["median"] for name, row in h.get("contestants", {}).items()}
        if "the lines of 8 models' weights" in rows:
            limit, name = rows["the lines of 8 models' weights"], " ".join(h["contest"].split()[1:])
            ours, one = rows["8 values of lam, side by side"], rows["one lam"]
            parts.append(f"{name} {limit / one:.1f} and {ours / limit:.1f}")
    return LINES + "; ".join(parts) + "." + COPIES


def section(held: Held) -> str:
    """One contest: its command and its table."""
    command = f'    {COMMAND} "{held["contest"]}"'
    title = f"### {held['title']}\n\n{command}\n\n"
    if "courses" in held:
        return title + table(ACCURACY_HEAD, courses(held), ("",))
    if part_of(held) == "out-of-core":
        return title + table(PASSES_HEAD, passes(held), ("",)) + "\n\n" + whereabouts(held)
    return title + table(HEAD, costs(held), ("",))


def passes(held: Held) -> list[list[str]]:
    """A row per contestant that goes through the rows again and again."""
    return [
        [name, *map(seconds, (row["later_s"]["median"], row["later_s"]["least"],
                              row["wall_s"]["median"], row["cpu_s"]["median"])),
         f"{row['peak_rss_mb']:.0f}", f"{row['beyond_imports_mb']:.0f}"]
        for name, row in held["contestants"].items()
    ]  # fmt: skip


def whereabouts(held: Held) -> str:
    """Tabulate where a later pass went, by the logs of the last turn's runs."""
    logs = {name: row["found"] for name, row in held["contestants"].items()}
    logs = {name: log for name, log in logs.items() if "parts" in log}
    head = ("ms", *PARTS, *(f"{name}, beside" for name in BESIDE))
    rows = [
        [name, *(f"{1e3 * log['parts'][part]:.1f}" for part in PARTS),
         *(f"{1e3 * log['beside'][part]:.1f}" for part in BESIDE)]
        for name, log in logs.items()
    ]  # fmt: skip
    return table(head, rows, ("ms",))


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
