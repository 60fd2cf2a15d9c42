"""What tests and the libraries that they use change for a whole process is put back after each."""

import logging
import os
import random
import signal
import sys
from types import SimpleNamespace

import dask
import numpy as np

from testing.process_state import OF_MLFLOW, all_put_back


def state():
    return (
        dict(os.environ), list(sys.path), signal.getsignal(signal.SIGTERM), dask.config.get("scheduler", None),
        logging.getLogger("distributed").level, logging.root.handlers[:],
    )  # fmt: skip


def change(own):
    os.environ["OMP_NUM_THREADS"] = "of this test"
    os.environ.pop("PATH")
    sys.path.append("of this test")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    dask.config.set(scheduler="of this test")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    logging.root.addHandler(logging.NullHandler())
    for one, (_, name) in zip(own, OF_MLFLOW, strict=True):
        setattr(one, name, "of this test")


def test_whatever_is_changed_is_as_it_was_and_draws_are_the_same(monkeypatch):
    own = [SimpleNamespace() for _ in OF_MLFLOW]
    for one, (module, _) in zip(own, OF_MLFLOW, strict=True):
        monkeypatch.setitem(sys.modules, module, one)
    before, drawn = state(), []
    for _ in range(2):
        with all_put_back():
            drawn.append((np.random.random(), random.random()))  # noqa: NPY002 - as libraries do
            change(own)
        assert state() == before
        assert [getattr(one, name) for one, (_, name) in zip(own, OF_MLFLOW, strict=True)] == [
            None
        ] * 3
    assert drawn[0] == drawn[1]
