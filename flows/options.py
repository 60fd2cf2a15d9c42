"""The options of the command line: the same word means the same thing in every command.

Nothing is decided here: None stands for "not given", and the defaults are those of the plans.
Only the standard library and cyclopts are imported, so that `--help` need not wait for numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from cyclopts import Parameter

SolverName = Literal[
    "auto", "sgd", "asgd", "pegasos", "s2gd", "s2gd+", "svrg", "sdca", "asdca", "gd", "agd", "sag",
    "sag+", "lbfgs", "newton", "simba",
]  # fmt: skip
LossName = Literal["hinge", "squared_hinge", "smoothed_hinge", "logistic", "squared"]
Names = tuple[str, ...]


def named(*names: str) -> Any:
    """Return a parameter that is called otherwise than its field."""
    return Parameter(name=list(names))


@Parameter(name="*", group="Output")
@dataclass(frozen=True, kw_only=True)
class Output:
    """What is printed."""

    json: bool = False
    """Print one JSON object on standard output; everything else goes to standard error."""
    quiet: Annotated[bool, named("--quiet", "-q")] = False
    """Print nothing but the JSON object, if asked for, and errors."""
    verbose: Annotated[bool, named("--verbose", "-v")] = False
    """Print the effective plan, too."""
    debug: bool = False
    """Show the traceback of an error."""


@Parameter(name="*", group="Plan")
@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """Where a plan comes from, besides the command line."""

    config: Path | None = None
    """TOML file of settings, named as in the plan that --dry-run prints; the command line wins."""
    dry_run: bool = False
    """Print the effective plan in the form that --config reads, and do nothing."""


@Parameter(name="*", group="Where to run")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Where tasks run; it changes no bit of any result."""

    scheduler: str | None = None
    """Address of a Dask scheduler; "none" for no Dask at all [default: a cluster of threads in
    this process, its dashboard on 127.0.0.1]."""
    workers: int | None = None
    """Worker processes to start [default: threads of this process]."""
    threads: int | None = None
    """Threads per worker [default: the machine's cores, shared out]."""
    tls_ca: str | None = None
    """File of the authority that the cluster's certificates are checked by; turns TLS on."""
    tls_cert: str | None = None
    """File of this client's certificate."""
    tls_key: str | None = None
    """File of this client's key."""
    encrypt: bool | None = None
    """Talk to the worker processes of --workers over TLS, with keys made for the while."""


@Parameter(name="*", group="Training")
@dataclass(frozen=True, kw_only=True)
class Training:
    """What to train, and how far."""

    solver: SolverName | None = None
    """Method [default: auto, which takes asgd, averaged stochastic gradient descent, without a
    tolerance, else what usually needs the least]."""
    loss: LossName | None = None
    """Loss [default: logistic for labels, squared for numbers]."""
    smoothing: float | None = None
    """Width over which the smoothed hinge rounds its kink [default: 1]."""
    lam: str | None = None
    """Strength of the regularisation: a number, or a multiple of 1/n such as 10/n; several,
    such as 1e-2,1e-3,1/n, are trained in the same passes, and the best is kept [default: 1/n]."""
    held_out: str | None = None
    """Data set to judge the model by at the end; several lam need one to choose by."""
    intercept: Literal["none", "regularised", "free"] | None = None
    """No intercept, one charged like a weight, or one charged a hundredth of it
    [default: free]."""
    positive: str | None = None
    """The label that counts as +1, all others as -1 [default: the larger one of two; of more
    labels each in its turn, a model per class]."""
    class_weight: str | None = None
    """What rows count by their label: "balanced", or numbers such as spam=10,ham=1."""
    tol: float | None = None
    """Stop when the certified gap to the optimum, over max(1, |objective|), is at most this."""
    passes: int | None = None
    """Passes over the data at most [default: 1; 100 with --tol and for methods of
    many passes]."""
    certify: bool | None = None
    """Read the data once more at the end for the objective and the certificate."""
    start_from: str | None = None
    """A run whose newest model the training starts from [default: zero weights]."""
    seed: int | None = None
    """Where all randomness comes from [default: 0]."""
    memory: str | None = None
    """Memory to use at most beyond what the libraries take, such as 256MB [default: 1GiB]."""
    streams: int | None = None
    """Disjoint parts of the data walked at the same time and averaged [default: 1]."""
    snapshot_every: float | None = None
    """Seconds between snapshots [default: 30]."""
    set: Annotated[Names, Parameter(consume_multiple=False)] = ()
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver of asgd."""


@Parameter(name="*", group="Reading the source")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How source files are read."""

    format: Literal["auto", "libsvm", "csv", "parquet", "npy", "npz"] | None = None
    """What the files are [default: auto, told by name and first bytes]."""
    label: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Column of the targets, by name or position from 0 (-1: the last) [default: the column
    called label, target, y or class; of NPY files the last]."""
    weight: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Column of the row weights, by name or position [default: every row counts once]."""
    drop: Annotated[Names, Parameter(consume_multiple=False)] = ()
    """Column to leave out, by name or position; may be repeated."""
    n_features: Annotated[int | None, named("--features")] = None
    """Width of the rows; a wider row is refused [default: as wide as the data]."""
    zero_based: bool | None = None
    """LIBSVM indices start at 0 [default: at 1]."""
    on_bad_row: Literal["refuse", "skip"] | None = None
    """Stop at a bad row, or leave it out, count it and say why [default: refuse]."""
    missing: Literal["refuse", "zero"] | None = None
    """What a missing feature makes of its row: a bad one, or a zero in it [default: refuse]."""
    dtype: Literal["float32", "float64"] | None = None
    """Type of the stored features [default: float32]."""
    delimiter: str | None = None
    """Character between CSV cells [default: the commonest in the first line]."""
    header: Annotated[bool | None, Parameter(negative="--no-header")] = None
    """The first CSV line does (or does not) name the columns [default: it does when no cell is a
    number]."""


