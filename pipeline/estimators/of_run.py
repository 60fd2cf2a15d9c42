"""An estimator out of a training's folder."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pipeline.estimators.calibrator import ScoreCalibrator
from pipeline.estimators.classifier import LinearClassifier
from pipeline.estimators.regressor import LinearRegressor
from pipeline.export.plain_model import of_run
from pipeline.scoring.calibration import Steps


def from_run(run: Any) -> LinearClassifier | LinearRegressor | ScoreCalibrator:
    """Return a fitted estimator with a run's newest model, for rows as they come.

    Of a run that was trained with `calibrate`, a `ScoreCalibrator` around it: its `predict` is the
    most probable label, where that of the model, its `estimator`, goes by the scores.

    Parameters
    ----------
    run : path
        Folder or address of a run, or of a store that has published one.

    Raises
    ------
    ValueError
        When there is no model yet, or it is for rows scaled to unit length.
    """
    plain = of_run(os.fspath(run))
    kind = LinearRegressor if plain.classes is None else LinearClassifier
    made: Any = kind(loss=plain.loss, lam=plain.lam)
    if plain.classes is None:
        made.coef_, made.intercept_ = plain.coef[0], float(plain.intercept[0])
    else:
        made.coef_, made.intercept_, made.classes_ = plain.coef, plain.intercept, plain.classes
    made.n_features_in_ = plain.coef.shape[1]
    if plain.feature_names is not None:
        made.feature_names_in_ = np.asarray(plain.feature_names, object)
    made.lam_, made.certificate_, made.run_ = plain.lam, plain.certificate, os.fspath(run)
    if plain.calibration is None:
        return made  # type: ignore[no-any-return]
    method = "isotonic" if isinstance(plain.calibration, Steps) else "platt"
    calibrated = ScoreCalibrator(made, method=method)
    calibrated.classes_, calibrated.calibration_ = made.classes_, plain.calibration
    return calibrated
