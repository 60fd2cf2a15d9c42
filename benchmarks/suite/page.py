"""The page of performance and its figures, made of the file of results.

    python -m benchmarks.suite.page    # draws the figures; the documentation's site has the page

Of every contest the newest line counts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.suite import workloads
from benchmarks.suite.__main__ import RESULTS
from benchmarks.suite.figures import draw_accuracy, draw_bars, draw_passes, draw_ratios
from benchmarks.suite.latency import ACCURACY
from benchmarks.suite.words import (
    CHAIN,
    COPIES,
    IN_SHORT,
    LINES,
    MADE_OF,
    PROFILES,
    RANDOM,
    REASONS,
    SECTIONS,
    TARGETS,
    TARGETS_ARE,
    TITLE,
)
from testing.results import table

Held = dict[str, Any]
FIGURES = RESULTS.with_name("figures")
COMMAND = ".venv-peers/bin/python -m benchmarks.suite --only"
TARGET_HEAD = ("", "what", "ours", "against", "measure", "wanted", "result", "met")
MEASURES = {
    "wall_s": "wall s",
    "later_s": "wall s of a later pass",
    "cpu_s": "CPU s",
    "beyond_imports_mb": "peak beyond imports",
}


def main() -> None:
    """Draw the figures; write the page where one is asked for."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="of results at toy sizes")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--page", type=Path, help="where to write the page, figures beside it")
    chosen = options.parse_args()
    held = newest(chosen.results, quick=chosen.quick)
    draw(held, chosen.page.with_name(FIGURES.name) if chosen.page else FIGURES)
    if chosen.page:
        chosen.page.write_text(page(held))


def newest(results: Path, *, quick: bool) -> list[Held]:
    """Return the newest line of every contest, in the order of the programme."""
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    last = {held["contest"]: held for held in lines if held["quick"] == quick}
    return [held for part in SECTIONS for held in last.values() if part_of(held) == part]


def part_of(held: Held) -> str:
    """Return the part of the programme that a contest belongs to."""
    return str(held["contest"]).split()[0]


def draw(held: list[Held], folder: Path) -> None:
    """Draw a figure per part that there are results for."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"one-pass": draw_ratios, "accuracy": draw_accuracy, "out-of-core": draw_passes}
    for part in dict.fromkeys(part_of(h) for h in held):
        path = folder / figure_of(part)
        mine = [h for h in held if part_of(h) == part]
        if part in own:
            own[part](path, mine)
        else:
            draw_bars(path, mine, BARS[part])


def figure_of(part: str) -> str:
    """Return the file name of a part's figure."""
    return f"performance-{part}.png"


def page(held: list[Held]) -> str:
    """Put the page together."""
    parts = [part for part in SECTIONS if any(part_of(h) == part for h in held)]
    sections = [section(part, [h for h in held if part_of(h) == part]) for part in parts]
    made = MADE_OF + "\n" + about(held)
    first = [TITLE, in_short(held), made, "## Targets", targets(held)]
    return "\n\n".join([*first, *sections]) + "\n"


def in_short(held: list[Held]) -> str:
    """Tabulate a dozen tasks in plain words, with those in which a peer is faster."""
    by_contest, rows = {h["contest"]: h for h in held}, []
    for what, contest, ours, peer, measure in IN_SHORT:
        if contest in by_contest:
            each = contestants(by_contest[contest])
            own, other = (each[name][measure]["median"] for name in (ours, peer))
            seconds = (f"{digits(own)} s", f"{digits(other)} s", MEASURES[measure])
            rows.append([what, peer, *seconds, f"{other / own:.1f}"])
    head = ("task", "peer", "fewpass", "the peer", "measure", "times as fast")
    return table(head, rows, ("task", "peer", "measure"))


