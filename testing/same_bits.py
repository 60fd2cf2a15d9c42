"""Data sets, trainings and predictions of two checkouts, compared bit for bit on this machine.

    git worktree add ../before COMMIT
    python -m testing.same_bits ../before

Every case is made by the public functions alone, so that checkouts of unlike insides can be
compared: some hundred ingests by their fingerprints, the methods by their weights, and what
`predict` writes.  Whoever moves code that should change no bit runs it; whoever changes bits on
purpose sees which.  A case that a checkout refuses has the sentence in place of the bits.
"""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

N = 600
WHERE = Path("rows")
SEVERAL: dict[str, object] = {"chunk_bytes": 8192}  # chunks of every set
Case = Callable[[], str]

#: Tables of words, dates and numbers, and of numbers alone, in every format; options of ingests.
TABLES = ("t.csv", "t.tsv", "t.csv.gz", "t.jsonl", "t.parquet", "t.arrow", "t.sqlite")
NUMBERS = ("n.csv", "n.parquet", "n.svm", "n.vw", "n.npy", "n.npz")
OF_TABLES = {
    "as it comes": {}, "linear": {"encode": "linear"}, "always": {"encode": "always"},
    "additive": {"encode": "additive"}, "held out": {"test_fraction": 0.2},
    "last ones": {"test_by": "at", "test_fraction": 0.2}, "kept": {"keep": ["town"]},
    "groups": {"test_group": "town", "test_fraction": 0.2},
    "weights": {"weight": "size"}, "targets": {"label": "size"}, "crossed": {"cross": ["town,kind"]},
}  # fmt: skip
OF_NUMBERS = {
    "as it comes": {}, "doubles": {"dtype": "float64"}, "dense": {"layout": "dense"},
    "sparse": {"layout": "sparse"}, "held out": {"test_fraction": 0.2},
    "little memory": {"memory": "128MB"},
}  # fmt: skip

#: Methods by the losses that they take.
LABELS = "hinge", "squared_hinge", "smoothed_hinge", "logistic"
METHODS = {
    "auto": (*LABELS, "softmax"), "sgd": LABELS, "asgd": (*LABELS, "softmax"), "onepass": LABELS[:1],
    "pegasos": LABELS[:1], "s2gd": LABELS[1:], "s2gd+": LABELS[3:], "svrg": LABELS[3:],
    "sdca": LABELS, "psdca": (*LABELS, "softmax"), "asdca": LABELS[1:], "gd": LABELS[3:],
    "agd": LABELS[3:], "sag": LABELS[3:], "sag+": LABELS[3:], "lbfgs": LABELS[1:],
    "newton": LABELS[1:], "simba": LABELS[:1],
}  # fmt: skip
OF_AMOUNTS = {
    "squared": ("auto", "psdca", "newton"), "huber": ("psdca",), "quantile": ("psdca",),
    "epsilon_insensitive": ("psdca",), "poisson": ("auto", "psdca"), "gamma": ("auto",),
}  # fmt: skip


def written() -> None:
    """Write the tables, in every format."""
    rng = np.random.default_rng(0)
    WHERE.mkdir()
    town, kind = rng.choice(["Bern", "Oslo", "Rome", "Zug"], N), rng.choice(list("abc"), N)
    x = rng.normal(size=(N, 3)).round(3)
    at = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="h"))
    size = rng.gamma(2.0, np.exp(0.3 * x[:, 0])).round(3) + 0.001
    label = np.where(x[:, 0] + (town == "Rome") + rng.normal(size=N) > 0, "yes", "no")
    table = pd.DataFrame({
        "town": town, "kind": kind, "at": at.dt.strftime("%Y-%m-%d %H:%M:%S"), "x": x[:, 0],
        "y": np.where(rng.random(N) < 0.1, np.nan, x[:, 1]), "size": size, "label": label,
        "words": [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(N)],
    })  # fmt: skip
    table.to_csv(WHERE / "t.csv", index=False)
    table.to_csv(WHERE / "t.tsv", index=False, sep="\t")
    with gzip.open(WHERE / "t.csv.gz", "wb") as packed:
        packed.write((WHERE / "t.csv").read_bytes())
    table.to_json(WHERE / "t.jsonl", orient="records", lines=True)
    pa.parquet.write_table(pa.Table.from_pandas(table), WHERE / "t.parquet", row_group_size=170)
    pa.feather.write_feather(pa.Table.from_pandas(table), str(WHERE / "t.arrow"))
    with sqlite3.connect(WHERE / "t.sqlite") as base:
        table.to_sql("t", base, index=False)
    _numbers(rng, x, label)


