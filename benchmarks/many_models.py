"""Several models in one reading: side by side, and one after the other, against one alone.

    python -m benchmarks.many_models [--quick]

One pass over rows in memory in random order (S1, S2 as in kernels.py), K values of lam; CPU seconds
of the calling thread, the least of several turns in alternation, over those of one model.  Rows
are gone over as in training (solvers/together.py), bringing the weights side by side and back
included.  The first step of averaged SGD is given, not sought.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.kernels import LAM, as_block, least, sparse
from solvers.losses import Logistic, Problem
from solvers.protocol import Block, Facts, Solver, Walk
from solvers.rows import SparseRows
from solvers.sdca import Sdca
from solvers.sgd import Asgd
from solvers.together import Together, View

SETS = {"S1": (120_000, 47_236, 75), "S2": (600_000, 1_000_000, 30)}
MODELS = (2, 8, 32)


def facts_of(n: int, d: int) -> Facts:
    """Unit rows."""
    return Facts(n, d, SparseRows, 1.0, 1.0, 1.0, n, True, 1.0, 1.0, 1, 0)


def together(solver: Solver, K: int) -> Together:
    """K models, lam falling by a factor of two from one to the next."""
    return Together(solver, tuple(View(lam=LAM * 2.0**-k) for k in range(K)))


def a_pass(
    solver: Solver, known: Facts, block: Block, *, abreast: bool = True
) -> Callable[[], Any]:
    """Return a function that makes one pass from zero weights."""
    problem = Problem(Logistic(), LAM, 1.0, LAM)
    walk = solver.program(0)[0]
    assert isinstance(walk, Walk)
    if not abreast:
        walk = walk._replace(enter=lambda state: state)

    numbers = solver.row_numbers(known) if walk.row_state != "none" else 0
    kept = np.zeros((known.n, numbers)[: min(numbers, 2)]) if numbers else block.row_state

    def run() -> None:
        kept[:] = 0.0
        state = walk.enter(solver.init(problem, known))
        walk.leave(walk.step(problem, known, state, block._replace(row_state=kept)))

    return run


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="a fiftieth of the rows, one turn")
    quick = options.parse_args().quick
    print("CPU seconds of a pass over those of one model alone")
    print("set  method  one, s" + "".join(f"  K={K:2d} side by side  in turn" for K in MODELS))
    for name, (n, d, nnz) in SETS.items():
        n //= 50 if quick else 1
        X, y = sparse(n, d, nnz)
        block, known = as_block(X, y, np.random.default_rng(1).permutation(n)), facts_of(n, d)
        for solver in (Asgd(gamma0=1.0), Sdca()):
            runs = {"one": a_pass(solver, known, block)}
            for K in MODELS:
                runs[f"{K}"] = a_pass(together(solver, K), known, block)
                runs[f"{K} in turn"] = a_pass(together(solver, K), known, block, abreast=False)
            took = least(runs, 1 if quick else 3)
            ratio = {run: seconds / took["one"] for run, seconds in took.items()}
            each = (f"  {ratio[f'{K}']:17.2f}  {ratio[f'{K} in turn']:7.2f}" for K in MODELS)
            print(f"{name}   {solver.kind:6s}{took['one']:8.3f}" + "".join(each), flush=True)


if __name__ == "__main__":
    main()
