"""A classifier on rows in memory, beside scikit-learn's: python examples/in_memory.py [ROWS]"""

import sys
import time

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fewpass import LinearClassifier

n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
X, y = make_classification(n_rows, 50, n_informative=20, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

for model in (LinearClassifier(), LogisticRegression()):
    for turn in ("first", "second"):  # the first fit on a machine compiles
        began = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - began
        print(f"{type(model).__name__}, {turn} fit: {seconds:.3f} s")
    print(f"  {model.score(X_test, y_test):.4f} of the test rows are right")

ours = LinearClassifier().fit(X_train, y_train)
print(f"Proven: the objective {ours.objective_:.6f} is at most {ours.certificate_:.1e} too high.")
assert ours.certificate_ <= 1e-6
