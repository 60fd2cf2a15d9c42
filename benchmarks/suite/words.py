"""The words of the page of performance; all its numbers come from the results (page.py)."""

from __future__ import annotations

SECTIONS = {
    "file-to-model": """Whole processes, from their start to their end: text (or Parquet) in, a
model of the logistic loss out. fewpass makes a data set and trains on it in one pass, with 1 GiB,
or learns the rows while it reads the file, and keeps none; Python's bytecode is on disk. Vowpal
Wabbit reads text of its own form, which is made beforehand, in one pass into 2^22 weights;
SGDClassifier takes one averaged epoch with its own steps, LIBLINEAR and LogisticRegression go on
to their default tolerance, and so does Snap ML on two threads. Files come from the page cache;
"cold": it was told to forget them before every turn. Of 6 GB fewpass has 256 MB to use, and the
click log's words are hashed to as many columns as that has room for; of those who hold all rows in
memory only polars takes part. Wall seconds; in brackets CPU seconds, the peak of memory in MB, and
the mean logistic loss of rows that no one has learnt from.""",
    "one-pass": """One pass of averaged SGD over rows in memory, one thread. scikit-learn's
SGDClassifier with `average=True`, float32, one epoch, input checks off; "shuffled" is its
default. Steps are given on both sides: nothing is searched. "Random order" is the order that
later passes of a training take. "The same 64 rows", again and again as often as there are rows,
are what a step costs where no row comes from memory. CPU milliseconds.""",
    "inner-step": """The inner loop of S2GD is dense on paper; here a step costs its row's values,
like one of averaged SGD. CPU milliseconds for as many steps as there are rows.""",
    "gradient": """The full gradient of the logistic loss, rows in memory. Ours sums in float64,
NumPy and dask.array in float32. Wall milliseconds.""",
    "accuracy": """CPU seconds of one thread until the objective is within 1e-6 of the optimum,
relative; rows in memory, no intercept. In brackets what only we have: seconds until that is
proven. `-`: did not arrive. Peers are fitted again and again with more effort (how, says
`benchmarks/suite/time_to_accuracy.py`). `*` is the method that `--solver auto` takes.
Programs ran beside, and sets were measured on different days: compare within a column. counts,
imdb-raw and mnist are rows as they lie or in units not chosen for us. On S1 twice the speed of our
best was aimed at. A pass of SDCA takes 4.0 to 4.4 ns of CPU per value there (2026-11-25), and
reading and writing the lines of memory that the same values' weights lie in, in the same order and
with nothing computed, 3.0 to 3.3: no kernel can bring a factor of 2. The logistic loss at 1/n takes
7 passes, 3.8 ns per value and pass with the order of the rows, their norms and the proof.""",
    "streaming": """A training with `--memory 256MB` by the code of `fewpass train`, from opening
the set to the finished run folder, the cluster being up; the peers over the same Zarr store.
"Cold": the page cache was told to forget the files before every turn. Wall milliseconds, in
brackets the peak of memory in MB beyond imports.""",
    "out-of-core": """Time per pass of the same method on the same rows, from the set on disk by
the code of `fewpass train`, and in memory without storage or Dask. "A later pass": any but the
first, in which rows that fit are read once for all; of the run's own log. Wall milliseconds of
a later pass, in brackets of the whole run a pass: with the first one, opening, snapshots, log and
certificates. Where a later pass goes, part by part, is in the file of results, and `fewpass report`
shows it for any run.""",
    "learners": """One pass without a tolerance: `onepass`, which is the default, and `asgd`, which
is one of its learners, from a set on disk that the page cache was told to forget, by the code of
`fewpass train` without Dask. Wall milliseconds, in brackets CPU milliseconds.""",
    "many-models": """One pass with several lam, rows in memory, against one. "In turn" takes a
window's rows once per model. CPU milliseconds.""",
    "classes": """105 models in the same passes, each certified to 1e-3, by the code of `fewpass
train`, against LIBLINEAR in memory with its default tolerance. Reading, snapshots and proof are
counted on our side. Wall milliseconds, in brackets the peak of memory in MB.""",
    "reading": """Text to rows in memory. "fewpass ingest" is the whole way: parsed, shuffled,
compressed, checksummed, with statistics, on disk. CPU milliseconds.""",
    "latency": """A fit of rows in memory by the estimators, one thread, float64, no intercept,
scikit-learn's C and alpha 1. Ours proves an objective within 1e-4 of the optimum; scikit-learn's
are given the loosest tolerance, or the fewest epochs, that arrive there
(`benchmarks/suite/latency.py`). In brackets how far above those end that do not arrive. CPU
milliseconds.""",
    "l1": """Rows in memory, one thread, logistic loss, no intercept, l1 a tenth or a hundredth of
the least at which all weights are 0. Ours proves the accuracy, relative to the objective; peers
are given the least of their own tolerances (saga: the fewest epochs) that arrives there, which
only a known optimum tells. A fit that takes more than a minute is ended: then 60 s stand, or its
last one in time, with how far above it ends in brackets. Out of core only ours goes. CPU
milliseconds.""",
    "softmax": """Multinomial logistic regression to 1e-4 of the objective, lam = 1/n, rows in
memory, one thread, no intercept; ours proves it, peers are given the fewest iterations that arrive.
newton-cholesky keeps the square of classes times columns, which sector and mnist have too many of.
CPU milliseconds.""",
    "counts": """Poisson and gamma losses to 1e-4 of the objective, lam = 1e-3, 17,379 rows of
bike, 17 columns and one of ones, in memory, one thread; as above. CPU milliseconds.""",
}

