"""The algorithms of the five papers in plain NumPy, which the kernels are tested against.

rounds_of_lanes.py is beyond the papers.

Symbols are the papers'.  `phi(scores, targets)` returns the values and the slopes of a loss, each
of the shape of `scores`; X (n, d) holds the rows, y (n,) the targets, weight (n,) what a row's loss
counts.  `problem` has lam, the strength of the penalty, the value `intercept` of the constant
column (0: there is none), and lam_b, what the intercept is charged.
"""
