import shutil

import numpy as np

from fewpass.pipeline.tables.readers import open_source

shutil.copy("rows.orc", "no-extension")
tables = []
for name in ("rows.csv", "rows.orc", "no-extension"):
    source = open_source([name])
    tables.append([source.parse(piece).table for piece in source.pieces(20_000)])
csv, *others = [
    (np.concatenate([t.X for t in found]), np.concatenate([t.target for t in found]))
    for found in tables
]
for X, y in others:
    np.testing.assert_array_equal(X, csv[0])
    np.testing.assert_array_equal(y, csv[1])
print("the rows of the CSV file")
