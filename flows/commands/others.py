"""What is done less often: models in use and elsewhere, kernels, dead runs, the demo."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.pipeline.settings.model import MOST_WORKERS


def models(store: str, /, *, output: Output = OUTPUT) -> int:
    """List the models of a store that refresh writes: how good each is, which one is published.

    Files that a refresh could not read, and has set aside, come with the reason.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """
    from fewpass.flows.publishing import run_models

    return run_models(store, output)


def publish(
    store: str,
    generation: Annotated[int, whole(1)],
    /,
    *,
    after: Annotated[int | None, whole(0)] = None,
    because: str = "",
    output: Output = OUTPUT,
) -> int:
    """Publish the model of a generation, newer or older, as the one to use.

    Whoever evaluates, predicts or exports with the store uses it from then on, and the next refresh
    trains on from it.  Of two who publish at once one wins; the other is told, and exits with 2.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, such as 000007.
    after
        Number of the publication that is followed now, as fewpass models told it; where it is
        another one by now, nothing is changed [default: whichever it is].
    because
        Why; kept with the publication.
    """
    from fewpass.flows.publishing import run_publish

    return run_publish(store, generation, after, because, output)


def refresh(
    store: str, /, *, abandon: bool = False, because: str = "", output: Output = OUTPUT
) -> int:
    """Give up the generation of a store that is not finished; `prefect run refresh` makes them.

    What was made of it is not used, and the next refresh takes its files anew.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    abandon
        Say that this is meant.
    because
        Why; kept with the generation.
    """
    from fewpass.flows.publishing import run_refresh

    return run_refresh(store, abandon, because, output)


def export(run: str, out: str, /, *, overwrite: bool = False, output: Output = OUTPUT) -> int:
    """Write a run's model for other programs: .onnx, .safetensors, .liblinear, .skops.

    .onnx (float64 rows X in; label, scores, probabilities or prediction out), .safetensors (coef,
    intercept and what they mean), .liblinear (labels must be integers) or .skops (scikit-learn's
    own classes).  Scaling is undone: the model takes rows as the sources had them.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    out
        File to write; its ending says what kind.
    overwrite
        Replace OUT if it exists already; never a source of the model's data set, or what lies in a
        data set or a run.
    """
    from fewpass.flows.exporting import run_export

    return run_export(run, out, overwrite, output)


def columns(dataset: str, /, *, memory: str = "1GiB", output: Output = OUTPUT) -> int:
    """Store a data set by column as well, in files that --solver simba maps.

    The copy lies in DATASET/by-column, uncompressed, by row and by column.  Killed half-way, it
    leaves nothing that looks complete.

    Parameters
    ----------
    dataset
        Data set made by ingest, on this machine.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB].
    """
    from fewpass.flows.ingesting import run_columns

    return run_columns(dataset, memory, output)


def warm_up(
    *,
    losses: str | None = None,
    layouts: str | None = None,
    processes: Annotated[int | None, whole(1, MOST_WORKERS)] = None,
    output: Output = OUTPUT,
) -> int:
    """Compile the usual kernels in advance, for container images and services.

    Compiled kernels lie in ~/.cache/fewpass (XDG_CACHE_HOME); what is there is not compiled again.

    Parameters
    ----------
    losses
        Losses, separated by commas [default: logistic,squared].
    layouts
        Kinds of rows: dense, sparse [default: dense,sparse].
    processes
        That compile at a time [default: one per core].
    """
    from fewpass.flows.warming import run_warm_up

    return run_warm_up(losses, layouts, processes, output)


def doctor(*runs: str, dry_run: bool = False, output: Output = OUTPUT) -> int:
    """Find runs whose process has died, free them, and say how to continue them.

    Looks at the runs named or below the folders named, and at all runs of the Prefect server in
    PREFECT_API_URL.  A dead flow run is marked crashed, which frees its concurrency slot, and its
    lease is removed.  One that is alive and has made no progress for ten times as long as is usual
    for it is told as stalled, and the exit status is 1.

    Parameters
    ----------
    runs
        Folders or addresses of runs, or of what they lie in.
    dry_run
        Change nothing; exit with 1 when something is dead.
    """
    from fewpass.flows.doctor import run_doctor

    return run_doctor(runs, dry_run, output)


def demo(
    folder: str = "demo-output",
    /,
    *,
    size: str = "600MB",
    memory: str = "256MB",
    seed: Annotated[int, whole(0)] = 0,
    output: Output = OUTPUT,
) -> int:
    """Go through a whole job on generated data larger than the memory limit.

    Parameters
    ----------
    folder
        Folder for everything that is made [default: demo-output].
    size
        Size of the text to make and ingest [default: 600MB].
    memory
        Memory limit, in addition to what the libraries take [default: 256MB].
    seed
        Seed of all randomness [default: 0].
    """
    from fewpass.flows.demo import run_demo

    return run_demo(folder, size, memory, seed, output)
