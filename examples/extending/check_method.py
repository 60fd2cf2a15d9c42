import numpy as np

from fewpass import load_model

rows = np.loadtxt("rows.csv", delimiter=",", skiprows=1)
X, y = rows[:, :-1], rows[:, -1]
exact = np.linalg.solve(X.T @ X / len(y) + 0.1 * np.eye(8), X.T @ y / len(y))
ours = load_model("by-bb").weights
np.testing.assert_allclose(ours.coef, exact, atol=1e-4)
print("the weights of the closed form")
