import numpy as np
from sklearn.svm import LinearSVR

from fewpass import load_model

rows = np.loadtxt("rows.csv", delimiter=",", skiprows=1)
X, y = rows[:, :-1], rows[:, -1]
theirs = LinearSVR(
    loss="squared_epsilon_insensitive",
    epsilon=0.1,
    C=1 / (2 * 0.1 * len(y)),
    fit_intercept=False,
    tol=1e-10,
    max_iter=100_000,
).fit(X, y)
for run in ("by-sdca", "by-newton"):
    ours = load_model(run).weights
    np.testing.assert_allclose(ours.coef, theirs.coef_, atol=1e-4)
print("the weights of LIBLINEAR")
