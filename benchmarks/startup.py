"""What every command imports, as a tree of times; fails where one imports what it does not need.

    python -m benchmarks.startup                 the trees, of imports of 10 ms and more
    python -m benchmarks.startup --check         the lists alone: no time is looked at
    python -m benchmarks.startup --first-row     seconds until a training has stepped its first row

Each command is a process of its own on a small click log, its kernels and modules compiled before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.first_row import as_line, first_row

CLUSTER = ("dask", "distributed", "bokeh", "tornado")
TABLES = ("pyarrow", "pandas", "polars", "scipy.sparse", "scipy.stats")
PICTURES = ("matplotlib", "PIL")
LEARNING = ("sklearn", "prefect", "cyclopts", "sqlalchemy", "onnx")
STORES = ("s3fs", "botocore", "aiohttp", "zarr")
METHODS = (
    "fewpass.solvers.simba.simba",
    "fewpass.solvers.s2gd.s2gd",
    "fewpass.solvers.dual.sdca",
    "fewpass.solvers.batch.lbfgs",
)
COMPILING = ("numba", "scipy.linalg", "sparse")  # kernels on disk need none of it
HEAVY = (*CLUSTER, *TABLES, *PICTURES, *LEARNING, *STORES, *METHODS, *COMPILING)
KERNELS = ("numpy", "fsspec", "psutil")
SHOWN_US = 10_000
SIZE = 200_000  # bytes of text
ROWS = "a,b,y\n" + "".join(f"{k % 7 / 8},{k % 3 / 4},{k % 2}\n" for k in range(10))


class Command(NamedTuple):
    """A command, and which of the heavy modules it may import."""

    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()  # modules that this one must do without, too


ONE_PASS = ("--passes", "1")
LAM = ("--lam", "1/n")  # chosen on a sample of the rows, it would need a dual method
COMMANDS = {
    "version": Command(("--version",), besides=(*KERNELS, "pydantic")),
    "help": Command(("--help",), besides=(*KERNELS, "pydantic")),
    "train": Command(("train", "clicks", "run", *ONE_PASS, *LAM)),
    "train on a table": Command(("train", "rows.csv", "of-table", *LAM)),
    "train straight": Command(("train", "clicks.svm", "straight", "--test-fraction", "0.1", *LAM)),
    "train to a tolerance": Command(
        ("train", "clicks", "by-tol", "--tol", "0.5", "--solver", "s2gd+", *LAM),
        ("fewpass.solvers.s2gd.s2gd",),
    ),
    "resume": Command(("resume", "run")),
    "evaluate": Command(("evaluate", "run", "clicks-test")),
    "inspect": Command(("inspect", "run")),
}


TRAININGS = ("train", "train straight")  # these alone are timed until their first row


class Import(NamedTuple):
    """One line of `python -X importtime`."""

    name: str
    depth: int
    own_us: int
    with_its_own_us: int


def imports(words: Sequence[str], folder: Path) -> list[Import]:
    """Run a command, and return what it imported; CalledProcessError where it fails."""
    code = "import sys; from fewpass.flows.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code, *words], cwd=folder, check=True,
        capture_output=True, text=True, env=_environment(),
    )  # fmt: skip
    return list(_parsed(done.stderr.splitlines()))


def _environment() -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _parsed(lines: Sequence[str]) -> Iterator[Import]:
    for line in lines:
        cells = line.removeprefix("import time:").split("|")
        if line.startswith("import time:") and len(cells) == 3 and cells[0].strip().isdigit():
            name = cells[2][1:]
            depth = (len(name) - len(name.lstrip())) // 2
            yield Import(name.strip(), depth, int(cells[0]), int(cells[1]))


def unneeded(command: Command, found: Sequence[Import]) -> list[str]:
    """Return the heavy modules that a command imports and does not need."""
    heavy = (*(set(HEAVY) - set(command.needs)), *command.besides)
    return sorted({each.name for each in found} & set(heavy))


def tree(found: Sequence[Import], least_us: int = SHOWN_US) -> Iterator[str]:
    """Lay imports out as a tree, those above that imported others before what they imported."""
    for each in reversed(found):  # Python tells a module when it is done with it
        if each.with_its_own_us >= least_us:
            yield f"{each.with_its_own_us / 1e3:8.0f} ms  {'  ' * each.depth}{each.name}"


def prepare(folder: Path, run: Callable[[Sequence[str], Path], object] = imports) -> None:
    """Make a small click log, its data set and a run: kernels are compiled by then.

    `run` runs a command in a folder, by default in a process of its own.
    """
    from fewpass.pipeline.clicks import write_clicks

    write_clicks(folder / "clicks.svm", SIZE)
    (folder / "rows.csv").write_text(ROWS)
    run(("ingest", "clicks.svm", "clicks", "--test-fraction", "0.1"), folder)
    for name in (*TRAININGS, "train on a table", "train to a tolerance"):
        run((*COMMANDS[name].words[:2], f"{name}-before", *COMMANDS[name].words[3:]), folder)


def tell_first_rows(folder: Path, runs: int) -> None:
    """Print how long trainings take until their first row."""
    for title in TRAININGS:
        verb, source, run, *_ = COMMANDS[title].words
        names = [f"{run}-{k}" for k in range(runs + 1)]
        more = ONE_PASS if ONE_PASS[0] in COMMANDS[title].words else ()
        found = [first_row((verb, source, name, *more), folder, _environment()) for name in names]
        print(as_line(f"fewpass {verb} {source} {run}", found[1:]))  # the first compiles kernels


def tell_imports(folder: Path, *, trees: bool) -> int:
    """Print what commands import; return how many of these modules they do not need."""
    faults = 0
    for title, command in COMMANDS.items():
        found = imports(command.words, folder)
        total = sum(each.own_us for each in found) / 1e3
        print(f"fewpass {' '.join(command.words)}: {len(found)} imports, {total:.0f} ms")
        if trees:
            print(*tree(found), sep="\n")
        for module in unneeded(command, found):
            faults += 1
            print(f"  imports {module}, which {title} does not need")
    return faults


def main() -> int:
    """Print the trees, and 1 where a command imports what it does not need."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--first-row", action="store_true")
    parser.add_argument("--runs", type=int, default=9, help="of each training, for --first-row")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        if arguments.first_row:
            tell_first_rows(folder, arguments.runs)
            return 0
        return min(tell_imports(folder, trees=not arguments.check), 1)


if __name__ == "__main__":
    sys.exit(main())
