"""All contests: what is measured, against whom, and what the ratios should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.suite import certified_fits, reading
from benchmarks.suite.accuracy import AccuracyContest
from benchmarks.suite.contest import Contest, Contestant, Target
from benchmarks.suite.file_contests import FILE_MB, TITLES, TOY_MB, FileContest
from benchmarks.suite.sector import sector_set
from benchmarks.suite.streaming import BUDGET_MB, stored
from benchmarks.suite.workloads import DENSE, MADE, SPARSE, prepare, shape

OURS, POPULAR, SOURCE = "fewpass", "fewpass, columns by frequency", "fewpass, columns as given"
RANDOM, FEW_ROWS = "fewpass, random order", "fewpass, the same 64 rows"
PEER, SHUFFLING = "scikit-learn, averaged", "scikit-learn, averaged, shuffled"
LATENCY_SIZES = ((100, 10), (10_000, 50), (100_000, 50))
SKLEARN = {
    "logistic": {
        "LogisticRegression": "logistic_regression", "SGDClassifier, averaged": "sgd_classifier",
    },
    "squared_hinge": {"LinearSVC": "linear_svc"},
    "squared": {"Ridge": "ridge"},
}  # fmt: skip
ONE_TURN = ("imdb-raw", "mnist")  # where peers take long
FIT_TARGETS = {"l1": 17, "softmax": 18, "counts": 19}
TOO_WIDE = [(name, "scikit-learn newton-cholesky") for name in ("sector", "mnist")]
RAW = ("counts", "imdb-raw", "mnist")  # rows as they lie, or in units that were not chosen for us
ASGD_TARGETS = {
    **dict.fromkeys(
        (("D1", "hinge"), ("D1", "logistic"), ("D2", "hinge"), ("D2", "logistic")), 5.0
    ),
    ("S1", "logistic"): 1.7,
    ("S2", "logistic"): 2.2,
}


class Programme:
    """The contests on sets that lie below a folder, made when they are first needed.

    Quick: toy sets, each piece of work once, and of the cases of a contest those that run other
    code; it shows that all runs, and how fast says nothing.
    """

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self._folder, self._quick = folder, quick
        self._turns = 1 if quick else 5
        self._short = 1 if quick else 15  # turns of what takes a part of a second

    def contests(self) -> dict[str, Callable[[], Iterator[Contest | AccuracyContest]]]:
        """Return the rooms of the programme by name."""
        return {
            "file-to-model": self.file_to_model,
            "one-pass": self.one_pass,
            "inner-step": self.inner_step,
            "gradient": self.gradient,
            "accuracy": self.accuracy,
            "streaming": self.streaming,
            "out-of-core": self.out_of_core,
            "learners": self.learners,
            "many-models": self.many_models,
            "classes": self.classes,
            "reading": self.reading,
            "latency": self.latency,
            "l1": self.l1,
            "softmax": self.softmax,
            "counts": self.counts,
        }

    def file_to_model(self) -> Iterator[Contest]:
        """Whole processes: text in, a model out."""
        for size in (TOY_MB,) if self._quick else FILE_MB:
            for kind in TITLES:
                yield FileContest(self._folder, kind, size).contest(self._turns)

    def _place(self, name: str) -> Path:
        return prepare(name, self._folder, quick=self._quick)

    def _few(self, *names: str) -> tuple[str, ...]:
        """Of toy sets one dense and one sparse show that all runs."""
        return tuple(n for n in names if n in ("D1", "S1")) if self._quick else names

    def _one(self, name: str, several: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of a toy set one of several: the first of a dense one, the last of a sparse one."""
        return (several[0 if name in DENSE else -1],) if self._quick else several

    def one_pass(self) -> Iterator[Contest]:
        """Averaged SGD over rows in memory, in stored and in random order."""
        for name in self._few(*DENSE, *SPARSE):
            losses = ("hinge", "logistic") if name in MADE else ("logistic",)
            for loss in self._one(name, losses):
                yield self._one_pass(name, loss)

    def _one_pass(self, name: str, loss: str) -> Contest:
        place = self._place(name)
        size, at = shape(place), {"place": str(place), "loss": loss}
        mine = "one_pass:averaged_sgd"
        if name in DENSE:
            best, all_ours = OURS, [Contestant(OURS, mine, at)]
        else:
            best, popular = POPULAR, {"columns": "frequency"}
            all_ours = [Contestant(SOURCE, mine, at), Contestant(POPULAR, mine, at | popular)]
            at = at | popular
        all_ours.append(Contestant(RANDOM, mine, at | {"order": "random"}))
        few = [Contestant(FEW_ROWS, mine, at | {"order": "few"}, 1, True)] if name == "D1" else []
        at = {"place": str(place), "loss": loss}
        targets = [Target(3, RANDOM, best, 1 / 1.4)]
        if (name, loss) in ASGD_TARGETS:
            number = 1 if name in DENSE else 2
            targets.append(Target(number, best, PEER, ASGD_TARGETS[name, loss]))
        if (name, loss) == ("S1", "logistic"):
            targets.append(Target(2, best, SHUFFLING, 3.8))
        if (name, loss) == ("D2", "hinge"):
            targets.append(Target(1, best, "memory read", 0.35))
        return Contest(
            f"one-pass {name} {loss}", f"One pass of averaged SGD: {name}, {loss} loss", name,
            (*all_ours, Contestant(PEER, "one_pass:scikit_learn", at),
             Contestant(SHUFFLING, "one_pass:scikit_learn", at | {"shuffle": True}),
             Contestant("memory read", "one_pass:memory_read", {"place": str(place)}, 1, True),
             Contestant("memory read, random rows", "one_pass:memory_read_at_random",
                        {"place": str(place)}, 1, True), *few),
            tuple(targets), *per_piece(name, size), self._short,
        )  # fmt: skip

    def inner_step(self) -> Iterator[Contest]:
        """S2GD's inner loop beside averaged SGD, both in random order."""
        for name in self._few("S1", "S2"):
            place = self._place(name)
            at = {"place": str(place), "columns": "frequency", "order": "random"}
            averaged, inner = "averaged SGD", "S2GD, inner step"
            yield Contest(
                f"inner-step {name}", f"A step per row: {name}, logistic loss, random order", name,
                (Contestant(averaged, "one_pass:averaged_sgd", at | {"loss": "logistic"}),
                 Contestant(inner, "one_pass:inner_step", at)),
                (Target(4, inner, averaged, 1 / 1.25),), *per_piece(name, shape(place)),
                self._short,
            )  # fmt: skip

    def gradient(self) -> Iterator[Contest]:
        """The full gradient, one and two threads."""
        for name in self._few("D1", "D2", "S1"):
            place = self._place(name)
            at = {"place": str(place)}
            mine = [
                Contestant("fewpass", "full_gradient:ours", at),
                Contestant("fewpass, 2 threads", "full_gradient:ours", at | {"threads": 2}, 2),
            ]
            if name == "S1":
                peers = [Contestant("scipy, float64", "full_gradient:scipy_products", at)]
                targets = [Target(5, "fewpass", "scipy, float64", 2.0, "wall_s")]
            else:
                peers = [
                    Contestant("numpy", "full_gradient:numpy_products", at),
                    Contestant("numpy, 2 threads", "full_gradient:numpy_products", at, 2),
                    Contestant("dask.array, 2 workers", "full_gradient:dask_products", at),
                ]
                two = "fewpass, 2 threads"
                targets = [
                    Target(5, "fewpass", "numpy", 1.8, "wall_s"),
                    Target(5, two, "numpy, 2 threads", 1.8, "wall_s"),
                ] if name == "D1" else [
                    Target(5, two, "numpy, 2 threads", 1.4, "wall_s"),
                    Target(5, two, "dask.array, 2 workers", 3.5, "wall_s"),
                ]  # fmt: skip
            limits = [
                Contestant("memory read", "one_pass:memory_read", at, 1, True),
                Contestant(
                    "memory read, 2 threads", "one_pass:memory_read", at | {"threads": 2}, 2, True
                ),
            ]
            yield Contest(
                f"gradient {name}", f"The full logistic gradient: {name}", name,
                (*mine, *peers, *limits), tuple(targets), *per_piece(name, shape(place)),
                self._short,
            )  # fmt: skip

    def accuracy(self) -> Iterator[AccuracyContest]:
        """Seconds to a given suboptimality."""
        turns = min(self._turns, 3)
        for name in self._few("D1", "S1"):
            for loss in self._one(name, ("logistic", "hinge")):
                for lam in ("1e-4",) if self._quick else ("1e-4", "1/n"):
                    yield AccuracyContest(name, self._place(name), loss, lam, turns)
        for name in RAW[:1] if self._quick else RAW:
            for loss in self._one(name, ("logistic", "hinge")):
                few = 1 if name in ONE_TURN else turns
                yield AccuracyContest(name, self._place(name), loss, "1/n", few)

    def streaming(self) -> Iterator[Contest]:
        """One pass over a Zarr set on disk, from the page cache and from the disk."""
        for name in self._few("D2", "S1"):
            place = self._place(name)
            dataset = {"dataset": str(stored(place))}
            for state in self._one(name, ("warm", "cold")):
                at = dataset | {"cold": state == "cold"}
                peers = ("dask-ml Incremental", "scikit-learn over Zarr")
                limits = ("file read", "file read and decode")
                targets = [
                    Target(7, OURS, peer, 3.0, "wall_s") for peer in peers if state == "warm"
                ] or [Target(7, OURS, "file read", 0.8, "wall_s")]
                targets.append(Target(7, OURS, "the budget", 1.0, "beyond_imports_mb", BUDGET_MB))
                yield Contest(
                    f"streaming {name} {state}", f"One pass over a Zarr set, {state}: {name}", name,
                    (Contestant(OURS, "streaming:Streamed", at, 2),
                     Contestant("fewpass, no Dask", "streaming:Streamed", at | {"dask": False}),
                     Contestant(peers[0], "streaming:Incremental", at, 2),
                     Contestant(peers[1], "streaming:PartialFit", at),
                     Contestant(limits[0], "streaming:FileRead", at, 1, True),
                     Contestant(limits[1], "streaming:Decoding", at, 1, True)),
                    tuple(targets), *per_piece(name, shape(place)), min(self._turns, 3),
                )  # fmt: skip

    def out_of_core(self) -> Iterator[Contest]:
        """Seconds per pass from disk over seconds per pass on the same rows in memory."""
        methods = (("asgd", 20), ("s2gd+", 20), ("sdca", 12), ("psdca", 12))
        for name in self._few("D1", "D2", "S1", "imdb"):
            place = self._place(name)
            for method, passes in self._one(name, methods):
                passes = passes if name in ("D1", "imdb") else passes // 3
                at = {"dataset": str(stored(place)), "method": method, "passes": passes,
                      "lam": 1e-4}  # fmt: skip
                fits, warm = "fewpass, fits into the budget", "fewpass, 256MB, warm"
                ours = [Contestant(fits, "streaming:Streamed", at | {"memory": "2GB"}, 2)]
                evaluated = [fits]
                if name in ("D2", "S1"):  # D1 fits into 256 MB, and imdb's columns ask for more
                    evaluated.append(warm)
                    ours += [
                        Contestant(warm, "streaming:Streamed", at, 2),
                        Contestant("fewpass, 256MB, cold", "streaming:Streamed",
                                   at | {"cold": True}, 2),
                    ]  # fmt: skip
                yield Contest(
                    f"out-of-core {name} {method}", f"Seconds per pass: {name}, {method}", name,
                    (Contestant("in memory", "streaming:InMemory", at), *ours),
                    tuple(Target(9, mine, "in memory", 1 / 1.1, "later_s") for mine in evaluated),
                    *per_piece(name, shape(place)), self._turns,
                )  # fmt: skip

    def learners(self) -> Iterator[Contest]:
        """One pass of several learners beside averaged SGD alone, from a cold disk."""
        for name in ("S1",) if self._quick else ("D1", "mnist", "S1", "imdb"):
            place = self._place(name)
            dataset, cold = {"dataset": str(stored(place))}, {"cold": True}
            at = dataset | cold | {"dask": False, "memory": "2GB"}
            several, alone = "fewpass, onepass", "fewpass, asgd"
            yield Contest(
                f"learners {name}", f"One pass of several learners, cold: {name}", name,
                (Contestant(several, "streaming:Streamed", at | {"method": "onepass"}, 2),
                 Contestant(alone, "streaming:Streamed", at, 2),
                 Contestant("file read", "streaming:FileRead", dataset | cold, 1, True)),
                (Target(16, several, alone, 1 / 1.3, "wall_s"),),
                *per_piece(name, shape(place)), self._turns,
            )  # fmt: skip

    def many_models(self) -> Iterator[Contest]:
        """Eight values of lam in one reading against one."""
        for name in self._few("S1", "imdb"):
            for method in ("asgd", "sdca"):
                at = {"place": str(self._place(name)), "method": method}
                grid = "8 values of lam, side by side"
                yield Contest(
                    f"many-models {name} {method}", f"Several lam in one pass: {name}, {method}",
                    name,
                    (Contestant("one lam", "one_pass:several", at | {"models": 1}),
                     Contestant(grid, "one_pass:several", at | {"models": 8}),
                     Contestant("8 values of lam, in turn", "one_pass:several",
                                at | {"models": 8, "interleaved": False}),
                     Contestant("the lines of 8 models' weights", "one_pass:lines_of_weights",
                                at | {"models": 8}, 1, True)),
                    (Target(10, grid, "one lam", 0.5),),
                    *per_piece(name, shape(self._place(name))), self._short,
                )  # fmt: skip

    def classes(self) -> Iterator[Contest]:
        """105 classes one against the rest, each certified to 1e-3, against LIBLINEAR's default."""
        ours, peer = "fewpass, sdca", "LIBLINEAR (LinearSVC)"
        at = {"dataset": str(sector_set(self._folder)), "method": "sdca", "loss": "squared_hinge",
              "lam": "0.5/n", "memory": "2GB", "passes": 100, "tol": 1e-3}  # fmt: skip
        yield Contest(
            "classes sector", "105 classes one against the rest: sector, squared hinge", "sector",
            (Contestant(ours, "streaming:Streamed", at, 2),
             Contestant(peer, "sector:linear_svc", {})),
            (Target(11, ours, peer, 1.0, "wall_s"),), turns=min(self._turns, 3),
        )  # fmt: skip

    def reading(self) -> Iterator[Contest]:
        """Text to rows."""
        quick, turns = self._quick, min(self._turns, 3)
        libsvm = reading.libsvm_text(self._place("S1"), quick=quick)
        csv = reading.csv_text(self._place("D1"), quick=quick)
        for path, name, d in ((libsvm, "S1", MADE["S1"][1]), (csv, "D1", None)):
            at: dict[str, Any] = {"path": str(path)}
            mine = [
                Contestant(OURS, "reading:ours", at | {"n_features": d}),
                Contestant("fewpass, 2 threads", "reading:ours", at | {"threads": 2}, 2),
                Contestant("fewpass ingest, 2 threads", "reading:whole_ingest", at, 2),
            ]
            peers = [
                Contestant("scikit-learn", "reading:scikit_learn", at),
                Contestant("Vowpal Wabbit, to its cache", "reading:vowpal_wabbit", at),
            ] if name == "S1" else [
                Contestant("pandas", "reading:pandas_csv", at),
                Contestant("pyarrow", "reading:pyarrow_csv", at),
                Contestant("polars", "reading:polars_csv", at),
            ]  # fmt: skip
            targets = [
                Target(8, OURS, "scikit-learn", 8.0),
                Target(8, OURS, "Vowpal Wabbit, to its cache", 1.5),
            ] if name == "S1" else []  # fmt: skip
            kind = "LIBSVM" if name == "S1" else "CSV"
            yield Contest(
                f"reading {kind}", f"{kind} text to rows: {name}", name,
                (*mine, *peers, Contestant("file read", "reading:file_read", at, 1, True)),
                tuple(targets), "MB", path.stat().st_size / 1e6, turns,
            )  # fmt: skip

    def latency(self) -> Iterator[Contest]:
        """A fit of rows in memory, small sets and larger ones, beside scikit-learn's estimators."""
        for rows, columns in ((100, 10),) if self._quick else LATENCY_SIZES:
            for layout in self._one("S1", ("dense", "sparse")):
                size = {"rows": rows, "columns": columns, "layout": layout}
                everyone, targets = [], []
                for loss, peers in SKLEARN.items():
                    mine = f"fewpass, {loss.replace('_', ' ')}"
                    at = size | {"loss": loss}
                    everyone.append(Contestant(mine, "latency:fit", at | {"peer": "ours"}))
                    for name, peer in peers.items():
                        everyone.append(Contestant(name, "latency:fit", at | {"peer": peer}))
                        if rows > 100:
                            targets.append(Target(12, mine, name, 1.0))
                    if rows == 100:
                        targets.append(Target(13, mine, "15 ms", 1.0, limit=0.015))
                yield Contest(
                    f"latency {rows:,} x {columns} {layout}",
                    f"A fit to a certified 1e-4: {rows:,} x {columns}, {layout}",
                    "made", tuple(everyone), tuple(targets), turns=self._turns,
                )  # fmt: skip

    def l1(self) -> Iterator[Contest]:
        """The l1 penalty, a tenth and a hundredth of the largest, beside solvers made for it."""
        for name in ("reuters",) if self._quick else ("reuters", "a9a", "w8a", "imdb-raw"):
            for share in (0.1,) if self._quick else (0.1, 0.01):
                words = {"place": str(self._place(name)), "share": share}
                wanted = {"celer": 2.0 if name == "imdb-raw" else 1.0, "skglm": 1.0}
                wanted |= {"LIBLINEAR -s 6": 1.0}
                title = f"l1 at {share:g} of the largest: {name}, logistic loss"
                yield from self._to_accuracies(
                    "l1", f"{name} {share:g}", title, name, words, wanted
                )

    def softmax(self) -> Iterator[Contest]:
        """All classes at once, to 1e-4."""
        if self._quick:
            words = {"name": str(self._place("S1")), "rows": 0}
            yield from self._to_accuracies(
                "softmax", "S1", "All classes at once: S1", "S1", words, {}
            )
            return
        for name, rows in (("sector", 10_000), ("mnist", 60_000), ("kddcup99", 20_000)):
            words = {"name": name, "rows": rows}
            wanted = {"scikit-learn lbfgs": 3.0, "scikit-learn newton-cholesky": 3.0}
            title = f"All classes at once: {name}"
            yield from self._to_accuracies("softmax", name, title, name, words, wanted)

    def counts(self) -> Iterator[Contest]:
        """Poisson and gamma losses, to 1e-4."""
        for loss in ("poisson",) if self._quick else ("poisson", "gamma"):
            wanted = {"scikit-learn lbfgs": 1.0, "scikit-learn newton-cholesky": 1.0}
            words, title = {"loss": loss, "lam": 1e-3}, f"Counts: bike, {loss} loss"
            yield from self._to_accuracies("counts", loss, title, "bike", words, wanted)

    def _to_accuracies(
        self, kind: str, which: str, title: str, workload: str, words: dict[str, Any],
        wanted: dict[str, float],
    ) -> Iterator[Contest]:  # fmt: skip
        """Yield a contest for each accuracy that is asked for."""
        several = (1e-2, 1e-4, 1e-6) if kind == "l1" else (1e-4,)
        mine = next(iter(certified_fits.PEERS[kind]))
        for accuracy in (1e-2,) if self._quick else several:
            at = {"kind": kind, "words": words, "accuracy": accuracy, "folder": str(self._folder)}
            everyone = tuple(
                Contestant(peer, "certified_fits:fit", at | {"peer": peer})
                for peer in certified_fits.PEERS[kind]
                if self._quick or (workload, peer) not in TOO_WIDE
            )
            targets = [
                Target(FIT_TARGETS[kind], mine, peer, ratio) for peer, ratio in wanted.items()
                if peer in {one.name for one in everyone}
            ]  # fmt: skip
            yield Contest(
                f"{kind} {which} {accuracy:g}", f"{title}, to {accuracy:g}", workload,
                everyone, tuple(targets), turns=min(self._turns, 3),
            )  # fmt: skip


def per_piece(name: str, size: Any) -> tuple[str, float]:
    """Return what a cost is told per piece of, and how many there are."""
    return ("row", size.n) if name in DENSE else ("value", size.values)
