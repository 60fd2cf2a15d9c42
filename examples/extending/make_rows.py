import numpy as np
import pyarrow as pa
from pyarrow import orc

rng = np.random.default_rng(7)
X = rng.normal(size=(3000, 8))
y = X @ rng.normal(size=8) + 0.3 * rng.normal(size=3000)

names = [f"x{j}" for j in range(8)] + ["y"]
numbers = np.column_stack([X, y])
np.savetxt("rows.csv", numbers, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
table = pa.table({name: numbers[:, j] for j, name in enumerate(names)})
orc.write_table(table, "rows.orc", stripe_size=65536)