REASONS = {
    2: "a sparse step in stored order is bound by its own reads and writes of weights, a line "
    "of memory per value; what scikit-learn loses by shuffling is only part of its cost.",
    5: "dense gradients are bound by memory, see the limit. Ours reads rows once and sums in "
    "float64, NumPy reads them twice and sums in float32, twice as many numbers at a time.",
    6: "on imdb-raw LIBLINEAR's dual coordinate descent and ours take about as many passes, and a "
    "pass is a line of memory read and written per value on both sides. Ours predicts every row "
    "once more in it, for the certificate; LIBLINEAR proves nothing.",
    7: "from a cold disk a pass takes about as long as reading, checking and decoding alone (the "
    "second limit): what is left is the first window, which is read beside nothing, and a run's "
    "own snapshot and log. The first line starts a cluster of Dask's for a third of a second's "
    "work, which fewpass does not do by itself: without Dask, as it goes when nothing is said, D2 "
    "and S1 are 3.9 and 4.0 times as fast as dask-ml.",
    9: "where rows do not fit, they are read, checked and decoded in every pass, which takes about "
    "as many CPU seconds as the steps, and "
    "on few cores both share them. imdb has 738,000 columns for 25,000 rows: its state is copied "
    "where a span begins and where a sweep ends, as a task must not change what it is given, and "
    "that is as long as its rows.",
    12: "theirs stop where they happen to be near enough, which only a known optimum tells; ours "
    "goes on until that is proven. With 50 columns its Newton step adds up 25 products per number, "
    "where L-BFGS adds up two. Ridge on 10,000 x 50: of our CPU milliseconds, 0.8 (dense) or 0.65 "
    "(sparse) add up X'X, where BLAS takes 1.0 of dense rows; 0.3 are two readings, the second of "
    "which proves the result; 0.3 to 0.4 check the rows, 0.2 to 0.4 measure them, and 0.7 are what "
    "any fit costs (13). Ridge makes one reading fewer and costs 0.5 at least; of sparse rows it "
    "makes no X'X, but ends conjugate gradients after the first few readings.",
    13: "what a fit costs whatever the rows: a thread, a plan, a choice of the method.",
    14: "a command takes about a second to start, Python's imports and numba's, and ingest and "
    "train are two; Vowpal Wabbit reads 200 MB in that time. Straight from the file a step then "
    "moves five learners where its moves one, for a loss that is no larger with nothing tuned; "
    "`--solver asgd` moves one ([straight.md](straight.md) has both). What a data set is for, "
    "later passes and proof, is not counted here.",
    15: "ingest and train are two commands of a second's start each. Parquet needs no parsing, "
    "which is what ours is fast at, and a step moves five learners, or streaming Newton, where "
    "theirs moves one and ends with four times the loss.",
    16: "the learners take four to six times the arithmetic of averaged SGD, streaming Newton on "
    "up to 512 columns far more, and this disk delivers rows faster than one thread learns them. "
    "Where rows come more slowly than that, both take equally long. `--solver asgd` is there for "
    "whoever wants the cheaper one.",
    11: "the 105 models' weights take 100 MB; bringing them side by side in every pass and into "
    "the last snapshot takes longer than the steps.",
}
RANDOM = (
    "rows in random order come from memory in a few lines each, and ours in stored order "
    "became faster than the target foresaw. Reading rows at random, asked for ahead as in our "
    "kernels, and doing nothing but adding up squares, costs so many times reading all bytes "
    "in order, and ours so many times that: "
)

TARGETS = {
    1: "one pass, dense rows",
    2: "one pass, sparse rows",
    3: "random order over stored order",
    4: "a step of S2GD",
    5: "the full gradient",
    6: "to the optimum",
    7: "one pass from disk",
    8: "LIBSVM text",
    9: "a later pass, out of core",
    10: "eight models over one",
    11: "105 classes",
    12: "a fit in memory",
    13: "a fit of 100 rows",
    14: "from text to a model",
    15: "from a table to a model",
    16: "several learners, from a cold disk",
    17: "an l1 penalty",
    18: "all classes at once",
    19: "counts",
}

