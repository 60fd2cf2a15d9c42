"""What libraries keep for a whole process, put back as it was: no test leans on one before it."""

import logging
import os
import pickle
import random
import signal
import sys
from contextlib import ExitStack, contextmanager

import dask.config
import numpy as np

#: Where MLflow keeps what is said once for all; None while nothing was said.
OF_MLFLOW = (
    ("mlflow.tracking.fluent", "_active_experiment_id"),
    ("mlflow.tracking._tracking_service.utils", "_tracking_uri"),
    ("mlflow.tracking._model_registry.utils", "_registry_uri"),
)


@contextmanager
def all_put_back():
    """All of it; what is drawn without a seed is the same each time."""
    np.random.seed(0)  # noqa: NPY002 - libraries draw of it
    random.seed(0)
    with ExitStack() as entered:
        for one in (environment, signals, loggers, of_dask, of_matplotlib, of_mlflow):
            entered.enter_context(one())
        yield


@contextmanager
def environment():
    """And the path of modules: Dask changes both for good where it starts workers."""
    before, path = dict(os.environ), list(sys.path)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)
    sys.path[:] = path


@contextmanager
def signals():
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@contextmanager
def loggers():
    """Levels and handlers of those that there are."""
    named = [*logging.root.manager.loggerDict.values(), logging.root]
    there = [one for one in named if isinstance(one, logging.Logger)]
    before = [(one, one.level, one.disabled, one.handlers[:]) for one in there]
    yield
    for one, level, disabled, handlers in before:
        if one.level != level:  # to say it is slow: what all others answered is forgotten
            one.setLevel(level)
        one.disabled, one.handlers[:] = disabled, handlers


@contextmanager
def of_dask():
    """Its settings; what a library that is loaded meanwhile adds to them stays."""
    before, known = pickle.dumps(dask.config.config), len(dask.config.defaults)
    yield
    if pickle.dumps(dask.config.config) != before:
        dask.config.config.clear()
        dask.config.config.update(pickle.loads(before))
        for added in dask.config.defaults[known:]:
            dask.config.update(dask.config.config, added, priority="old")


@contextmanager
def of_matplotlib():
    loaded = sys.modules.get("matplotlib")
    before = dict.copy(loaded.rcParams) if loaded else {}
    yield
    if before:
        dict.update(loaded.rcParams, before)


@contextmanager
def of_mlflow():
    yield
    for module, name in OF_MLFLOW:
        if module in sys.modules:
            setattr(sys.modules[module], name, None)
