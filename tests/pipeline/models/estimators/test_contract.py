"""scikit-learn's contract: its own checks, on whatever an estimator does in a way of its own."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fewpass import LinearClassifier, LinearRegressor, TableEncoder

ONE_PASS = "a row visited twice takes two steps, one of weight 2 takes one"


def expected_failures(estimator):
    weights = (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    )
    one_pass = not isinstance(estimator, TableEncoder) and estimator.tol is None
    return dict.fromkeys(weights, ONE_PASS) if one_pass else {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LinearClassifier(),
        LinearClassifier(tol=None),
        LinearClassifier(warm_start=True),
        LinearRegressor(),
        LinearRegressor(loss="gamma"),
        TableEncoder(),
    ],
    expected_failed_checks=expected_failures,
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)
