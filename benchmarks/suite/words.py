"""The words of docs/performance.md; all its numbers come from the results (page.py)."""

from __future__ import annotations

SECTIONS = {
    "one-pass": """One pass of averaged SGD over rows in memory, one thread. scikit-learn's
SGDClassifier with `average=True`, float32, one epoch, input checks off; "shuffled" is its
default. Steps are given on both sides: nothing is searched. "Random order" is the order that
later passes of a training take. "The same 64 rows", again and again as often as there are rows,
are what a step costs where no row comes from memory.""",
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
    "out-of-core": """Seconds per pass of the same method on the same rows, from the set on disk by
the code of `fewpass train`, and in memory without storage or Dask. "A later pass": any but the
first, in which rows that fit are read once for all; of the run's own log. "Whole run": with the
first pass, opening, snapshots, log and certificates, shared out over all passes. Below: where a
later pass goes, in milliseconds of wall time, and what threads read beside the steps, as `fewpass
report` shows it for any run.""",
    "many-models": """One pass with several lam, rows in memory, against one. "In turn" takes a
window's rows once per model.""",
    "classes": """105 models in the same passes, each certified to 1e-3, by the code of `fewpass
train`, against LIBLINEAR in memory with its default tolerance. Reading, snapshots and proof are
counted on our side.""",
    "reading": """Text to rows in memory. "fewpass ingest" is the whole way: parsed, shuffled,
compressed, checksummed, with statistics, on disk. Costs per MB of text.""",
}

REASONS = {
    2: "a sparse step in stored order is bound by its own reads and writes of weights, a line "
    "of memory per value; what scikit-learn loses by shuffling is only part of its cost.",
    5: "dense gradients are bound by memory, see the limit. Ours reads rows once and sums in "
    "float64, NumPy reads them twice and sums in float32, twice as many numbers at a time.",
    6: "to 1e-2 the hinge takes SDCA a few passes over S1, and a pass is a line of memory read and "
    "written per value, as one of averaged SGD is; Snap ML proves nothing on the way.",
    7: "from a cold disk a pass takes about as long as reading, checking and decoding alone (the "
    "second limit): what is left is the first window, which is read beside nothing, and a run's "
    "own snapshot and log. What the cluster costs: see the line without Dask.",
    9: "the tables below say where a later pass goes. Where rows do not fit, they are read, "
    "checked and decoded in every pass, which takes about as many CPU seconds as the steps, and "
    "on few cores both share them. imdb has 738,000 columns for 25,000 rows: its state is copied "
    "where a span begins and where a sweep ends, as a task must not change what it is given, and "
    "that is as long as its rows.",
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
CHAIN = (
    "at d = 54 a step is a chain: the dot product, the slope (for the logistic loss an exponential "
    "and a division), the weights, each waiting for the one before. The same 64 rows again and "
    "again, asked for ahead like all others, are delayed by no memory and show what is left. "
    "Ours takes so many ns a row, and of these rows so many: "
)
LINES = (
    "eight models touch two lines of memory per value where one model touches a quarter of one. "
    "The limit of the tables reads and writes these lines in the same order, and does nothing "
    "else: it alone takes so many times as long as one model, and ours so many times that: "
)
COPIES = (
    " imdb has 738,000 columns for 25,000 rows: a pass touches each weight few times, and making, "
    "bringing together and taking apart the weights of eight models is half of ours."
)
