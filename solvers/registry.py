"""Which losses and methods there are: a word for each, and where its class is.

A loss or a method is one file, and one line here (docs/extending.md).  Its class is imported when
it is asked for, so plans and the command line know every word without numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from solvers.losses.loss import Loss

LOSSES = {
    "hinge": "solvers.losses.hinge:Hinge",
    "squared_hinge": "solvers.losses.squared_hinge:SquaredHinge",
    "smoothed_hinge": "solvers.losses.smoothed_hinge:SmoothedHinge",
    "logistic": "solvers.losses.logistic:Logistic",
    "squared": "solvers.losses.squared:Squared",
    "huber": "solvers.losses.huber:Huber",
}

METHODS = {
    "sgd": "solvers.sgd.averaged_sgd:Sgd",
    "asgd": "solvers.sgd.averaged_sgd:Asgd",
    "onepass": "solvers.onepass.onepass:Onepass",
    "pegasos": "solvers.dual.pegasos:Pegasos",
    "s2gd": "solvers.s2gd.s2gd:S2gd",
    "s2gd+": "solvers.s2gd.s2gd:S2gdPlus",
    "svrg": "solvers.s2gd.s2gd:Svrg",
    "sdca": "solvers.dual.sdca:Sdca",
    "psdca": "solvers.dual.psdca:Psdca",
    "asdca": "solvers.dual.asdca:Asdca",
    "gd": "solvers.batch.gd:Gd",
    "agd": "solvers.batch.agd:Agd",
    "sag": "solvers.sag:Sag",
    "sag+": "solvers.sag:SagPlus",
    "lbfgs": "solvers.batch.lbfgs:Lbfgs",
    "newton": "solvers.batch.newton:Newton",
    "simba": "solvers.simba.simba:Simba",
}

if TYPE_CHECKING:  # a checker cannot read dictionaries; at run time only their words are taken
    LossName = str
else:
    LossName = Literal[tuple(LOSSES)]


def loss_class(word: str) -> type[Loss]:
    """Return the loss of that word; KeyError where there is none."""
    found: type[Loss] = _imported(LOSSES[word])
    return found


def method_class(word: str) -> Any:
    """Return the method of that word, a `solvers.protocol.Settings`; KeyError where none is."""
    return _imported(METHODS[word])


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
