"""An estimator out of a training's folder."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from fewpass.pipeline.calibration import Calibration, Steps
from fewpass.pipeline.models.estimators.calibrator import ScoreCalibrator
from fewpass.pipeline.models.estimators.classifier import LinearClassifier
from fewpass.pipeline.models.estimators.regressor import LinearRegressor
from fewpass.pipeline.models.estimators.table_encoder import TableEncoder
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.solvers.registry import loss_class


def from_run(run: Any) -> LinearClassifier | LinearRegressor | ScoreCalibrator | Pipeline:
    """Return the newest model of a run as a fitted estimator for raw (unscaled) rows.

    If the run was trained with `calibrate`, it is wrapped in a `ScoreCalibrator`, whose `predict`
    returns the most probable label (that of its `estimator` returns the one with the highest
    score).  If `fewpass ingest` encoded the columns, it is a Pipeline that begins with a
    `TableEncoder`.

    Parameters
    ----------
    run : path
        Folder or address of a run, or of a store in which `prefect run refresh` published a model.

    Raises
    ------
    ValueError
        If there is no model yet, or if it is for rows scaled to unit length.
    """
    plain = of_run(os.fspath(run)).ascending()
    kind = LinearRegressor if plain.classes is None else LinearClassifier
    assert plain.record is not None, "a run has one"
    plan = plain.record.plan
    of_loss = {name: getattr(plan, name) for name in loss_class(plain.loss).parameters()}
    made: Any = kind(loss=plain.loss, lam=plain.lam, penalty=plan.charged, l1_ratio=plan.l1_ratio)
    made.set_params(**{name: of_loss[name] for name in of_loss.keys() & made.get_params().keys()})
    if plain.classes is None:
        made.coef_, made.intercept_ = plain.coef[0], float(plain.intercept[0])
        made.clip = plain.bounds is not None
        made.target_range_ = plain.bounds
    else:
        made.coef_, made.intercept_, made.classes_ = plain.coef, plain.intercept, plain.classes
        made.loss_ = plain.loss
    made.n_features_in_ = plain.coef.shape[1]
    if plain.feature_names is not None:
        made.feature_names_in_ = np.asarray(plain.feature_names, object)
    made._has_offset = plain.has_offset  # noqa: SLF001 - one of ours
    made.lam_, made.certificate_, made.run_ = plain.lam, plain.certificate, os.fspath(run)
    of_features = made if plain.calibration is None else _calibrated(made, plain.calibration)
    if plain.recipe is None:
        return of_features
    return make_pipeline(TableEncoder.of(plain.recipe), of_features)


def _calibrated(made: Any, calibration: Calibration) -> ScoreCalibrator:
    method = "isotonic" if isinstance(calibration, Steps) else "platt"
    calibrated = ScoreCalibrator(made, method=method)
    calibrated.classes_, calibrated.calibration_ = made.classes_, calibration
    return calibrated