#: What stands below a part's table: where the time goes, sampled, which no results file has.
PROFILES = {
    "file-to-model": """Where an ingest's seconds go: `fewpass ingest` of the click log of 600 MB
(2.3 million rows), 1 GiB, two cores of an Intel Xeon with nothing else running, 2026-11-25. Three
runs took 3.4 to 4.2 s (5.2 to 5.9 CPU seconds); Vowpal Wabbit's whole run, beside them, 3.2 and
3.6 s (5.9 and 6.1). Seconds that py-spy saw each thread at work, 250 samples a second, its own cost
included:

| threads | part | s |
| --- | --- | ---: |
| that parse (two) | text to rows | 1.36 |
|  | rows copied to where they stay in memory | 1.40 |
|  | values counted by column, for their order | 0.19 |
| that write (two) | columns renumbered, rows sorted | 0.75 |
|  | rows gathered in their random order | 0.64 |
|  | brought to the disk | 0.65 |
|  | compressed, checksums | 0.61 |
|  | squared norms | 0.26 |
| main | statistics of all columns | 0.68 |
|  | file read, lines found | 0.63 |
|  | imports | 0.49 |
|  | targets counted | 0.20 |
|  | keys sorted | 0.20 |

Copying is new memory: this virtual machine gets it from its host when it is first touched. Filling
as much for the second time took 0.11 s.

Parquet, 54 columns, 600 MB as CSV, straight from the file, 2.0 s by samples of all threads: the
program begins for 0.7 s, then learning is at work for 1.3 s (0.6 s in visits of the five learners,
0.6 s in streaming Newton) and reading beside it for 1.1 s (0.6 s of decoding and copying out of the
page cache, 0.4 s in which pieces become buffers), with parsing for 0.4 s.""",
}

TARGETS_ARE = """Ratios: theirs over ours, so that more is better; of several contests from least
to most. A target that compares two of ours, or memory, says how much may be lost: 0.91
out of core is a pass 1.1 times as long as in memory."""

TITLE = "# Performance"
MADE_OF = """Made of `docs/performance.jsonl`, which is written by

    make bench

which installs the libraries that fewpass is compared with into an environment of their own. The
file has every figure: least and median of several turns, wall and CPU seconds, peaks of memory.

- All contestants of a table do the same work in turns, each in a process of its own; medians of
  several turns. CPU seconds are those of all threads of the process.
- In italics: a limit, the same bytes read from memory or from files and nothing done with them."""
STRAIGHT, FREQUENT = "fewpass train, straight from the file", "fewpass, columns by frequency"
#: A dozen tasks in plain words: each with its contest, our entrant, the peer, and the measure.
IN_SHORT = (
    (
        "a click log of 6 GB to a model",
        "file-to-model clicks 6000 MB",
        STRAIGHT,
        "Vowpal Wabbit",
        "wall_s",
    ),
    (
        "a click log of 60 MB to a model",
        "file-to-model clicks 60 MB",
        STRAIGHT,
        "Vowpal Wabbit",
        "wall_s",
    ),
    (
        "CSV of 5.5 GB to a model",
        "file-to-model CSV 6000 MB",
        STRAIGHT,
        "polars, SGDClassifier",
        "wall_s",
    ),
    (
        "Parquet of 3.5 GB to a model",
        "file-to-model Parquet 6000 MB",
        STRAIGHT,
        "dask-ml Incremental",
        "wall_s",
    ),
    (
        "one pass over 100,000 rows of 2,000 numbers",
        "one-pass D2 logistic",
        "fewpass",
        "scikit-learn, averaged",
        "cpu_s",
    ),
    (
        "one pass over 700,000 rows of words",
        "one-pass S1 logistic",
        FREQUENT,
        "scikit-learn, averaged",
        "cpu_s",
    ),
    (
        "one pass from disk, more rows than memory",
        "streaming D2 cold",
        "fewpass",
        "dask-ml Incremental",
        "wall_s",
    ),
    ("reading 700,000 rows of LIBSVM text", "reading LIBSVM", "fewpass", "scikit-learn", "cpu_s"),
    (
        "105 classes of text, one against the rest",
        "classes sector",
        "fewpass, sdca",
        "LIBLINEAR (LinearSVC)",
        "cpu_s",
    ),
    (
        "all 10 classes of mnist at once, certified",
        "softmax mnist 0.0001",
        "fewpass, psdca",
        "scikit-learn lbfgs",
        "cpu_s",
    ),
    (
        "an l1 penalty on text, certified",
        "l1 imdb-raw 0.01 0.0001",
        "fewpass, newton",
        "LIBLINEAR -s 6",
        "cpu_s",
    ),
    (
        "an l1 penalty on 300 columns, certified",
        "l1 w8a 0.01 0.0001",
        "fewpass, newton",
        "LIBLINEAR -s 6",
        "cpu_s",
    ),
)
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
