"""Kernels of every level of processors give the same bits: the order of all sums is in the sources."""

import hashlib
import json
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.kernel_files import cache_folder
from fewpass.solvers.kernels.levels import levels_here
from fewpass.solvers.kernels.rows import (
    DenseRows,
    dot,
    dot_both,
    dot_both_shrunk,
    dot_shrunk,
    dot_vector,
    norm2,
    norm2_scaled,
)
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.penalties import L2, ElasticNet
from fewpass.solvers.registry import method_class
from testing.oracles import as_block, dense_rows, single, sparse_rows, stats
from tests.solvers.kernels.test_dispatch import finish, start

FOUND = """
import json
from tests.solvers.kernels.test_bits_of_levels import bits
print(json.dumps(bits()))
"""
METHODS = ("s2gd", "psdca", "newton")


@kernel
def every_sum(rows, W, v, penalty, out):
    """All sums over row 0."""
    out[0], out[1], out[2] = dot(rows, 0, W), dot_vector(rows, 0, v), norm2(rows, 0)
    out[3], out[4] = norm2_scaled(rows, 0, v), dot_shrunk(rows, 0, W, penalty)
    out[5], out[6] = dot_both(rows, 0, W)
    out[7], out[8] = dot_both_shrunk(rows, 0, W, penalty)


def sums():
    """A digest of the sums over rows of 2 to 70 columns."""
    rng, found = np.random.default_rng(0), hashlib.sha256()
    for d in range(2, 71):
        x, W, v = single(rng.standard_normal((1, d))), rng.standard_normal((2, d)).T, rng.random(d)
        for rows in (dense_rows(x), sparse_rows(csr_matrix(x))):
            out = np.empty(9)
            every_sum(rows, W, v, ElasticNet(0.1, 0.2), out)
            found.update(out.tobytes())
    return found.hexdigest()


def weights(method):
    """A digest of what a method's first sweeps over dense rows come to."""
    rng = np.random.default_rng(1)
    X = single(rng.standard_normal((200, 45)))
    y = np.sign(X[:, 0] + rng.standard_normal(200))
    solver, problem = method_class(method)(), Problem(Logistic(), L2(0.01), 1.0, 1e-4)
    after = sweeps(solver, problem, stats(X, DenseRows), as_block(DenseRows, X, y))
    *_, last = islice(after, 4)
    return hashlib.sha256(solver.weights(last.state).coef.tobytes()).hexdigest()


def bits():
    """All digests, by what they are of."""
    return {"sums": sums()} | {method: weights(method) for method in METHODS}


def test_kernels_of_every_level_have_the_same_bits():
    here = levels_here()
    if len(here) < 2:
        pytest.skip("this processor runs the code of one level")
    first, second = (
        start(
            cache_folder().parent.parent, code=FOUND,
            NUMBA_CPU_NAME=one.name, NUMBA_CPU_FEATURES=one.options,
        )
        for one in here
    )  # fmt: skip
    assert json.loads(finish(first)) == json.loads(finish(second))