@Parameter(name="*", group="Ingest")
@dataclass(frozen=True, kw_only=True)
class Ingest:
    """What data set to make of the source."""

    task: Literal["auto", "classification", "regression"] | None = None
    """What the targets are [default: auto, labels if words or at most 1000 different whole
    numbers]."""
    test_fraction: float | None = None
    """Share of the rows that goes, by seed, to a second data set [default: 0]."""
    test_dataset: str | None = None
    """Where the second data set goes [default: DATASET-test]."""
    scale: Literal["none", "maxabs", "unit-rows", "standard"] | None = None
    """Scaling of the features [default: none]."""
    like: str | None = None
    """Data set whose width, labels and scaling are taken over, for test data."""
    shuffle: Annotated[bool | None, Parameter(negative="--no-shuffle")] = None
    """Lay the rows down in one random order [default: do]."""
    column_order: Literal["popularity", "source"] | None = None
    """Which columns of sparse rows are stored first: those that most rows have, which trains wide
    sets faster and shows nowhere outside, or as they come [default: popularity]."""
    seed: int | None = None
    """Where all randomness comes from [default: 0]."""
    memory: str | None = None
    """Memory to use at most beyond what the libraries take, such as 256MB [default: 1GiB]."""
    chunk_bytes: str | None = None
    """Size of a chunk in memory [default: 8 MiB, or 1/64 of a small set]."""
    spill: str | None = None
    """Local folder for unfinished work [default: inside a local data set, else the temporary
    folder]."""
    threads: int | None = None
    """Threads that parse and compress [default: one per core]."""
    overwrite: bool | None = None
    """Replace a data set that is there already."""
    columns: bool | None = None
    """Keep the data set by column, too, as `fewpass columns` does."""


def given(options: Any) -> dict[str, Any]:
    """Return the options that were given, by field."""
    every = ((f.name, getattr(options, f.name)) for f in fields(options))
    return {name: value for name, value in every if value is not None and value != ()}


def option_names() -> dict[str, str]:
    """Return the option that sets each field, for messages; fields of equal name agree."""
    groups = (Output, PlanSource, Where, Training, Reading, Ingest)
    return {name: option for group in groups for name, option in _names_of(group)}


def _names_of(group: type) -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(group, include_extras=True).items():
        own = [n for p in get_args(hint) if isinstance(p, Parameter) for n in p.name or ()]
        yield name, own[0] if own else f"--{name.replace('_', '-')}"


#: Defaults shared by all commands: dataclasses are immutable, one of each is enough.
OUTPUT, PLAN_SOURCE, WHERE = Output(), PlanSource(), Where()
TRAINING, READING, INGEST = Training(), Reading(), Ingest()
