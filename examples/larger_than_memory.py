"""A CSV file beyond the budget, a kill in between: python examples/larger_than_memory.py [MB]"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from fewpass import evaluate, ingest, train

megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 400
BUDGET = "160MB"
TRAIN = "from fewpass import train; train({data!r}, {run!r}, tol=1e-6, memory={budget!r})"

with tempfile.TemporaryDirectory() as folder:
    rows, data, run = (str(Path(folder) / name) for name in ("rows.csv", "data", "run"))
    rng = np.random.default_rng(0)
    with Path(rows).open("w") as file:
        file.write(",".join(f"x{k}" for k in range(20)) + ",y\n")
        while file.tell() < megabytes * 1_000_000:
            X = rng.standard_normal((20_000, 20)).round(4)
            y = X @ np.linspace(-1.0, 1.0, 20) + rng.logistic(size=len(X)) > 0.0
            np.savetxt(file, np.column_stack([X, y]), fmt="%.6g", delimiter=",")

    made = ingest(rows, data, label="y", test_fraction=0.1, scale="standard", memory=BUDGET)
    print(
        f"{made.rows:,} rows in {made.seconds:.1f} s, {made.bytes_in / made.seconds / 1e6:.0f} MB/s"
    )

    words = [sys.executable, "-c", TRAIN.format(data=data, run=run, budget=BUDGET)]
    killed = subprocess.Popen(words)
    try:
        killed.wait(3.0)  # a small file is done by then
    except subprocess.TimeoutExpired:
        killed.kill()
        killed.wait()
        print("killed")
    result = train(data, run, tol=1e-6, memory=BUDGET)  # goes on where the other process was
    print(f"{result.solver}, {result.passes:.3g} passes, certified to {result.certificate:.1e}")
    print(f"error on rows not seen: {evaluate(run, made.test_dataset).error:.4f}")
    assert result.converged
