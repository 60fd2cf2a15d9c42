"""The words of the page of evidence; all its numbers come from the results (evidence.py)."""

from __future__ import annotations

TITLE = """# Evidence

What we measured on real data, apart from speed ([performance.md](performance.md)) and deliberate
failures ([trust.md](trust.md)). Each section answers a question:"""

HOW = """Below each heading is the command that repeats the measurement, with the date, the commit,
the machine and the versions, where these were recorded. "1e-4 / 1e-6" in a table means: to a
certified gap of 1e-4, and of 1e-6, of max(1, F). The page is made of
`docs/evidence.jsonl`, which has all rows. The public data sets are in the folder that
`FEWPASS_DATA` names ([list](../tests/data/README.md)); terms are in the
[glossary](glossary.md)."""

#: What each part answers, by its name.
QUESTIONS = {
    "one-pass": "How good is a model after a single pass with default settings?",
    "one-pass-peers": "How does that compare with other programs that learn in one pass?",
    "certified": "Are certificates true, and how many passes does a proven 1e-6 take?",
    "cells": "Is every loss with every penalty certified, by which method?",
    "fit-peers": "How long does a proof of an l1 penalty or of softmax take, beside other solvers?",
    "forecasts": "How accurate is the forecast of `fewpass train --plan`?",
    "auto": "Does `auto` choose a good method?",
    "raw-data": "What if some rows are far longer than others, as in raw counts?",
    "psdca-ways": "Would larger windows, or visiting rows twice, save passes?",
    "public-sets": "Do public data sets work without any preparation?",
    "tables": "How good are default options on tables of others, beside a careful pipeline?",
    "millions": "What do curves and pairs cost on millions of rows, beside boosting?",
    "text-lam": "Is lam chosen as well as by a search with cross-validation, on text?",
    "default-tolerance": "Does `--tol 1e-3` arrive on every set, at the lam that is chosen?",
    "sorted": "What if the rows are sorted, and were not shuffled?",
    "memory": "Does memory grow with the data?",
    "scaling": "What do more machines bring?",
    "both-commits": "Has anything become slower, or faster, since an earlier commit?",
}