def _numbers(rng: np.random.Generator, x: np.ndarray, label: np.ndarray) -> None:
    """Write rows of numbers, half of them 0, and their labels of two and four classes."""
    own = np.hstack([x, rng.normal(size=(N, 9))]).round(3)
    own[:, 3:][rng.random((N, 9)) < 0.5] = 0.0
    y = (label == "yes") + 0.0
    frame = pd.DataFrame(own, columns=[f"x{k}" for k in range(12)])
    frame = frame.assign(label=y.astype(int))
    frame.to_csv(WHERE / "n.csv", index=False)
    frame.to_parquet(WHERE / "n.parquet", index=False)
    classes = (y + 2 * (own[:, 3] > 0)).astype(int)
    frame.assign(label=classes).to_csv(WHERE / "classes.csv", index=False)
    amounts = np.round(np.exp(0.4 * own[:, 0]) * rng.gamma(4.0, 0.25, N), 3) + 0.001
    frame.assign(label=amounts).to_csv(WHERE / "amounts.csv", index=False)
    frame.assign(label=rng.poisson(amounts)).to_csv(WHERE / "counts.csv", index=False)
    for name, mark, zero in (("n.svm", "", 1), ("n.vw", "| ", 0)):
        rows = (
            f"{(1 if one else -1) if mark else int(one)} {mark}"
            + " ".join(f"{k + zero}:{value}" for k, value in enumerate(row) if value)
            for one, row in zip(y, own, strict=True)
        )
        (WHERE / name).write_text("\n".join(rows) + "\n")
    np.save(WHERE / "n.npy", np.column_stack([own, y]))
    np.savez(WHERE / "n.npz", X=own, y=y)


def cases() -> Iterator[tuple[str, Case]]:
    """Yield names and what makes bits."""
    for files, options, label in (
        (TABLES, OF_TABLES, {"label": "label"}),
        (NUMBERS, OF_NUMBERS, {}),
    ):
        for file in files:
            for name, own in options.items():
                named = label if file[0] == "t" or file.endswith((".csv", ".parquet")) else {}
                yield f"ingest {file}, {name}", partial(_ingested, file, named | own)
    for solver, losses in METHODS.items():
        for loss in losses:
            file = "classes.csv" if loss == "softmax" else "n.csv"
            yield f"train {loss} by {solver}", partial(_trained, file, loss, solver)
    for loss, solvers in OF_AMOUNTS.items():
        file = "counts.csv" if loss == "poisson" else "amounts.csv"
        for solver in solvers:
            yield f"train {loss} by {solver}", partial(_trained, file, loss, solver)
    yield "train classes apart", partial(_trained, "classes.csv", "hinge", "psdca")
    for name, more in (
        ("l1", {"penalty": "l1", "lam": ".1max"}), ("lam auto", {"lam": "auto"}),
        ("two streams", {"streams": 2}), ("little memory", {"memory": "100MB"}),
        ("one pass", {"tol": None, "passes": 1}), ("no intercept", {"intercept": "none"}),
    ):  # fmt: skip
        yield f"train {name}", partial(_trained, "n.csv", "logistic", "auto", **more)
    yield "train from a file", _straight
    for file in ("t.csv", "t.jsonl", "t.parquet"):
        yield f"predict {file}", partial(_predicted, file)