def about(held: list[Held]) -> str:
    """Say what it was measured on, and with."""
    machines = {json.dumps(h["machine"]): h["machine"] for h in held}
    lines, cores = [], {1: "held to one core, as contests of one thread are"}
    for machine in machines.values():
        cores.setdefault(machine["cores"], f"{machine['cores']} cores")
        caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
        lines.append(
            f"- {machine['processor']}, {cores[machine['cores']]}, {machine['memory_gb']} GB, "
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
    """Tabulate what was wanted and what came out, and tell of every miss and its reason."""
    groups: dict[tuple[Any, ...], list[tuple[Held, Held]]] = {}
    for h in held:
        for target in h["targets"]:
            kind = (
                target["number"],
                TARGETS[target["number"]],
                target["ours"],
                target["peer"],
                MEASURES.get(target["measure"], target["measure"]),
                target["at_least"],
            )
            groups.setdefault(kind, []).append((h, target))  # fmt: skip
    rows = [[*map(str, kind[:5]), f"{kind[5]:.2f}", *came_out(found)]
            for kind, found in sorted(groups.items())]  # fmt: skip
    text = ("", "what", "ours", "against", "measure")
    told = [TARGETS_ARE, table(TARGET_HEAD, rows, text), "\n".join(missed(held))]
    return "\n\n".join(part for part in told if part)


def came_out(found: list[tuple[Held, Held]]) -> list[str]:
    """Say how far the contests of one target came, and how many of them met it."""
    ratios = [target["ratio"] for _, target in found if target["ratio"] is not None]
    told = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""
    told = f"{ratios[0]:.2f}" if len(ratios) == 1 else told or "-"
    lost = len(found) - len(ratios)  # the peer did not arrive
    met = sum(verdict(*pair) != "not met" for pair in found)
    return [told + (f"; the peer did not arrive: {lost}" if lost else ""), f"{met} of {len(found)}"]


def verdict(held: Held, target: Held) -> str:
    """Say whether a target is met; it is, too, where the peer alone did not arrive."""
    if target["ratio"] is None and "courses" not in held:
        return "met"
    if target["ratio"] is None:
        course = held["courses"][target["ours"]]["seconds_to"]
        arrived = course[target["measure"].rpartition(" ")[2]] is not None
        return f"{target['peer']} did not arrive" if arrived else "not met"
    return "met" if target["ratio"] >= target["at_least"] else "not met"


def missed(held: list[Held]) -> list[str]:
    """Tell of every target that is missed: where, by how much, and why."""
    where: dict[int, dict[str, list[str]]] = {}
    for h in held:
        name = " ".join(h["contest"].split()[1:])
        for t in (t for t in h["targets"] if verdict(h, t) == "not met"):
            pair = f"{t['ours']} against {t['peer']}, {t['at_least']:.2f} wanted"
            ratio = "-" if t["ratio"] is None else f"{t['ratio']:.2f}"
            where.setdefault(t["number"], {}).setdefault(pair, []).append(f"{ratio} on {name}")
    texts = REASONS | {1: at_chain(held), 3: at_random(held), 10: at_lines(held)}
    return [
        f"- {number}, not met: "
        + "; ".join(f"{pair}: {', '.join(places)}" for pair, places in pairs.items())
        + (f". Why: {texts[number]}" if number in texts else ".")
        for number, pairs in sorted(where.items())
    ]


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


def section(part: str, held: list[Held]) -> str:
    """One part: its words, its command, its figure, a table of all its contests."""
    names = list(dict.fromkeys(name for h in held for name in contestants(h)))
    head = ("", *(" ".join(h["contest"].split()[1:]) for h in held))
    rows = [
        [f"*{name}*" if is_limit(held, name) else name,
         *(SHOWN[part](contestants(h)[name]) if name in contestants(h) else "" for h in held)]
        for name in names
    ]  # fmt: skip
    figure = f"![{part}]({FIGURES.name}/{figure_of(part)})"
    title = f"## {part.capitalize().replace('-', ' ')}"
    words = [title, SECTIONS[part], f"    {COMMAND} {part}", figure, table(head, rows, ("",))]
    return "\n\n".join([*words, *([PROFILES[part]] if part in PROFILES else [])])


def contestants(held: Held) -> Held:
    """Return the rows of a contest by the names of those who took part."""
    found: Held = held.get("contestants") or held["courses"]
    return found


def is_limit(held: list[Held], name: str) -> bool:
    """Say whether that is what no contestant can be faster than."""
    return any(contestants(h).get(name, {}).get("is_limit") for h in held)


def cpu(row: Held) -> str:
    """CPU milliseconds."""
    return digits(1e3 * row["cpu_s"]["median"])


def wall(row: Held) -> str:
    """Wall milliseconds."""
    return digits(1e3 * row["wall_s"]["median"])


def wall_and_peak(row: Held) -> str:
    """Wall milliseconds, and MB beyond imports at most."""
    return f"{wall(row)} ({row['beyond_imports_mb']:.0f})"


def wall_and_cpu(row: Held) -> str:
    """Wall milliseconds, and CPU milliseconds."""
    return f"{wall(row)} ({cpu(row)})"


def until_accurate(row: Held) -> str:
    """CPU milliseconds of a fit, and how far above the optimum it ends where that is too far."""
    above = row["found"]["above"]
    return cpu(row) + (f" ({above:.0e})" if above > ACCURACY else "")


def arrived(row: Held) -> str:
    """CPU milliseconds of a fit that arrives; of others how far above the optimum they end."""
    above = row["found"]["above"]
    if row["found"]["arrived"]:
        return cpu(row)
    return cpu(row) + (" (ended)" if above is None else f" ({above:.0e})")


def each_pass(row: Held) -> str:
    """Wall milliseconds of a later pass, and of the whole run per pass."""
    return f"{digits(1e3 * row['later_s']['median'])} ({wall(row)})"


def course(row: Held) -> str:
    """Return seconds to within 1e-6, and until that was proven; a star for the method of `auto`."""
    arrived, proven = (list((row[n] or {"": None}).values())[-1]
                       for n in ("seconds_to", "certified_in"))  # fmt: skip
    told = f" ({digits(proven)})" if proven is not None else ""
    return ("* " if row["chosen"] else "") + digits(arrived) + told


def digits(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"


def whole(row: Held) -> str:
    """Wall seconds of whole processes; CPU seconds, MB at most and the test loss."""
    wall_s, cpu_s = (digits(row[measure]["median"]) for measure in ("wall_s", "cpu_s"))
    return f"{wall_s} ({cpu_s}, {row['peak_rss_mb']:,.0f}, {row['found']['test_loss']:.4f})"


SHOWN = {
    "file-to-model": whole,
    "one-pass": cpu, "inner-step": cpu, "gradient": wall, "accuracy": course,
    "streaming": wall_and_peak, "out-of-core": each_pass, "learners": wall_and_cpu,
    "many-models": cpu, "classes": wall_and_peak, "reading": cpu, "latency": until_accurate,
    "l1": arrived, "softmax": arrived, "counts": arrived,
}  # fmt: skip
BARS = {
    "file-to-model": "wall_s",
    "inner-step": "cpu_s", "gradient": "wall_s", "streaming": "wall_s", "learners": "wall_s",
    "many-models": "cpu_s",
    "classes": "wall_s", "reading": "cpu_s", "latency": "cpu_s",
    "l1": "cpu_s", "softmax": "cpu_s", "counts": "cpu_s",
}  # fmt: skip

if __name__ == "__main__":
    main()