WORDS = {
    "tables": """\
27 tables of others' packages, a quarter of the rows (of three the last quarter of the time) held
out. Ours is `ingest --label`, `train --tol 1e-3` and `predict`, with no other option. The careful
pipeline is scikit-learn's: imputed and standardised numbers, one-hot words, tf-idf text, days and
parts of dates; logistic regression or ridge regression as they come; boosting is
HistGradientBoosting as it comes, of numbers and words, not of text. Figures are R2 of numbers,
error and log loss of classes, and of two the AUC, on the test rows. CPU seconds of ours are of
three commands, each of which takes about one to start; peak is the memory of the largest.""",
    "millions": """\
30 columns made by the script: 20 numbers, some skewed, four with gaps, 10 categories of 3 to 200
levels; two classes whose log-odds are curves of columns, products of pairs of columns, one of
three columns, and chance: a table that curves and pairs suit. All sides read Parquet. Ours is
`ingest --encode`, `train --tol 1e-3` and `predict`, within the default memory, of a processor that
many shared (a load of 3 to 25 on two cores); the others have default settings and one thread, as
OpenMP's wait in loops. EBM was given a million rows and up to 20 CPU minutes. Log loss and AUC
are of 200,000 other rows. Seconds are of the processor, of ours of three commands, each of which
takes about one to start; peak is the memory of the largest, stored what the data set takes on
disk.""",
    "both-commits": """\
The contests of [performance.md](performance.md), held between two commits: those take part that a
target names as ours, each in a process of its own of either commit, on the same rows, in turns.
Times are medians, those by the clock of all threads; the ratio is of the processor's.""",
    "text-lam": """\
Rows are tf-idf of words and pairs of words, of unit length; all sides have the same. Ours is
`train --tol 1e-3`, which chooses lam by held-out rows; tuned is `LogisticRegressionCV` with the
values of lam that ours looks at (C = 1/c), five folds, the log loss. Figures are of test rows.""",
    "cells": """\
Rows in memory in random order, one thread, each method with its own defaults, until it certifies
1e-4 of the objective, 40 passes are over, or 20 CPU seconds (compiling not counted). Labels are
a9a's, numbers bike's (columns divided by their root mean square; of the losses with a log link
counts of mean 52), classes 10,000 rows of mnist; `group_lasso` is measured on churn and ames, whose
columns became 63 and 407 features. lam is 1/n, and where sizes are charged a tenth of the least at
which all weights are 0. Methods of one pass certify nothing, and combinations that are not here are
refused by name (`fewpass methods`).""",
    "cells, after": """\
What did not arrive: `sdca` and `lbfgs` at lam = 1/n, where rows are long for the penalty and
`newton` or `psdca` is the method; and `psdca` under the quantile and epsilon-insensitive losses,
whose kinks only the last rows decide, at gaps of 2e-4 to 5e-4 after 40 passes.""",
    "one-pass": """\
Both sides make one pass over the same training rows, all settings at their defaults: ours is
`TrainingPlan(dataset, loss, lam)`, scikit-learn's `SGDClassifier` or `SGDRegressor` with
`average=True, max_iter=1, tol=None` and `alpha` = lam (2 lam for its squared hinge, which lacks
our 1/2). Numbers are means over three seeds, in brackets the worst; the seed shuffles the rows
and, where a set has no test file, picks the test rows.

- F = mean loss + lam/2 ||w||^2 on the training rows; the intercept costs nothing. Ours is
  trained with lam/100 on it (so that the certificate holds), which F does not count.
- F* is the minimum of F, by Newton's method, proven to 1e-8 of itself by its gradient (squared
  loss: by singular values).
- error is the share of test rows on the wrong side; for the squared loss the mean squared error.
  noise is the standard error of the difference of the two test errors, paired row by row.
- Scaling is done by ingest; scikit-learn gets the same numbers. mnist 9 is digit 9 against the
  rest. The regression tables have columns of very different units, so they stand here twice:
  `standard` (`--scale standard`), and raw (`--scale none`), where no single step can be right.
  Numbers are not encoded in either (`--encode none`).
- lam is 1e-4 and 1/n.""",
    "one-pass, after": """\
What decides:

- Several learners. Ours is `onepass`: up to 512 columns streaming Newton, which knows no scales of
  columns, so that the raw tables come to what the standardised ones come to; elsewhere AdaGrad's
  steps by column, and averaged SGD where rows are of unit length.
- The first step of averaged SGD. Ours is found on the first 1000 rows; scikit-learn's follows from
  alpha alone for the classifiers (10 at alpha 1e-4) and is 0.01 for regression, however long the
  rows are.
- On ijcnn1 scikit-learn's test errors are lower than ours and than those of the exact minimum of
  F, from weights with a higher F: there the objective is not the test error.""",
    "one-pass-peers": """\
All make one pass over the same training rows in the same order, nothing is tuned; numbers are
means over the orders, which also pick the test rows where a set has no test file. Losses are the
logistic one, for protein and keggundirected the squared one. F is as above.

- `onepass` is the default, `without newton` the same with `newton_columns=0`, `asgd` averaged SGD
  alone.
- VW is Vowpal Wabbit by its defaults, `--power_t 0` with a constant rate, `--l2` with our lam, then
  `--ftrl` and `--coin`; only `--l2` depends on lam, so all others are held against an objective
  that they do not know. scikit-learn is averaged SGD by its defaults, "best step" with the constant
  step of 1e-4, 1e-3, ..., 10 that ends lowest in hindsight. River is its AdaGrad by its defaults,
  without lam (it would charge all columns at every row), one order, and no more than 150 s.
- sector is class 1 against the rest; credit is as it lies; kddcup99 has its words encoded and its
  numbers standardised, without ranks (`--no-ranks`).
- lam by held-out rows: a pass without a lam that learns from nine tenths of the training rows and
  keeps the best of 1/n, .1/n, .01/n by the last tenth. All others learn from all rows.
- Progressive loss: of every row before its step, by the output that is ahead by then.""",
    "one-pass-peers, after": """\
Where we lose. On reuters at 100/n averaged SGD with the best step of six ends lower. Test loss and
error under strong regularisation: at 100/n Vowpal Wabbit, which has no regulariser there, predicts
better than the optimum of F, so no faithful minimiser of F can follow it; where predictions are
what counts a smaller lam is the answer, and held-out rows choose it. Its progressive loss is lower
for the same reason.""",
    "certified": """\
Every row is scaled to unit length at ingest (`--scale unit-rows`). Nothing is tuned: a training
is `TrainingPlan(dataset, solver, loss, lam, tol=1e-6, passes=3000)`, one seed, one process.

- F = mean loss + lam/2 ||w||^2 + lam_b/2 b^2 with lam_b = lam/100, on the training rows.
- certified gap: what the training proves of its last weights, over max(1, F). It stops when this
  is at most 1e-6. On these sets F is below 1, so the number is absolute.
- true gap: F at these weights minus F*, in the same unit. F* comes from Newton's method, written
  apart from the project's solvers, and is proven to 1e-11 of itself.
- s2gd+, s2gd, no subspace: passes of each, rows read over rows of the set, gradients and inner
  loops alike; the last is s2gd+ as in the paper (`--set solver.subspace=0`).
- forecast: usual passes by `fewpass train --plan` for s2gd+. true: its passes after which the
  true gap was at most 1e-6.
- kappa = L/lam, L the mean over the rows.""",
    "certified, after": """\
Lines: certificate; dashed: true gap; lam = 1/n. Blue s2gd+, orange s2gd, grey s2gd+ without
subspace. Units of features decide more than the method does.""",
    "fit-peers": """\
CPU seconds, rows in memory, one thread, no intercept, the least of several turns. l1: the logistic
loss, l1 as a share of the least at which all weights are 0; softmax: lam = 1/n. Ours proves the
accuracy, relative to the objective; the others get the loosest of their own tolerances, or the
fewest iterations, that arrive there, which only a known optimum tells. `>`: a fit was ended after
so many CPU seconds, or one to a larger accuracy was; empty: not tried. newton-cholesky keeps the
square of columns times classes, which sector and mnist have too many of. glmnet's Python port
takes no part: it does not install. Reasons where ours is behind: [decisions.md](decisions.md).""",
    "forecasts": """\
Foreseen / found passes until each tolerance is certified, all settings but loss, lam and method
at their defaults, one seed; the table is of s2gd+ (other tolerances: the .jsonl). The rule and its
K are in [methods.md](methods.md), section 11. These are the sets that the rule was made of. Raw
imdb rows (K = 85) took 1.9 times the forecast passes; tables of few, well conditioned columns take
fewer than forecast, as their data curve in every direction by more than lam. Without subspace a
free intercept is slow: on phishing, reuters and ijcnn1 the median of actual over forecast is
1.21, but single ones reach 4.45, and 1e-8 took more than 200 passes twice.""",
    "auto": """\
Passes to a certified 1e-4 / 1e-6 at lam = 1/n, free intercept, all else at its defaults, one
seed; rows read over rows of the set, those that only certify included. A method was given up
after three times the passes of the best one before it (`> ...`; empty: not run). mnist 9,
protein and keggundirected are sets that no rule was made of. The rule: [methods.md](methods.md),
section 10.""",
    "auto, after": """\
On mnist 9, with 784 columns, `newton` took 30 s, for its matrix, and `psdca` 1.3: passes and
seconds disagree there, as on ijcnn1 ([methods.md](methods.md), section 10; the plain hinge: 7.10).
On w8a `auto` is `newton`: its two figures are two runs of the same.""",
    "raw-data": """\
Passes to a certified 1e-2 / 1e-4 / 1e-6 ("-": not within 100), rows as they are: words that are
counted, values of 0 and 1, pixels; reuters, whose rows have unit length, to compare with. A pass is
n rows visited, gradients too. 64 chunks, dealt into 8 windows anew in every pass; the intercept
charged like a weight; one seed. "longest" is max ||x||^2 over the mean. word counts is made up:
12,000 texts of lognormal length (sigma 1.1), Zipf words, one of 20 classes against the rest
(`testing/synthetic.py`).""",
    "raw-data, after": """\
K = L/(lam n) does not tell how many passes it takes: raw imdb with K = 81 takes fewer than a9a with
3.5. `psdca` is `sdca` where that is quick, as its centre weighs nothing then.""",
    "psdca-ways": """\
Readings of the rows by `psdca` until 1e-2 / 1e-4 / 1e-6 is certified, as above, and the same with
all rows in one window, with 64 windows of one chunk each, with rows in single precision (weights
and dual variables are float64 always), and with rows of a window visited twice or four times while
they are in memory (`shrink_rounds` of 1 and 3; all but those whose dual variable did not move, and
in the first pass none). Problems: word counts, w8a, a9a and reuters, lam 1/n and 10/n, logistic and
squared hinge; each with its readings is in the .jsonl.""",
    "public-sets": """\
`fewpass train SET RUN --loss LOSS --lam LAM --tol 1e-6 --passes 100`, all else at its defaults,
unscaled, one seed: the method that `auto` took, and its passes to a certified 1e-4 / 1e-6 ("-": not
within 100); what was certified in the end and the seconds are in the .jsonl. sector is class 1
against the rest, mnist 9 digit 9, kddcup99 normal connections, its columns of words encoded.""",
    "public-sets, after": """\
The misses are raw pixels and the hinge on raw credit, whose columns differ in size by a factor of
10,000. In such units lam = 1/n hardly regularises at all: on pixels of 0 to
255 it is what 1/(65,025 n) is on pixels of 0 to 1, and L/lam is 3.4e11 with the squared hinge.
There `newton` moves, but which rows count in its matrix changes with each step, so steps are halved
two to four times, a pass each; `psdca` certifies no more (above), with columns pulled apart by
their size neither. The hinge has no curvature for a matrix, and `psdca` is left. The remedy is the
scale: with `--scale maxabs` the squared hinge on pixels takes 11 passes of `newton` to 1e-6 at 1/n
and the hinge 34 of `psdca`; on credit as `ingest` encodes it by default the hinge takes 28, and 15
at 10/n. Here missing cells of credit count as zero.""",
    "default-tolerance": """\
`fewpass train SET RUN --tol 1e-3 --passes 50`, all else at its defaults: lam is chosen, the
tolerance is relative to the objective, tables are encoded by `ingest`. CPU seconds are of the
training and its choice of lam, some with compilation, on a machine that was doing other things.
A certificate would be false if the same problem, trained again from zeros to 1e-5, came to an
objective below the bound that it proves.""",
    "sorted": """\
ijcnn1 sorted by label, 55 chunks, 96 % of the variance of the targets between chunks; `s2gd+` to
1e-6 or for 40 passes:

    bzcat ijcnn1.trn.bz2 | sort -s -k1,1g > sorted.svm
    fewpass ingest sorted.svm sorted --no-shuffle --chunk-bytes 110kB""",
    "memory": """\
LIBSVM text like a log of clicks, 39 of a million columns per row; each step in a process of its
own; training is one pass and one that certifies. "Beyond imports" is the peak of the resident
size less what it was before the first row (for training: with the Dask cluster of the process
up).""",
    "memory, after": """\
What keeps it there:

- Windows share what the budget leaves after the loaded kernels (about 80 MB), the state and its
  copies.
- A reduction adds chunk after chunk into one sum per span, and spans are so long that few sums
  wait for their neighbour.
- Freed arrays go back to the system at once. Left alone, glibc raises the size from which it
  does that up to 32 MB, and keeps what is smaller: 249 MB instead of 190 in the same training (1
  GB of this text, 256 MB).

A kernel that is compiled for the first time on a machine takes up to another 100 MB, once.""",
    "scaling": """\
No cluster was at hand: costs were measured on two worker processes of a machine of two cores
that other programs kept busy (load 8), so they are upper bounds (at rest: 2.4 and 6.3 ms for the
first two); everything beyond is arithmetic.

- Rows never travel between processes: every worker reads, checks and decodes its own chunks. A
  task's message holds addresses, settings and chunk numbers: below 100 kB for a set of 400
  chunks (`tests/pipeline/passes/test_dask_cluster.py`). States (16 bytes per column for SGD
  and its average) go from worker to worker, at most once per span and once per stream when a pass
  ends. Reports are a few hundred bytes a span.
- Spans are made to last about a second, so these costs take a hundredth of it. A span is three
  tasks (the span, its report, its state or the sum), so one scheduler feeds about 45 workers at
  7 ms a task, some 140 at 2.4 ms.""",
    "scaling, model": """\
The model, with t_s a task's cost on the scheduler, t_l a link's, t_m a move's, W workers and C
seconds of work:

- reduce in S spans: max(C/S ceil(S/W), 3 S t_s) + t_l + t_m. S is at most 64, so that few sums
  wait for each other and the tree is the same for any number of workers.
- walk with K streams: at most min(W, K) run at once; C / min(W, K) plus a link per span, or the
  scheduler's share if that is more; then K moves to the join. One stream is one chain: more
  workers do not help it, by design.

Seconds of one pass:""",
    "scaling, after": """\
16 workers bring nearly all of a factor 16 to reductions and to walks with 16 streams. 256
workers are held back by the scheduler's thread (walks) and by the 64 spans (reductions).
`streams` changes the model that is trained (disjoint parts, averaged), so it is part of the plan
and never read off the cluster.""",
}
