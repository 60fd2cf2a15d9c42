"""The figures of the page of performance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

Held = dict[str, Any]
OURS, PEER, LIMIT = "#1f77b4", "#c9c9c9", "#7fbf7f"
MEASURED = {"cpu_s": "CPU seconds", "wall_s": "wall seconds"}


def draw_ratios(path: Path, held: list[Held]) -> None:
    """CPU seconds of a pass over those of reading the bytes, a group of bars per contest."""
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(held) + 1.2), layout="constrained")
    shown = ("fewpass", "scikit-learn, averaged")
    labels = []
    for k, one in enumerate(reversed(held)):
        rows = one["contestants"]
        limit = next(row["cpu_s"]["median"] for row in rows.values() if row["is_limit"])
        ours = "fewpass" if "fewpass" in rows else "fewpass, columns by frequency"
        for j, name in enumerate((shown[1], ours)):
            ratio = rows[name]["cpu_s"]["median"] / limit
            at = k + 0.19 - 0.38 * (1 - j)
            axes.barh(at, ratio, 0.36, color=(PEER, OURS)[j],
                      label=shown[1 - j] if k == 0 else None)  # fmt: skip
            axes.text(
                ratio * 1.03, k + 0.19 - 0.38 * (1 - j), f"{ratio:.1f}", va="center", fontsize=8
            )
        labels.append(" ".join(one["contest"].split()[1:]))
    axes.set_yticks(range(len(labels)), labels)
    axes.axvline(1.0, color=LIMIT)
    axes.set(xscale="log", xlabel="CPU seconds over those of reading the bytes from memory")
    axes.legend(loc="upper right", fontsize=8)
    finish(figure, path)


def draw_accuracy(path: Path, held: list[Held]) -> None:
    """Suboptimality against CPU seconds, a panel per problem."""
    columns = min(4, len(held))
    rows = -(-len(held) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(3.4 * columns, 3.2 * rows), squeeze=False,
                                  layout="constrained")  # fmt: skip
    names = list(dict.fromkeys(name for one in held for name in one["courses"]))
    lines = {}
    for axes, one in zip(panels.flat, held, strict=False):
        for name, row in one["courses"].items():
            points = [(s, float(t)) for t, s in row["seconds_to"].items() if s is not None]
            if points:
                (lines[name],) = axes.plot(*zip(*points, strict=True), **style(name, names))
        axes.set(xscale="log", yscale="log", title=" ".join(one["contest"].split()[1:]))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.title.set_fontsize(9)
    for axes in panels[-1]:
        axes.set_xlabel("CPU seconds", fontsize=8)
    figure.supylabel("objective above the optimum, relative", fontsize=9)
    shown = [name for name in names if name in lines]
    figure.legend([lines[n] for n in shown], shown, loc="outside lower center", ncols=7, fontsize=8)
    finish(figure, path)


def style(name: str, names: list[str]) -> dict[str, Any]:
    """Ours in blue, by line; the others thinner, by colour."""
    ours = [n for n in names if n.startswith("fewpass")]
    if name in ours:
        dashes = ("-", "--", "-.", ":")[ours.index(name) % 4]
        return {"color": OURS, "lw": 2.2, "ls": dashes, "marker": "o", "ms": 3}
    others = [n for n in names if n not in ours]
    colour = mpl.colormaps["Set1"]((1 + others.index(name)) % 9)
    return {"color": colour if others.index(name) else "black", "lw": 1.0, "marker": "o", "ms": 2.5}


def draw_passes(path: Path, held: list[Held]) -> None:
    """Seconds per pass out of core over seconds per pass in memory."""
    figure, axes = plt.subplots(figsize=(9, 0.7 * len(held) + 1.2), layout="constrained")
    found = (name for one in held for name in one["contestants"] if name != "in memory")
    names = list(dict.fromkeys(found))
    for j, name in enumerate(names):
        there = [k for k, one in enumerate(held) if name in one["contestants"]]
        ratios = [
            held[k]["contestants"][name]["later_s"]["median"]
            / held[k]["contestants"]["in memory"]["later_s"]["median"]
            for k in there
        ]
        places = [len(held) - 1 - k - 0.26 * (j - 1) for k in there]
        axes.barh(places, ratios, 0.24, label=name)
        for place, ratio in zip(places, ratios, strict=True):
            axes.text(ratio, place, f" {ratio:.2f}", va="center", fontsize=7)
    axes.set_yticks(range(len(held)), [" ".join(h["contest"].split()[1:]) for h in reversed(held)])
    axes.axvline(1.0, color=LIMIT)
    axes.set(xlabel="wall seconds of a later pass over those in memory")
    axes.legend(fontsize=8)
    finish(figure, path)


def draw_bars(path: Path, held: list[Held], measure: str) -> None:
    """Seconds of every contestant, a panel per contest."""
    rows = -(-len(held) // 3)
    columns = -(-len(held) // rows)
    figure, panels = plt.subplots(rows, columns, figsize=(4.6 * columns, 2.4 * rows), squeeze=False,
                                  layout="constrained")  # fmt: skip
    for axes in panels.flat[len(held) :]:
        axes.set_axis_off()
    for axes, one in zip(panels.flat, held, strict=False):
        rows_of = one["contestants"]
        values = [row[measure]["median"] for row in rows_of.values()]
        axes.barh(range(len(values)), values, color=[bar_colour(*item) for item in rows_of.items()])
        axes.set_yticks(range(len(values)), list(rows_of), fontsize=7)
        axes.invert_yaxis()
        axes.set(xlabel=MEASURED[measure], title=" ".join(one["contest"].split()[1:]))
        axes.title.set_fontsize(9)
    finish(figure, path)


def bar_colour(name: str, row: Held) -> str:
    """Limits, peers, and ours."""
    if row["is_limit"]:
        return LIMIT
    peers = (
        "scikit",
        "numpy",
        "scipy",
        "dask",
        "LIBLINEAR",
        "Vowpal",
        "pandas",
        "pyarrow",
        "polars",
    )
    return PEER if name.startswith(peers) else OURS


def finish(figure: Any, path: Path) -> None:
    """Write a figure."""
    figure.savefig(path, dpi=130)
    plt.close(figure)