def _fresh() -> Path:
    return Path(tempfile.mkdtemp(dir=Path.cwd()))


def _ingested(file: str, options: dict[str, object]) -> str:
    import fewpass

    made = fewpass.ingest(WHERE / file, _fresh() / "set", **(SEVERAL | options))
    return _digest([_stored(Path(made.dataset))])


def _stored(dataset: Path) -> bytes:
    """Return the arrays of a data set and of its test rows, whatever its records look like."""
    digest = hashlib.sha256()
    for root in sorted(dataset.parent.glob(f"{dataset.name}*")):
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            if (
                path.is_file()
                and path.suffix not in (".json", ".log")
                and "generations" not in path.parts
            ):
                digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.digest()


def _trained(file: str, loss: str, solver: str, **options: object) -> str:
    import fewpass

    place = _fresh()
    task = "regression" if loss in OF_AMOUNTS else "classification"
    fewpass.ingest(WHERE / file, place / "set", label="label", encode="none", task=task, **SEVERAL)
    settings = {"lam": "1/n", "tol": 1e-3, "passes": 60, "loss": loss, "solver": solver} | options
    if solver in ("sgd", "asgd", "onepass", "pegasos", "simba"):
        settings |= {"tol": None, "passes": None if solver == "simba" else 2}
    fewpass.train(place / "set", place / "run", verbose=0, **settings)
    return _weights(place / "run")


def _straight() -> str:
    import fewpass

    place = _fresh()
    fewpass.train(WHERE / "t.csv", place / "run", label="label", lam="1/n", verbose=0)
    return _weights(place / "run")


def _weights(run: Path) -> str:
    import fewpass

    weights = fewpass.load_model(run).weights
    return _digest([np.asarray(weights.coef).tobytes(), np.asarray(weights.intercept).tobytes()])


def _predicted(file: str) -> str:
    import fewpass

    place = _fresh()
    fewpass.ingest(WHERE / "t.csv", place / "set", label="label", **SEVERAL)
    fewpass.train(place / "set", place / "run", lam="1/n", tol=1e-3, verbose=0)
    fewpass.predict(place / "run", WHERE / file, place / "out.csv")
    return _digest([(place / "out.csv").read_bytes()])


def _digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def print_bits(only: str) -> None:
    """Print a line of JSON for every case of that name, of the checkout that is imported."""
    written()
    for name, case in cases():
        if only not in name:
            continue
        before = set(Path.cwd().iterdir())
        try:
            bits = case()
        except Exception as error:
            bits = f"{type(error).__name__}: {error}".replace(str(Path.cwd()), "")
        for place in set(Path.cwd().iterdir()) - before:
            shutil.rmtree(place)
            bits = bits.replace(place.name, "")
        print(json.dumps([name, bits]), flush=True)


def bits_of(checkout: Path, only: str) -> dict[str, str]:
    """Return the bits of every case, in a process of its own that imports a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve())}
        command = [sys.executable, Path(__file__).resolve(), "--print", "--only", only]
        said = subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return dict(map(json.loads, said.splitlines()))


def main() -> int:
    """Compare two checkouts; 1 where any bit differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", type=Path, help="another checkout")
    parser.add_argument("--print", action="store_true", help="the bits of the one that is imported")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    asked = parser.parse_args()
    if asked.print or asked.before is None:
        print_bits(asked.only)
        return 0
    ours, theirs = (bits_of(one, asked.only) for one in (Path(__file__).parents[1], asked.before))
    differ = [name for name in ours if ours[name] != theirs.get(name)]
    for name in differ:
        print(f"{name}: {theirs.get(name, 'not there')} -> {ours[name]}")
    print(f"{len(ours) - len(differ)} of {len(ours)} cases have the same bits.")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
