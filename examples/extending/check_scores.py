import numpy as np
from sklearn.linear_model import Ridge

from fewpass import load_model

rows = np.loadtxt("classes.csv", delimiter=",", skiprows=1)
X, targets = rows[:, :-1], np.eye(3)[rows[:, -1].astype(int)]
theirs = Ridge(alpha=0.1 * len(X), fit_intercept=False, tol=1e-12).fit(X, targets)
np.testing.assert_allclose(load_model("by-psdca").weights.coef, theirs.coef_, atol=1e-5)
print("the weights of three ridge regressions")
