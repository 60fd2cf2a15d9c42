import numpy as np
from scipy.optimize import nnls

from fewpass import load_model

rows = np.loadtxt("rows.csv", delimiter=",", skiprows=1)
X, y = rows[:, :-1], rows[:, -1]
lam = 0.1
below = np.sqrt(lam * len(y)) * np.eye(X.shape[1])
theirs, _ = nnls(np.vstack([X, below]), np.append(y, np.zeros(X.shape[1])))
ours = load_model("positive").weights
np.testing.assert_allclose(ours.coef, theirs, atol=1e-4)
assert 0 < np.count_nonzero(ours.coef) < 8
assert np.array_equal(ours.coef == 0.0, theirs == 0.0)
print("the weights and the zeros of nnls")
