"""scikit-learn's contract: its own checks, on whatever an estimator does in a way of its own."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fewpass.pipeline.models.estimators import LinearClassifier, LinearRegressor, TableEncoder

KINK = "sdca certifies a loss with a kink to tol, and the check asks for ten times more"
ONE_PASS = "a row visited twice takes two steps, one of weight 2 takes one"


def expected_failures(estimator):
    weights = (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    )
    if isinstance(estimator, TableEncoder):
        return {}
    if estimator.loss in ("hinge", "quantile", "epsilon_insensitive"):
        return dict.fromkeys(weights, KINK)
    if estimator.tol is None:
        return dict.fromkeys(weights, ONE_PASS)
    return {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LinearClassifier(),
        LinearClassifier(loss="hinge"),
        LinearClassifier(tol=None),
        LinearClassifier(solver="asgd", tol=None),
        LinearClassifier(warm_start=True),
        LinearRegressor(),
        LinearRegressor(loss="gamma"),
        LinearRegressor(loss="quantile"),
        TableEncoder(),
    ],
    expected_failed_checks=expected_failures,
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)
